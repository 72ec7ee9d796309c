"""Deadlines: on time, never early, cheap when nothing is due."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import sys
from collections.abc import Callable

import pytest

from broker.edge.transport.timers import TICK_S, Handle, TimerWheel
from tests.harness.shells import both_loops, run


class Timer:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True

    def __lt__(self, other: Timer) -> bool:
        return self.at < other.at


class Loop:
    """A loop whose time is moved by hand. `wakes` counts the calls it made."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[Timer] = []
        self.wakes = 0

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(at, callback)
        heapq.heappush(self.timers, timer)
        return timer

    def advance(self, to: float) -> None:
        while self.timers and self.timers[0].at <= to:
            timer = heapq.heappop(self.timers)
            if not timer.cancelled:
                self.now = max(self.now, timer.at)
                self.wakes += 1
                timer.callback()
        self.now = to

    @property
    def armed(self) -> int:
        return sum(not timer.cancelled for timer in self.timers)


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def beats(loop: Loop) -> TimerWheel:
    return TimerWheel(loop)


def test_each_is_called_once_never_early_and_at_most_a_tick_late(loop: Loop, beats: TimerWheel) -> None:
    called: dict[float, float] = {}
    wanted = [1000 + i * 0.0137 for i in range(1, 500)]
    for at in reversed(wanted):
        beats.deadline(at, lambda at=at: called.update({at: loop.now}))
    loop.advance(1010)
    assert sorted(called) == wanted
    assert all(0 <= now - at <= TICK_S + 0.0011 for at, now in called.items())
    assert len(beats) == 0
    assert loop.armed == 0


def test_the_past_is_the_next_tick_even_for_one_that_keeps_asking_for_it(loop: Loop, beats: TimerWheel) -> None:
    calls: list[float] = []

    def again() -> None:
        calls.append(loop.now)
        if len(calls) < 5:
            beats.deadline(0, again)

    beats.deadline(0, again)
    loop.advance(1001)
    assert len(calls) == 5
    assert all(later - earlier >= TICK_S / 2 for earlier, later in itertools.pairwise(calls))


def test_cancelled_ones_are_forgotten_at_once_and_wake_nobody(loop: Loop, beats: TimerWheel) -> None:
    handles = [beats.deadline(1000 + i, lambda: pytest.fail("cancelled")) for i in range(1, 100)]
    assert loop.armed == 1
    for handle in handles:
        beats.cancel(handle)
        beats.cancel(handle)
    assert (len(beats), loop.armed) == (0, 0)
    loop.advance(2000)
    assert loop.wakes == 0


def test_an_earlier_deadline_moves_the_timer_forward(loop: Loop, beats: TimerWheel) -> None:
    order: list[str] = []
    beats.deadline(1010, lambda: order.append("late"))
    beats.deadline(1001, lambda: order.append("early"))
    assert loop.armed == 1
    loop.advance(1002)
    assert order == ["early"]
    loop.advance(1011)
    assert order == ["early", "late"]
    assert loop.wakes == 2


def test_one_callback_may_cancel_its_neighbours_and_itself(loop: Loop, beats: TimerWheel) -> None:
    called: list[int] = []
    handles: list[Handle] = []

    def first_one_wins(number: int) -> None:
        called.append(number)
        for handle in handles:
            beats.cancel(handle)

    for number in range(10):
        handles.append(beats.deadline(1001, lambda number=number: first_one_wins(number)))
    handles.append(beats.deadline(1001.2, lambda: first_one_wins(99)))
    loop.advance(1005)
    assert len(called) == 1
    assert (len(beats), loop.armed) == (0, 0)


def test_a_failing_callback_does_not_stop_the_others(
    loop: Loop, beats: TimerWheel, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[int] = []
    beats.deadline(1001, lambda: [][0])
    beats.deadline(1001, lambda: called.append(1))
    beats.deadline(1002, lambda: called.append(2))
    loop.advance(1003)
    assert called == [1, 2]
    assert "a deadline failed" in caplog.text


def test_stop_forgets_everything(loop: Loop, beats: TimerWheel) -> None:
    handle = beats.deadline(1001, lambda: pytest.fail("stopped"))
    beats.stop()
    beats.cancel(handle)
    loop.advance(1010)
    assert (len(beats), loop.wakes) == (0, 0)


def test_thousands_of_heart_beats_share_wake_ups_and_little_memory(loop: Loop, beats: TimerWheel) -> None:
    """5,000 connections looking every 3.3 s for 10 s: one wake-up per tick at most."""
    count, looks = 5000, [0]

    def arm(at: float) -> Handle:
        def look() -> None:
            looks[0] += 1
            arm(at + 3.3)

        return beats.deadline(at, look)

    handle = arm(1000.0)
    for i in range(1, count):
        arm(1000 + i * 3.3 / count)
    assert sys.getsizeof(handle) <= 64
    loop.advance(1010)
    assert looks[0] >= 3 * count
    assert loop.wakes <= 10 / TICK_S + 1
    sets = sum(map(sys.getsizeof, beats._wheel.values()))
    assert sets / count < 120


@both_loops
def test_real_loops_call_in_time(kind: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        beats = TimerWheel(loop)
        done = asyncio.Event()
        late: list[float] = []
        for i in range(1, 8):
            at = loop.time() + i * 0.013
            beats.deadline(at, lambda at=at: late.append(loop.time() - at))
        beats.deadline(loop.time() + 0.15, done.set)
        await done.wait()
        assert len(late) == 7
        assert all(lateness >= 0 for lateness in late)

    run(kind, main())
