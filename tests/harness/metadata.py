"""The metadata store in memory: what etcd does, without etcd, and the faults of a network on the way to it.

`MemoryStore` is the server, one for all; `MemoryMetadata` is one process's client of it. tests/unit/metadata holds
both this and the real client to the same contract.

Rule: answers what etcd would answer, revisions and error texts' kinds included. Time comes from the clocks given.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from broker.metadata.lease import KeptLease
from broker.metadata.port import (
    Change,
    Compacted,
    Delete,
    KeyValue,
    MetadataRefused,
    MetadataUnavailable,
    Put,
)
from broker.seams.clock import Clock, SystemClock

MAX_OPERATIONS = 128
MIN_TTL_S = 1


@dataclass(slots=True)
class Granted:
    ttl_s: float
    until: float
    keys: set[str] = field(default_factory=set)


class MemoryStore:
    """later(seconds, callback) runs the store's own timers; by default the loop that runs when it is first needed."""

    def __init__(
        self, clock: Clock | None = None, later: Callable[[float, Callable[[], None]], Any] | None = None
    ) -> None:
        self.clock = clock or SystemClock()
        self.revision = 1
        self.compacted = 0
        self.keys: dict[str, KeyValue] = {}
        self.history: list[Change] = []
        self.leases: dict[int, Granted] = {}
        self.down = False
        self._later = later
        self._last_lease = 0
        self._waiting: dict[asyncio.Future[None], None] = {}  # ordered: a simulation must repeat itself

    # ── faults ───────────────────────────────────────────────────────────────────────────────────

    def stop(self) -> None:
        """Nobody gets an answer until start()."""
        self.down = True
        self.wake()

    def start(self) -> None:
        """Leases begin anew, as after a restart of etcd."""
        self.down = False
        for lease, granted in self.leases.items():
            self._extend(lease, granted)
        self.wake()

    def compact(self, revision: int) -> None:
        """Forgets the history before `revision`."""
        self.compacted = max(self.compacted, min(revision, self.revision))
        self.history = [change for change in self.history if change.revision >= self.compacted]
        self.wake()

    # ── what clients ask ─────────────────────────────────────────────────────────────────────────

    def range(self, prefix: str) -> tuple[list[KeyValue], int]:
        return [self.keys[key] for key in sorted(self.keys) if key.startswith(prefix)], self.revision

    def commit(self, compare: Sequence[tuple[str, int]], then: Sequence[Put | Delete]) -> int:
        if len(then) > MAX_OPERATIONS or len(compare) > MAX_OPERATIONS:
            raise MetadataRefused("too many operations in txn request")
        if len({action.key for action in then}) < len(then):
            raise MetadataRefused("duplicate key given in txn request")
        for key, revision in compare:
            found = self.keys.get(key)
            if (found.revision if found else 0) != revision:
                return 0
        for action in then:
            if isinstance(action, Put) and action.lease and action.lease not in self.leases:
                raise MetadataRefused("requested lease not found")
        changes = [a for a in then if isinstance(a, Put) or a.key in self.keys]
        if changes:
            self.revision += 1
            for action in changes:
                self._apply(action)
            self.wake()
        return self.revision

    def changes(self, prefix: str, revision: int) -> list[Change]:
        if revision < self.compacted:
            raise Compacted(f"the history before revision {self.compacted} is gone")
        start = bisect_left(self.history, revision, key=lambda change: change.revision)
        return [change for change in islice(self.history, start, None) if change.key.startswith(prefix)]

    def grant(self, ttl_s: float) -> tuple[int, float]:
        self._last_lease += 1
        granted = Granted(float(max(math.ceil(ttl_s), MIN_TTL_S)), 0.0)
        self.leases[self._last_lease] = granted
        self._extend(self._last_lease, granted)
        return self._last_lease, granted.ttl_s

    def renew(self, lease: int) -> float:
        granted = self.leases.get(lease)
        if granted is None:
            return 0.0
        self._extend(lease, granted)
        return granted.ttl_s

    def revoke(self, lease: int) -> None:
        granted = self.leases.pop(lease, None)
        if granted is not None:
            self.commit([], [Delete(key) for key in sorted(granted.keys)])

    async def changed(self) -> None:
        """Returns when something happened, perhaps nothing of interest."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = None
        try:
            await future
        finally:
            del self._waiting[future]

    def wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    def _apply(self, action: Put | Delete) -> None:
        key = action.key
        old = self.keys.pop(key, None)
        if old is not None and old.lease in self.leases:
            self.leases[old.lease].keys.discard(key)
        if isinstance(action, Put):
            self.keys[key] = KeyValue(key, action.value, self.revision, action.lease)
            if action.lease:
                self.leases[action.lease].keys.add(key)
            self.history.append(Change(key, action.value, self.revision, action.lease))
        else:
            self.history.append(Change(key, None, self.revision))

    def _extend(self, lease: int, granted: Granted) -> None:
        granted.until = self.clock.monotonic() + granted.ttl_s
        later = self._later or asyncio.get_running_loop().call_later
        later(granted.ttl_s, lambda: self._expire(lease))

    def _expire(self, lease: int) -> None:
        granted = self.leases.get(lease)
        if granted is not None and not self.down and granted.until <= self.clock.monotonic() + 1e-6:
            self.revoke(lease)


class MemoryMetadata:
    """One process's client.

    latency       seconds of each way, asked per way.
    lose_answer   asked once per request that was carried out: True, and nobody hears of it.
    """

    def __init__(self, store: MemoryStore, clock: Clock | None = None, timeout_s: float = 3.0) -> None:
        self.store = store
        self.latency: Callable[[], float] = lambda: 0.0
        self.lose_answer: Callable[[], bool] = lambda: False
        self._clock = clock or SystemClock()
        self._timeout_s = timeout_s
        self._cut = False
        self._leases: list[KeptLease] = []
        self.rewound = ""

    # ── faults ───────────────────────────────────────────────────────────────────────────────────

    def cut(self) -> None:
        """Between this process and the store nothing passes until heal()."""
        self._cut = True
        self.store.wake()

    def heal(self) -> None:
        self._cut = False
        self.store.wake()

    # ── port.Metadata ────────────────────────────────────────────────────────────────────────────

    async def get(self, key: str) -> KeyValue | None:
        return await self._ask(lambda: self.store.keys.get(key))

    async def range(self, prefix: str) -> tuple[list[KeyValue], int]:
        return await self._ask(lambda: self.store.range(prefix))

    async def commit(self, compare: Sequence[tuple[str, int]], then: Sequence[Put | Delete]) -> int:
        compare, then = tuple(compare), tuple(then)
        return await self._ask(lambda: self.store.commit(compare, then))

    async def put(self, key: str, value: bytes, lease: int = 0) -> int:
        return await self._ask(lambda: self.store.commit([], [Put(key, value, lease)]))

    async def delete(self, key: str) -> bool:
        return await self._ask(lambda: key in self.store.keys and self.store.commit([], [Delete(key)]) > 0)

    async def watch(self, prefix: str, revision: int) -> AsyncIterator[list[Change]]:
        while True:
            if self._reachable:
                changes = self.store.changes(prefix, revision)
                if changes:
                    await self._travel()
                    if self._reachable:
                        yield changes
                        revision = changes[-1].revision + 1
                    continue
                revision = max(revision, self.store.revision + 1)
            await self.store.changed()

    async def grant(self, ttl_s: float) -> KeptLease:
        asked_at = self._clock.monotonic()
        id, granted_s = await self._ask(lambda: self.store.grant(ttl_s))
        lease = KeptLease(id, granted_s, asked_at, self._clock, self._renew, self.revoke)
        self._leases.append(lease)
        return lease

    async def revoke(self, lease: int) -> None:
        await self._ask(lambda: self.store.revoke(lease))

    async def close(self) -> None:
        for lease in self._leases:
            lease.stop("closed")

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    @property
    def _reachable(self) -> bool:
        return not (self._cut or self.store.down)

    async def _renew(self, lease: int) -> float:
        return await self._ask(lambda: self.store.renew(lease))

    async def _travel(self) -> None:
        seconds = self.latency()
        if seconds > 0:
            await asyncio.sleep(seconds)

    async def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._travel()
                while not self._reachable:
                    await self.store.changed()
                answer = question()
                await self._travel()
                while not self._reachable or self.lose_answer():
                    await asyncio.get_running_loop().create_future()
                return answer
        except TimeoutError:
            raise MetadataUnavailable("the metadata store does not answer") from None
