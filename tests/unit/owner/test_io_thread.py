"""Blocking work goes to a thread of its own, in order, and comes back to the loop whatever it throws."""

from __future__ import annotations

import asyncio
import threading

from broker.owner.commit.io_thread import IoThread


async def test_jobs_run_in_order_in_another_thread_and_are_told_in_the_loops():
    io = IoThread(asyncio.get_running_loop(), "test-io")
    ran, told, over = [], [], asyncio.Event()

    def job(n: int) -> int:
        ran.append((n, threading.current_thread().name))
        if n == 1:
            raise ValueError("one")
        return n

    def done(result, error) -> None:
        told.append((result, str(error or ""), threading.current_thread() is threading.main_thread()))
        if len(told) == 3:
            over.set()

    for n in range(3):
        io.submit(lambda n=n: job(n), done)
    await asyncio.wait_for(over.wait(), 30)
    assert ran == [(0, "test-io"), (1, "test-io"), (2, "test-io")]
    assert told == [(0, "", True), (None, "one", True), (2, "", True)], "what throws does not end the thread"
    io.stop()


async def test_what_is_queued_is_done_before_it_stops_and_it_may_begin_again():
    io = IoThread(asyncio.get_running_loop(), "test-io")
    ran: list[int] = []
    for n in range(50):
        io.submit(lambda n=n: ran.append(n), lambda *_: None)
    io.stop()
    io.stop()
    assert ran == list(range(50))
    io.submit(lambda: ran.append(99), lambda *_: None)
    io.stop()
    assert ran[-1] == 99


def test_nobody_is_told_when_the_loop_has_closed():
    loop = asyncio.new_event_loop()
    io = IoThread(loop, "test-io")
    loop.close()
    ran: list[int] = []
    io.submit(lambda: ran.append(1), lambda *_: None)
    io.submit(lambda: ran.append(2), lambda *_: None)
    io.stop()
    assert ran == [1, 2]
