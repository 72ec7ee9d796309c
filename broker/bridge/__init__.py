"""Bridges: messages of a queue or topic go to another broker's, or come from there, over STOMP.

Rule: a client of both ends and nothing else; what is taken is acknowledged only after the target's receipt.
"""
