"""Stampede: a message broker that speaks STOMP 1.0, 1.1 and 1.2."""

__version__ = "0.1.0"
