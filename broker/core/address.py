"""Routing types, ack modes and what an address is allowed to do: the vocabulary of destinations.

Rule: enumerations and value objects only; parsing of STOMP destinations is a dialect's affair (edge).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

TEMPORARY: Final = "$temp."
"""Beginning of the addresses of temporary destinations (edge/destinations/temporary.py). No client can name one but by
its opaque name, no wildcard stands for one, and nobody's settings or permissions are about one."""
RECURRING: Final = "$scheduled."
"""Beginning of the addresses where messages rest that are sent again and again (engine/publishing/recurring.py), before
the address they are for. No client can name one; operators can."""


class Routing(IntEnum):
    """How an address hands a message to its queues (Artemis' address model)."""

    UNSET = 0
    """Neither header nor prefix said: one anycast queue *and* every multicast queue."""
    ANYCAST = 1
    """Exactly one queue gets it."""
    MULTICAST = 2
    """Every queue gets it."""


class AckMode(IntEnum):
    """STOMP `ack` header of SUBSCRIBE."""

    AUTO = 0
    CLIENT = 1
    """Cumulative within this subscription (C43)."""
    INDIVIDUAL = 2


class Outcome(IntEnum):
    """What a consumer says of a message it was given."""

    ACK = 1
    """Consumed: gone."""
    NACK = 2
    """Failed: count, delay, retry or dead-letter by the address settings."""
    RETURN = 3
    """Given back unharmed (aborted transaction): head of the queue, counted as a delivery, no delay."""
    REJECT = 4
    """NACK with `requeue:false`: to the dead-letter address at once."""
    UNREADABLE = 5
    """Never delivered: its large body cannot be read. To the dead-letter address; from there, and where there is none,
    it goes for good. Another owner, who leads before that has happened, hands it out as its own disk has it."""
