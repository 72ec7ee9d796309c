"""Groups of messages (JMSXGroupID): all messages of a group go to the same consumer as long as it is there.

Rule: a group belongs to whoever got its first message, until that one ends, the group is closed (JMSXGroupSeq:-1), or
groups are dealt out anew. Kept in memory: one entry per group, or per bucket. Must not know queues or messages.
"""

from __future__ import annotations

from typing import TypeAlias
from zlib import crc32

from broker.selector.heads import key, raw

Group: TypeAlias = "bytes | int | tuple[Group, int]"
"""The raw value of the header, or the bucket it falls into; a pair: the part of it that matches other selectors."""

_ID, _SEQUENCE = key("JMSXGroupID"), key("JMSXGroupSeq")


class Groups:
    """buckets: groups are hashed into so many; < 0: each is known by its name."""

    __slots__ = ("_owners", "buckets")

    def __init__(self, buckets: int) -> None:
        self.buckets = buckets
        self._owners: dict[Group, int] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def of(self, head: bytes) -> Group | None:
        """The group a message belongs to; None: none."""
        name = raw(head, _ID)
        if not name:
            return None
        return name if self.buckets < 0 else crc32(name) % self.buckets

    def owner(self, group: Group) -> int | None:
        """The consumer it belongs to; None: nobody."""
        return self._owners.get(group)

    def give(self, group: Group, consumer: int) -> None:
        """It belongs to that consumer from now on."""
        self._owners[group] = consumer

    def close(self, group: Group, head: bytes) -> None:
        """If this is its last message, by what it says, the next one begins a new group."""
        if raw(head, _SEQUENCE) == b"-1":
            self._owners.pop(group, None)

    def leave(self, consumer: int) -> None:
        """The consumer has ended: its groups belong to nobody."""
        self._owners = {group: owner for group, owner in self._owners.items() if owner != consumer}

    def clear(self) -> None:
        """Nothing belongs to anybody."""
        self._owners.clear()
