"""Reads of the log take turns, and rest while others need the loop."""

from __future__ import annotations

import asyncio

from broker.seams.read_turns import IN_USE_S, REST_S, ReadTurns


class HandTime:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_one_step_at_a_time_however_many_read() -> None:
    async def story() -> int:
        time = HandTime()
        turns, most, now, alone = ReadTurns(time.monotonic), 0, 0, 0

        async def read() -> None:
            nonlocal now
            for _ in range(20):
                await turns.next()
                now += 1  # a step, in this iteration of the loop

        reads = asyncio.gather(*(read() for _ in range(5)))
        while not reads.done():
            most, now, alone = max(most, now), 0, alone + 1
            await asyncio.sleep(0)
        assert alone >= 100, "everybody else has the loop between two steps"
        return most

    assert asyncio.run(story()) == 1


def test_where_somebody_else_uses_the_loop_a_read_rests_and_else_it_does_not() -> None:
    async def story(busy: bool) -> float:
        time = HandTime()
        turns, loop = ReadTurns(time.monotonic), asyncio.get_running_loop()
        begun = loop.time()
        for _ in range(20):
            if busy:
                loop.call_soon(lambda: setattr(time, "now", time.now + 2 * IN_USE_S))
            await turns.next()
        return loop.time() - begun

    assert asyncio.run(story(True)) >= 19 * REST_S
    assert asyncio.run(story(False)) < 20 * REST_S
