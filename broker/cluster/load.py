"""How many connections each edge has: told to the other edges and to what scales them, in `load/<edge>`.

Rule: one small write when the number has changed by a tenth, and at most one in EVERY_S; the key goes with the
registration. Must not know sessions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from broker.metadata.port import Change, Metadata, MetadataRefused, MetadataUnavailable

from .keys import Keys, last_part
from .membership import Membership
from .watched import Watched

log = logging.getLogger("stampede.cluster")

EVERY_S = 5.0


class Load(msgspec.Struct, frozen=True):
    """The value of `load/<id>`."""

    connections: int


class Loads:
    """`others`: connections of the other edges, by id. `count()`: our own now."""

    def __init__(self, metadata: Metadata, keys: Keys, membership: Membership, count: Callable[[], int]) -> None:
        self._metadata = metadata
        self._membership = membership
        self._count = count
        self._me = membership.me.id
        self._key = keys.load_of(self._me)
        self._written: tuple[int, int] = (-1, 0)  # (connections, lease)
        self._watched = Watched(metadata, keys.loads, self._apply)
        self.others: dict[str, int] = {}

    async def start(self) -> None:
        """Raises MetadataRefused."""
        await self._watched.start()

    async def stop(self) -> None:
        await self._watched.stop()

    async def tell(self) -> None:
        """Call it every EVERY_S."""
        count, lease = self._count(), self._membership.lease
        before, under = self._written
        if not lease or (lease == under and abs(count - before) * 10 <= max(before, 9)):
            return
        try:
            await self._metadata.put(self._key, msgspec.json.encode(Load(count)), lease)
            self._written = (count, lease)
        except (MetadataUnavailable, MetadataRefused) as error:
            log.debug("%s: %s", self._key, error)

    def _apply(self, changes: list[Change]) -> None:
        for change in changes:
            name = last_part(change.key)
            if name == self._me:
                continue
            if change.value is None:
                self.others.pop(name, None)
                continue
            try:
                self.others[name] = msgspec.json.decode(change.value, type=Load).connections
            except msgspec.DecodeError as error:
                log.error("%s is not a load: %s", change.key, error)
