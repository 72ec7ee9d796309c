"""Transports and sessions: events of the wire become commands, effects become frames.

Rule: holds no message that it cannot ask for again (but an open transaction, which ends with the connection).
"""
