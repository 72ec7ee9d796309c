"""A cluster of any size on virtual clocks, and what each of its parts has to do: `python -m tests.scaling`.

Rule: the production processes of owners and edges, their placement, replication and links, over simulated files,
streams, clocks and etcd (tests/sim); what is counted is what they really send, ask and compute. Nothing fails but what
is told to. Of an edge the STOMP side is left out.

Messages, bytes, watches and writes are exact. Computing is that of this machine, simulator included (each message of a
simulated stream costs some microseconds that gRPC would cost otherwise): its growth counts, not its height.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from broker.cluster.keys import Keys
from broker.config.settings import (
    AdminSettings,
    ClusterSettings,
    EdgeSettings,
    EtcdSettings,
    JournalSettings,
    MemorySettings,
    Settings,
)
from broker.core.address import AckMode, Routing
from broker.core.commands import Subscribe
from broker.core.effects import Done
from broker.core.ids import SLOTS
from broker.core.slots import SlotRecord
from broker.metadata.port import Change, Delete, Put
from tests.sim.cluster_processes import PREFIX, EdgeLife, OwnerLife, seams
from tests.sim.cluster_world import STORE, Host, SimMetadata, SimStore, World
from tests.sim.network import SimStream
from tests.sim.virtual_loop import Due, Place, VirtualLoop

KEYS = Keys(PREFIX)


class ReadyQueue(deque[Due]):
    """Of one place: tells the loop when something has come, so that nobody looks through a thousand places."""

    def __init__(self, place: Place, able: deque[Place]) -> None:
        super().__init__()
        self._place = place
        self._able = able

    def append(self, due: Due) -> None:
        if not self:
            self._able.append(self._place)
        super().append(due)


class BigLoop(VirtualLoop):
    """Places take turns, in the order in which they have something to do; what each computes is measured."""

    def __init__(self, seed: int) -> None:
        self.able: deque[Place] = deque()
        self.used: Counter[str] = Counter()
        """Nanoseconds by name of the host."""
        super().__init__(seed)
        self.world.ready = ReadyQueue(self.world, self.able)

    def place(self, name: str, start: float = 0.0, rate: float = 1.0) -> Place:
        place = super().place(name, start, rate)
        place.ready = ReadyQueue(place, self.able)
        return place

    def step(self, end: float) -> bool:
        if self.failure is not None:
            raise self.failure
        if not self.able:
            return self._jump(end)
        place = self.able.popleft()
        ready, clock = place.ready, time.perf_counter_ns
        began = clock()
        for _ in range(len(ready)):
            if not ready:
                break  # it died
            due = ready.popleft()
            if not due._cancelled:
                self.steps += 1
                self.now += 1e-9
                try:
                    due._context.run(due._callback, *due._args)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:
                    self.on_error(place, error)
        self.used[place.name] += clock() - began
        if ready and place.alive and place not in self.able:
            self.able.append(place)
        return True


class BigStore(SimStore):
    """Wakes those whose keys have changed, as etcd does, and no other; counts what it is asked."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop)
        self.asked: Counter[str] = Counter()
        self.watched: dict[str, dict[Any, None]] = {}
        self.watches = 0

    def _apply(self, action: Put | Delete) -> None:
        super()._apply(action)
        self.asked["writes"] += 1
        for prefix, waiting in self.watched.items():
            if action.key.startswith(prefix):
                for future in waiting:
                    if not future.done():
                        future.set_result(None)

    def renew(self, lease: int) -> float:
        self.asked["renewals"] += 1
        return super().renew(lease)


class BigMetadata(SimMetadata):
    store: BigStore

    async def watch(self, prefix: str, revision: int) -> AsyncIterator[list[Change]]:
        store = self.store
        waiting = store.watched.setdefault(prefix, {})
        store.watches += 1
        try:
            while True:
                changes = store.changes(prefix, revision)
                if changes:
                    await self._travel()
                    store.asked["watch events"] += len(changes)
                    yield changes
                    revision = changes[-1].revision + 1
                    continue
                revision = max(revision, store.revision + 1)
                future = self._host.world.loop.create_future()
                waiting[future] = None
                try:
                    await future
                finally:
                    del waiting[future]
        finally:
            store.watches -= 1

    async def _ask(self, question: Callable[[], Any]) -> Any:
        self.store.asked["requests"] += 1
        return await super()._ask(question)


class BigHost(Host):
    def metadata(self, timeout_s: float) -> SimMetadata:
        return BigMetadata(self, timeout_s)

    def io_delay(self) -> float:
        return 0.001


class BigWorld(World):
    """Nothing is drawn against it: no faults, no skews, the latencies of one data centre."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.loop = BigLoop(seed)
        self.loop.on_error = self._on_error
        self.network = type(self.network)(self.loop, seed)
        self.network.habit = (0.0002, 0.0005)
        self.store = BigStore(self.loop)
        self.flaky = 0.0
        self.skews_ms = (0,)

    def host(self, name: str, kind: str, program: Callable[[Host], Any]) -> Host:
        host = self.hosts[name] = BigHost(self, name, kind, program)
        return host


def kind_of(name: str) -> str:
    return name.partition("-")[0]


@dataclass
class Seen:
    """What was counted between two looks. `streams` stand at its end; computing is in milliseconds, by kind of host."""

    seconds: float = 0.0
    messages: Counter[str] = field(default_factory=Counter)
    nbytes: Counter[str] = field(default_factory=Counter)
    store: Counter[str] = field(default_factory=Counter)
    used_ms: Counter[str] = field(default_factory=Counter)


class Cluster:
    """owners and edges at rest. Use as a context; look(seconds) lets time pass and tells what was done in it."""

    def __init__(self, owners: int, edges: int, zones: int = 1) -> None:
        self.world = BigWorld(owners * 10_007 + edges)
        self.owners, self.edges = owners, edges
        self.loop: BigLoop = self.world.loop  # type: ignore[assignment]  # its World's is of a wider type
        self.store: BigStore = self.world.store  # type: ignore[assignment]
        self.ports: dict[str, Any] = {}
        self.records: dict[int, SlotRecord] = {}
        self._zones = zones
        self._messages: Counter[str] = Counter()
        self._nbytes: Counter[str] = Counter()
        self._stack = ExitStack()
        self.settings = Settings(
            data="/data",
            edge=EdgeSettings(drain_timeout_s=1.0),
            admin=AdminSettings(port=-1),
            memory=MemorySettings(limit_bytes=-1),
            journal=JournalSettings(
                segment_bytes=1 << 20, min_free_bytes=0
            ),  # a simulated disk keeps what is allocated
            cluster=ClusterSettings(kept_body_bytes=0),
            etcd=EtcdSettings(prefix=PREFIX),
        )

    def __enter__(self) -> Cluster:
        try:
            self._begin()
        except BaseException:
            self._stack.close()  # what is patched is everybody's
            raise
        return self

    def _begin(self) -> None:
        seams(self.world, self._stack, SLOTS)
        logger = logging.getLogger("stampede")
        self._stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
        self._count_streams()
        self.store.listeners.append(self._on_change)
        for n in range(self.owners):
            self._owner(n)
        for n in range(self.edges):
            self.edge(n)
        self._stack.enter_context(self.loop.running())
        # Owners first, as a StatefulSet has them; all edges at once, as a balancer that comes back would.
        for host in self.world.of("owner"):
            host.start()
        self.until(self.led, 60.0, "the slots have leaders")
        for host in self.world.of("edge"):
            host.start()
        self.until(self.at_rest, 120.0, "the cluster is at rest")

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _named(self, name: str, number: int) -> Settings:
        cluster = replace(
            self.settings.cluster, id=name, advertise=f"{name}:61700", zone=f"zone-{number % self._zones}"
        )
        return replace(self.settings, cluster=cluster)

    def _owner(self, number: int) -> Host:
        name = f"owner-{number}"
        return self.world.host(name, "owner", partial(OwnerLife, self._named(name, number)))

    def edge(self, number: int) -> Host:
        """Another one, not started yet."""
        name = f"edge-{number}"
        return self.world.host(name, "edge", partial(EdgeLife, self._named(name, number), self._attach))

    def _attach(self, host: Host, port: Any) -> None:
        self.ports[host.name] = port

    def _count_streams(self) -> None:
        """Who sends what to whom, from the kinds of the two hosts."""
        messages, nbytes = self._messages, self._nbytes
        send = SimStream.send

        def counted(stream: SimStream, message: bytes) -> None:
            if not stream.over:
                way = f"{kind_of(stream.host)} → {kind_of(stream.other.host)}"
                messages[way] += 1
                nbytes[way] += len(message)
            send(stream, message)

        SimStream.send = counted  # type: ignore[method-assign]
        self._stack.callback(setattr, SimStream, "send", send)

    # ── what is so ─────────────────────────────────────────────────────────────────────────────────

    def _on_change(self, change: Change) -> None:
        if change.key.startswith(KEYS.slots) and change.value is not None:
            slot = int(change.key.removeprefix(KEYS.slots))
            self.records[slot] = SlotRecord.decode(slot, change.value, change.revision)

    def led(self) -> bool:
        return len(self.records) == SLOTS and all(record.leader for record in self.records.values())

    def at_rest(self) -> bool:
        want = min(self.settings.cluster.replicas, self.owners)
        records = self.records.values()
        if not self.led() or any(len(r.isr) < want or r.target for r in records):
            return False
        if any(host.up and (host.process is None or not host.process.started) for host in self.world.hosts.values()):
            return False
        lives = [host.process.process for host in self.world.of("owner") if host.up]
        return sum(process.lifecycle.serving() for process in lives) == SLOTS

    def streams(self) -> Counter[str]:
        """Those that stand, by the kinds of who dialled and who was dialled."""
        found: Counter[str] = Counter()
        for stream in self.world.network._streams:
            if stream.host != STORE and stream is stream._connection.near:
                found[f"{kind_of(stream.host)} → {kind_of(stream.other.host)}"] += 1
        return found

    # ── time ───────────────────────────────────────────────────────────────────────────────────────

    def until(self, done: Callable[[], bool], limit: float, what: str) -> float:
        """Virtual seconds that it took, looked at each 5 ms."""
        began = self.loop.now
        while not done():
            if self.loop.now - began > limit:
                raise AssertionError(f"not within {limit:.0f} s: {what}; {self.world.diary[-3:]}")
            self.loop.run_for(0.005)
        return self.loop.now - began

    def look(self, seconds: float) -> Seen:
        return self.during(lambda: self.loop.run_for(seconds))

    def during(self, act: Callable[[], Any]) -> Seen:
        before = (self.loop.now, Counter(self._messages), Counter(self._nbytes), Counter(self.store.asked),
                  Counter(self.loop.used))  # fmt: skip
        act()
        used: Counter[str] = Counter()
        for name, spent in (self.loop.used - before[4]).items():
            used[kind_of(name)] += spent / 1e6
        return Seen(
            self.loop.now - before[0], self._messages - before[1], self._nbytes - before[2],
            self.store.asked - before[3], used,
        )  # fmt: skip

    # ── what happens ───────────────────────────────────────────────────────────────────────────────

    def lose_owner(self) -> tuple[float, Seen]:
        """SIGKILL of the last one; seconds until all its slots are led again, and what was done until all is quiet
        but for the copies that are missing."""
        host = self.world.of("owner")[-1]
        took = 0.0

        def act() -> None:
            nonlocal took
            host.kill(power=False)
            took = self.until(lambda: self._serving_without(host.name), 60.0, "its slots are led by others")
            self.loop.run_for(1.0)

        seen = self.during(act)
        return took, seen

    def _serving_without(self, name: str) -> bool:
        if any(record.leader == name for record in self.records.values()):
            return False
        lives = [host.process.process for host in self.world.of("owner") if host.up]
        return sum(process.lifecycle.serving() for process in lives) == SLOTS

    def add_edge(self) -> Seen:
        host = self.edge(len(self.world.of("edge")))

        def act() -> None:
            host.start()
            self.until(lambda: host.name in self.ports, 30.0, "the edge serves")
            self.loop.run_for(0.5)

        return self.during(act)

    def subscribe_wildcard(self, count: int) -> Seen:
        """Clients of edge 0, a wildcard each, in all slots."""
        port = self.ports["edge-0"]
        listener = Listener()
        port.attach(listener)

        def act() -> None:
            for n in range(count):
                first = 1_000_000 + n * SLOTS
                model = Subscribe(0, 7, n + 1, first, f"news.{n}.#", Routing.MULTICAST, AckMode.AUTO, room=65_536)
                self.world.hosts["edge-0"].place.run(port.submit, [model.in_slot(slot) for slot in range(SLOTS)])  # type: ignore[union-attr]
                self.loop.run_for(0.02)
            self.until(lambda: listener.done >= count * SLOTS, 30.0, "wildcards stand everywhere")

        return self.during(act)


class Listener:
    """link.owner_port.EffectListener that counts answers."""

    def __init__(self) -> None:
        self.done = 0

    def on_effects(self, effects: list[Any]) -> None:
        self.done += sum(type(effect) is Done for effect in effects)

    def on_relief(self, sessions: object = None) -> None: ...
    def on_stopped(self, why: str) -> None: ...
