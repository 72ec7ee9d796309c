"""STOMP 1.0, 1.1 and 1.2 without sockets: bytes in, events out; values in, frames out.

Rule: sans-IO. The caller owns the socket and the clock; this room owns the grammar and the legality of frames.
"""
