"""Groups of messages (JMSXGroupID): all messages of a group go to the same consumer as long as it is there.

Rule: a group belongs to the consumer that got its first message, until that one ends, the group is closed
(JMSXGroupSeq:-1), or groups are dealt out anew. When an edge was given up two may hold messages of it: it passes to the
second when the first one ends. Kept in memory: one entry per group, or per bucket. Must not know queues or messages.
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

    __slots__ = ("_heirs", "_owners", "buckets")

    def __init__(self, buckets: int) -> None:
        self.buckets = buckets
        self._owners: dict[Group, int] = {}
        self._heirs: dict[Group, dict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def of(self, head: bytes) -> Group | None:
        """The group a message belongs to; None: none."""
        name = raw(head, _ID)
        if not name:
            return None
        # A hash that is the same on every replica and after a restart: hash() is not.
        return name if self.buckets < 0 else crc32(name) % self.buckets

    def owner(self, group: Group) -> int | None:
        """The consumer it belongs to; None: nobody."""
        return self._owners.get(group)

    def give(self, group: Group, consumer: int) -> None:
        """It belongs to that consumer from now on."""
        self._owners[group] = consumer

    def claim(self, group: Group, consumer: int) -> None:
        """It has come back with messages of the group. Who has been handed others since keeps it as long as he is
        there."""
        # Two consumers hold messages of one group only after an edge was given up; nothing new goes to the heir
        # before.
        if self._owners.setdefault(group, consumer) != consumer:
            self._heirs.setdefault(group, {})[consumer] = None

    def close(self, group: Group, head: bytes) -> None:
        """If this is its last message, by what it says, the next one begins a new group."""
        # The last message itself still goes to its owner: asked when it is known whose it is.
        if raw(head, _SEQUENCE) == b"-1":
            self._owners.pop(group, None)
            self._heirs.pop(group, None)

    def leave(self, consumer: int) -> None:
        """The consumer has ended: its groups belong to who else holds some of them, or to nobody."""
        if self._heirs:
            for heirs in self._heirs.values():
                heirs.pop(consumer, None)
            self._heirs = {group: heirs for group, heirs in self._heirs.items() if heirs}
        # As many steps as there are groups, once for each consumer that ends: with buckets, that many at most.
        left, self._owners = self._owners, {}
        for group, owner in left.items():
            if owner != consumer:
                self._owners[group] = owner
            elif group in self._heirs:
                self._owners[group] = next(iter(self._heirs[group]))

    def clear(self) -> None:
        """No group belongs to a consumer."""
        self._owners.clear()
        self._heirs.clear()
