"""One process of the broker without threads, loop, clock or disk: a seeded world turns the crank.

The shard, its engines, the journal and the port are the production code. Jobs of the disk threads run at moments
the world chooses, whole and in their order; their answers come into the loop like everything else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from broker.config.settings import Settings
from broker.journal.journal import Journal
from broker.link.local_port import LocalOwner
from broker.owner.shard.shard import Shard
from tests.sim.disk import SimDisk

FOLDER = "/data/journal"
IOS = ("commit", "read", "prepare", "body")


class HandClock:
    """The wall, moved by hand. Survives restarts."""

    def __init__(self) -> None:
        self.now = 1_000_000

    def wall_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


class SimIo:
    """owner.io_thread.Io: one thread, jobs in order. A power loss takes the whole machine with it."""

    def __init__(self, ready: deque[Callable[[], Any]]) -> None:
        self.jobs: deque[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = deque()
        self.ready = ready

    def submit(self, job: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.jobs.append((job, done))

    def run_one(self) -> None:
        job, done = self.jobs.popleft()
        try:
            result, error = job(), None
        except Exception as caught:
            result, error = None, caught
        self.ready.append(partial(done, result, error))


class Machine:
    """A process: opened, turned, and in the end killed or closed."""

    def __init__(self, disk: SimDisk, clock: HandClock, settings: Settings, listener: Any) -> None:
        """Recovers; raises what the journal raises."""
        self.disk = disk
        self.clock = clock
        self.ready: deque[Callable[[], Any]] = deque()
        self.ios = {name: SimIo(self.ready) for name in IOS}
        self.turns = 0
        self._alarm: tuple[int, Callable[[], None]] | None = None
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.journal = Journal.open(disk, FOLDER, settings.journal)
        self.shard = Shard(
            settings, self.journal, clock, self.ios["commit"], self.ios["read"], self.ios["prepare"],
            self.ready.append, self._set_alarm, self._set_later,
        )  # fmt: skip
        self.port = LocalOwner(self.shard, self.ios["body"])
        self.port.attach(listener)
        self.shard.recover()

    def _set_alarm(self, at: int, callback: Callable[[], None]) -> None:
        self._alarm = (at, callback)

    def _set_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._later.append((self.clock.monotonic() + seconds, callback))

    # ── the crank ──────────────────────────────────────────────────────────────────────────────────

    def busy(self) -> list[SimIo]:
        return [io for io in self.ios.values() if io.jobs]

    def turn(self) -> bool:
        """One callback of the loop. False: there was none."""
        if not self.ready:
            return False
        self.turns += 1
        self.ready.popleft()()
        return True

    def advance(self, ms: int) -> None:
        """Time passes; timers that are due go to the loop."""
        self.clock.now += ms
        if self._alarm is not None and self._alarm[0] <= self.clock.now:
            self.ready.append(self._alarm[1])
            self._alarm = None
        due = [cb for at, cb in self._later if at <= self.clock.monotonic()]
        self._later = [(at, cb) for at, cb in self._later if at > self.clock.monotonic()]
        self.ready.extend(due)

    def quiesce(self, most: int = 5000) -> bool:
        """Runs until nothing is under way (time stands still). False: it never came to rest."""
        for _ in range(most):
            if not self.turn():
                busy = self.busy()
                if not busy:
                    return True
                for io in busy:
                    io.run_one()
        return False
