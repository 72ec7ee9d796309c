"""STOMP over WebSocket: the upgrade of HTTP, frames of both ways, and the channel that a session sees.

Rule: a session cannot tell it from TCP, but for what a client of texts may be sent. Must not know STOMP.
"""
