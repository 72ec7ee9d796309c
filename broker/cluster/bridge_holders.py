"""Which edge runs which bridge: a key for each, on the lease of the edge's registration.

Of the edges that live, one is the first choice for a bridge (a hash of both names), so that they are spread; the other
edges wait a little longer each before they claim what is free. The edge that has one keeps it while it lives.

Rule: an edge without the key does not run it. Two may run one for a moment, when etcd has let a lease go that its edge
still believes in: then a message may come twice where the target knows no ids, and is never lost. Must not know what a
bridge does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from hashlib import blake2b

import msgspec

from broker.metadata.port import Change, Delete, KeyValue, Metadata, MetadataRefused, MetadataUnavailable, Put

from .keys import Keys, last_part
from .membership import Membership
from .tasks import Tasks
from .watched import Watched

log = logging.getLogger("stampede.cluster")

EVERY_S = 0.5
STEP_S = 1.0
"""So much longer each edge waits that is a later choice …"""
MOST_STEPS = 5
"""… but not for more of them."""


class BridgeHolder(msgspec.Struct, frozen=True):
    """The value of `bridges/<name>`: who runs it."""

    id: str
    boot: str


class BridgeHolders:
    """wanted()   names of the bridges that an edge should run.    changed()   called when it may be others that are
    held here."""

    def __init__(
        self,
        metadata: Metadata,
        keys: Keys,
        membership: Membership,
        wanted: Callable[[], set[str]],
        changed: Callable[[], None],
    ) -> None:
        self._metadata = metadata
        self._keys = keys
        self._membership = membership
        self._wanted = wanted
        self._changed = changed
        self._watched = Watched(metadata, keys.bridges, lambda _: changed())
        self._free: dict[str, float] = {}
        """Bridge → since when nobody is known to have it."""
        self._tasks = Tasks()

    async def start(self) -> None:
        """Raises MetadataRefused."""
        await self._watched.start()
        self._tasks.spawn(self._keep(), "bridges of this edge")

    async def stop(self) -> None:
        """What is held goes with the registration."""
        await self._tasks.close()
        await self._watched.stop()

    def held(self, name: str) -> bool:
        """By this process, on its present lease, as far as it knows."""
        item = self._watched.items.get(self._keys.bridge_run(name))
        return item is not None and item.lease == self._membership.lease != 0 and self._mine(item)

    def holder(self, name: str) -> str:
        """Which edge runs it; "": none is known."""
        item = self._watched.items.get(self._keys.bridge_run(name))
        return holder.id if item is not None and (holder := _holder(item)) is not None else ""

    async def _keep(self) -> None:
        while True:
            try:
                await self._round()
            except (MetadataUnavailable, MetadataRefused) as error:
                log.debug("bridges: %s", error)
            self._changed()
            await asyncio.sleep(EVERY_S)

    async def _round(self) -> None:
        wanted, now = self._wanted(), asyncio.get_running_loop().time()
        for name in sorted(wanted):
            item = self._watched.items.get(self._keys.bridge_run(name))
            if item is not None and not (self._mine(item) and item.lease != self._membership.lease):
                self._free.pop(name, None)
            elif now - self._free.setdefault(name, now) >= STEP_S * self._choice(name):
                await self._claim(name, item)
        for key, item in list(self._watched.items.items()):
            if self._mine(item) and last_part(key) not in wanted:
                await self._metadata.commit([(key, item.revision)], [Delete(key)])

    def _choice(self, name: str) -> int:
        """0: this edge is the first one to take it."""
        edges = sorted(self._membership.edges, key=lambda id: blake2b(f"{name}/{id}".encode(), digest_size=8).digest())
        me = self._membership.me.id
        return min(edges.index(me), MOST_STEPS) if me in edges else MOST_STEPS

    async def _claim(self, name: str, item: KeyValue | None) -> None:
        lease, key = self._membership.lease, self._keys.bridge_run(name)
        if not lease:
            return
        me = self._membership.me
        value = msgspec.json.encode(BridgeHolder(me.id, me.boot))
        revision = await self._metadata.commit([(key, item.revision if item else 0)], [Put(key, value, lease)])
        if not revision:
            await self._watched.refresh()
            return
        self._watched.adopt(Change(key, value, revision, lease))
        log.info("bridge %s is run here", name)

    def _mine(self, item: KeyValue) -> bool:
        holder, me = _holder(item), self._membership.me
        return holder is not None and (holder.id, holder.boot) == (me.id, me.boot)


def _holder(item: KeyValue) -> BridgeHolder | None:
    """None: not readable."""
    try:
        return msgspec.json.decode(item.value, type=BridgeHolder)
    except msgspec.DecodeError as error:
        log.error("%s: %s", item.key, error)
        return None
