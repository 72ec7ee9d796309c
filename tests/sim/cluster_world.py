"""Machines, processes, disks, clocks and links of a simulated cluster, and everything that may happen to them.

Rule: one seed decides all of it. A `Host` is a machine with one process at a time; the process is whatever `program`
makes of the seams the host offers (disk, clock, threads, dialer, metadata). Faults here are only those a real cluster
has; what they mean for a promise is the checkers' affair.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from random import Random
from typing import Any, Protocol
from unittest.mock import patch

from broker.metadata.port import Change, Delete, Put
from broker.seams.stream import Acceptor
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.sim.disk import PowerLoss, SimDisk
from tests.sim.network import Network, SimDialer
from tests.sim.virtual_loop import Place, VirtualLoop

STORE = "metadata"
"""Name of the metadata store's host."""
BEGIN_MS = 1_700_000_000_000
"""When every history begins, epoch milliseconds."""


class Program(Protocol):
    """A process. Its constructor is the start; it lives until its place dies."""

    async def stop(self) -> None:
        """SIGTERM: returns when it has ended cleanly."""
        ...


class SimClock:
    """seams.clock.Clock of one process: its own monotonic time, and a wall that may be wrong."""

    def __init__(self, loop: VirtualLoop, place: Place, host: Host | None = None) -> None:
        self._loop = loop
        self._place = place
        self._host = host

    def wall_ms(self) -> int:
        skew_ms = self._host.skew_ms if self._host is not None else 0
        return BEGIN_MS + skew_ms + int(self._loop.now * 1000)

    def monotonic(self) -> float:
        return self._place.local(self._loop.now)

    ticks = monotonic

    def wall(self) -> float:
        return self.wall_ms() / 1000


class SimIo:
    """owner.io_thread.Io: a thread; jobs in their order, each whole, each some time later."""

    def __init__(self, host: Host, place: Place) -> None:
        self._host = host
        self._place = place
        self._jobs: deque[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = deque()

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._jobs.append((job, done))
        if len(self._jobs) == 1:
            self._soon()

    def stop(self) -> None:
        """Jobs under way end by themselves."""

    def _soon(self) -> None:
        loop = self._host.world.loop
        self._place.at(loop.now + self._host.io_delay(), self._work)

    def _work(self) -> None:
        job, done = self._jobs[0]
        try:
            result, error = job(), None
        except Exception as caught:
            result, error = None, caught
        self._jobs.popleft()
        if self._jobs:
            self._soon()
        self._place.soon(done, result, error)


class SimStore(MemoryStore):
    """listeners: told of every change, in order."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(SimClock(loop, loop.world), self._soon)
        self._loop = loop
        self.listeners: list[Callable[[Change], None]] = []

    def _soon(self, seconds: float, call: Callable[[], None]) -> None:
        self._loop.at(self._loop.now + seconds, self._loop.world, call)

    def _apply(self, action: Put | Delete) -> None:
        super()._apply(action)
        for listener in self.listeners:
            listener(self.history[-1])


class SimMetadata(MemoryMetadata):
    """The client of one process; its way to the store is a link like any other."""

    def __init__(self, host: Host, timeout_s: float) -> None:
        super().__init__(host.world.store, host.clock(), timeout_s)
        self._host = host
        network, flaky = host.world.network, host.world.flaky
        self.latency = network.latency
        self.lose_answer = lambda: network.random.random() < flaky

    @property
    def _reachable(self) -> bool:
        network, name = self._host.world.network, self._host.name
        return not (self.store.down or network.blocked(name, STORE) or network.blocked(STORE, name))


class Host:
    """A machine. Its name is its name in the network; its clocks are its own over all its lives.

    skew_ms: how far its wall clock is off."""

    def __init__(self, world: World, name: str, kind: str, program: Callable[[Host], Program]) -> None:
        random = world.random
        self.world = world
        self.name = name
        self.kind = kind
        self.address = f"{name}:61700"
        self.disk = SimDisk(random.getrandbits(32))
        self.place: Place | None = None
        self.process: Any = None
        self.lives = 0
        self.slow_disk = 1.0
        self._program = program
        self._start = random.uniform(0, 1000)
        self._rate = random.uniform(0.99, 1.01)
        self.skew_ms = random.choice(world.skews_ms)

    def __repr__(self) -> str:
        return self.name

    @property
    def up(self) -> bool:
        return self.place is not None

    @property
    def running(self) -> bool:
        return self.place is not None and not self.place.frozen

    # ── what the process sees ──────────────────────────────────────────────────────────────────────

    def clock(self) -> SimClock:
        assert self.place
        return SimClock(self.world.loop, self.place, self)

    def io(self) -> SimIo:
        assert self.place
        return SimIo(self, self.place)

    def io_delay(self) -> float:
        random = self.world.random
        usual = random.uniform(0.0002, 0.004) if random.random() < 0.95 else random.uniform(0.004, 0.05)
        return usual * self.slow_disk

    def dialer(self) -> SimDialer:
        assert self.place
        return SimDialer(self.world.network, self.place)

    def listen(self, acceptor: Acceptor) -> None:
        assert self.place
        self.world.network.listen(self.place, self.address, acceptor)

    def metadata(self, timeout_s: float) -> SimMetadata:
        return SimMetadata(self, timeout_s)

    # ── what happens to it ─────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        if self.place is not None:
            return
        self.lives += 1
        self.world.note(f"{self} starts, life {self.lives}")
        self.place = self.world.loop.place(self.name, self._start, self._rate)
        self.world.network.back(self.name)
        self.place.soon(self._begin)

    def _begin(self) -> None:
        self.process = self._program(self)

    def kill(self, power: bool) -> None:
        """SIGKILL (the page cache lives on), or the machine loses power (what was not synced fares as it may)."""
        place, self.place, self.process = self.place, None, None
        if place is None:
            return
        self.world.note(f"{self} {'loses power' if power else 'is killed'}")
        place.die()
        self.world.network.ended(place, silent=power)
        self.world.died(self)
        if power:
            self.disk.crash()
        else:
            self.disk.generation += 1
            self.disk.locked.clear()
            self.disk.crash_at = 0

    def wipe(self) -> None:
        """A new disk. Only while it is down."""
        assert self.place is None
        self.world.note(f"{self} gets an empty disk")
        self.disk = SimDisk(self.world.random.getrandbits(32))

    def freeze(self) -> None:
        if self.running:
            assert self.place
            self.world.note(f"{self} freezes")
            self.place.frozen = True
            self.world.network.freeze_seen(self.place)

    def thaw(self) -> None:
        if self.place is not None and self.place.frozen:
            self.world.note(f"{self} goes on")
            self.place.frozen = False

    def exit(self, why: str) -> None:
        """The process has ended by itself; whoever looks after it starts it again."""
        self.world.note(f"{self} ends: {why}")
        self.kill(power=False)
        self.world.after(0.5, self.start)

    def stop(self) -> None:
        """SIGTERM; down when it has ended."""
        if self.running and self.process is not None:
            assert self.place
            self.world.note(f"{self} is asked to stop")
            self.place.spawn(self._stop(self.process))

    async def _stop(self, process: Program) -> None:
        power = False
        try:
            await process.stop()
        except PowerLoss:  # in a task it would be told of late, and in nobody's place
            power = True
        self.world.loop.at(self.world.loop.now, self.world.loop.world, self._stopped, process, power)

    def _stopped(self, process: Program, power: bool) -> None:
        if self.process is process:
            self.kill(power)


class World:
    """diary: what happened, for the reader of a failure.    skews_ms: how far wall clocks may be off."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.loop = VirtualLoop(seed)
        self.loop.on_error = self._on_error
        self.network = Network(self.loop, seed)
        self.store = SimStore(self.loop)
        self.flaky = self.random.choice((0.0, 0.0, 0.02, 0.1))
        self.hosts: dict[str, Host] = {}
        self.diary: list[str] = []
        self.skews_ms = (0, 0, -60_000, 60_000)

    def host(self, name: str, kind: str, program: Callable[[Host], Program]) -> Host:
        host = self.hosts[name] = Host(self, name, kind, program)
        return host

    def of(self, kind: str) -> list[Host]:
        return [host for host in self.hosts.values() if host.kind == kind]

    def note(self, what: str) -> None:
        self.diary.append(f"{self.loop.now:8.4f}  {what}")

    def died(self, host: Host) -> None:
        """For those who need to know."""

    def wall_ms(self) -> int:
        """The true time."""
        return BEGIN_MS + int(self.loop.now * 1000)

    def after(self, seconds: float, call: Callable[..., Any], *args: Any) -> None:
        """The hand of fate: in no process's place."""
        self.loop.at(self.loop.now + seconds, self.loop.world, call, *args)

    def _on_error(self, place: Place, error: BaseException) -> None:
        host = self.hosts.get(place.name)
        if isinstance(error, PowerLoss) and host is not None and host.place is place:
            host.kill(power=True)
        elif place.alive:
            self.loop._fail(place, error)

    # ── links ──────────────────────────────────────────────────────────────────────────────────────

    def isolate(self, one: list[str], other: list[str], seconds: float, both_ways: bool = True) -> None:
        """A partition that heals by itself."""
        self.note(f"{one} {'cut off from' if both_ways else 'cannot reach'} {other} for {seconds:.2f} s")
        pairs = [(a, b) for a in one for b in other]
        pairs += [(b, a) for a, b in pairs] if both_ways else []
        for a, b in pairs:
            self.network.block(a, b)
            self.after(seconds, self._heal, a, b)

    def _heal(self, a: str, b: str) -> None:
        self.network.unblock(a, b)
        self.store.wake()

    def outage(self, seconds: float) -> None:
        """The store answers nobody."""
        if not self.store.down:
            self.note(f"{STORE} is down for {seconds:.2f} s")
            self.store.stop()
            self.after(seconds, self.store.start)


class Alarms(logging.Handler):
    """Exceptions that production code catches and logs are found, too."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.note(f"log: {record.getMessage()}")
        if record.exc_info and record.exc_info[1] is not None and self._world.loop.failure is None:
            self._world.loop.failure = record.exc_info[1]


@contextmanager
def everywhere(original: Any, replacement: Any) -> Generator[None]:
    """Replaces a function or a constant in every module, of the broker and of the simulation, that has it under its
    name: what one module still drew from the system's randomness would make every history another one."""
    name = original if isinstance(original, str) else original.__name__
    modules = [m for key, m in sorted(sys.modules.items()) if key.startswith(("broker.", "tests.sim."))]
    there = [m for m in modules if name in vars(m) and (isinstance(original, str) or vars(m)[name] is original)]
    assert there, name
    patches = [patch.object(module, name, replacement) for module in there]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in reversed(patches):
            each.stop()
