"""Shared helpers: a real broker in a process of its own, and a STOMP client that hides nothing.

Rule: nothing here imports broker.wire: the tests must not share the product's opinion of the protocol.
"""

from .broker import Broker, free_ports
from .folders import scratch
from .stomp import Client, Frame, build, unescape
from .waiting import listens, until

__all__ = ["Broker", "Client", "Frame", "build", "free_ports", "listens", "scratch", "unescape", "until"]
