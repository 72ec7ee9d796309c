"""Deadlines of all connections, on one timer of the loop.

A wheel of 50 ms ticks: arming and cancelling are O(1) (O(log n) for a tick that has none yet), a cancelled deadline is
forgotten at once, and the loop is woken only for ticks that have a deadline. Heart-beats, login and frame timeouts are
deadlines that look at counters and re-arm themselves (watchdog.py); nothing is touched per read.

Rule: never early, at most one tick late (plus what the loop is busy with). Knows nothing of what is timed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from heapq import heappop, heappush
from math import ceil

log = logging.getLogger("stampede.edge")

TICK_S = 0.05


class Handle:
    """An armed deadline."""

    __slots__ = ("callback", "tick")

    def __init__(self, tick: int, callback: Callable[[], None]) -> None:
        self.tick = tick
        self.callback = callback


class TimerWheel:
    """All deadlines of a process. About 170 bytes each, most of it the callback's bound method."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wheel: dict[int, set[Handle]] = {}
        self._ticks: list[int] = []
        """Heap of the ticks in _wheel; an emptied one stays until it is the first."""
        self._timer: asyncio.TimerHandle | None = None
        self._armed = 0
        """The tick _timer is set for."""
        self._passed = 0
        """The last tick that is over: nothing is armed for it or before it any more."""

    def deadline(self, at: float, callback: Callable[[], None]) -> Handle:
        """Calls `callback` once at `at` (seconds of the monotonic clock), or at the next tick if that is past."""
        tick = max(ceil(at / TICK_S), self._passed + 1)
        handle = Handle(tick, callback)
        waiting = self._wheel.get(tick)
        if waiting is None:
            self._wheel[tick] = {handle}
            heappush(self._ticks, tick)
            if self._timer is None or tick < self._armed:
                self._arm(tick)
        else:
            waiting.add(handle)
        return handle

    def soon(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when everybody else had a turn."""
        self._loop.call_soon(callback)

    def cancel(self, handle: Handle) -> None:
        """Forgets the deadline; no effect on one that has been called or cancelled."""
        waiting = self._wheel.get(handle.tick)
        if waiting is None:
            return
        waiting.discard(handle)
        if not waiting:
            del self._wheel[handle.tick]
            if handle.tick == self._armed and handle.tick > self._passed:
                self._arm_next()

    def stop(self) -> None:
        """Forgets all of them."""
        self._wheel.clear()
        self._arm_next()

    def __len__(self) -> int:
        return sum(map(len, self._wheel.values()))

    def _arm(self, tick: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed = tick
        # One millisecond on top: uvloop rounds to milliseconds and would call half of the time too early.
        self._timer = self._loop.call_at(tick * TICK_S + 0.001, self._run)

    def _arm_next(self) -> None:
        """Sets the timer for the first tick that has a deadline, or takes it away."""
        ticks, wheel = self._ticks, self._wheel
        while ticks and ticks[0] not in wheel:
            heappop(ticks)
        if ticks:
            self._arm(ticks[0])
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        now = self._passed = int(self._loop.time() / TICK_S)
        ticks, wheel = self._ticks, self._wheel
        while ticks and ticks[0] <= now:
            tick = heappop(ticks)
            waiting = wheel.get(tick)
            if waiting is not None:
                # It stays in the wheel meanwhile, so that one callback can cancel another.
                self._call(waiting)
                wheel.pop(tick, None)
        self._arm_next()

    def _call(self, waiting: set[Handle]) -> None:
        """Calls all of one tick. What they arm goes to later ticks (`_passed`), so this ends."""
        while waiting:
            callback = waiting.pop().callback
            try:
                callback()
            except Exception:
                log.exception("a deadline failed")
