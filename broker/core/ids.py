"""Identifiers, and the one function that says which slot owns an address.

Rule: plain ints and strings with names; the mapping address → slot never changes once data exists.
"""

from __future__ import annotations

from typing import Final, NewType
from zlib import crc32

SlotId = NewType("SlotId", int)
"""A partition, 0 … SLOTS-1. Everything an address owns (queues, messages, subscriptions) lives in one."""

MessageId = NewType("MessageId", int)
"""Number of a message inside its slot: consecutive, never reused, starts at 1."""

QueueId = NewType("QueueId", int)
"""Number of a queue inside its slot; never reused, because settle records name it. Starts at 1."""

SessionId = NewType("SessionId", int)
"""Number of a client connection, unique for the life of one edge process. Never 0."""

ConsumerId = NewType("ConsumerId", int)
"""Number of one subscription part (subscription × slot), unique for the life of one edge process. Never 0."""

Seq = NewType("Seq", int)
"""Number of a request inside its session: consecutive from 1 in frame order; 0 = nobody waits for it."""

SLOTS: Final = 256
"""Fixed for ever: the number is part of the data format (ADR 2)."""


def slot_of(address: str) -> SlotId:
    """The slot that owns `address`. CRC-32 (IEEE): stable across versions, platforms and languages."""
    return SlotId(crc32(address.encode()) % SLOTS)


def slots_of(address: str, partitions: int) -> tuple[SlotId, ...]:
    """The slots that share a split address, all different; partition 0 is slot_of(address).

    Partition k: CRC-32 of `<address> NUL <k>`, or the next slot that none before it has. So the slots of n partitions
    are the first n of those of any larger number: adding partitions moves none. At most SLOTS."""
    slots = [slot_of(address)]
    for k in range(1, min(partitions, SLOTS)):
        slot = slot_of(f"{address}\0{k}")
        while slot in slots:
            slot = SlotId((slot + 1) % SLOTS)
        slots.append(slot)
    return tuple(slots)
