"""Threads that wait: what they bring back, how many there are, and that nobody waits for them at the end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from broker.seams.threads import WaitingThreads


async def test_answers_and_errors_come_back_in_the_loop() -> None:
    threads = WaitingThreads(2, "test")
    assert await asyncio.gather(*[threads.run(lambda n=n: n * n) for n in range(50)]) == [n * n for n in range(50)]
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert sum(each.name.startswith("test-") for each in threading.enumerate()) <= 2
    threads.close()


async def test_what_is_given_up_before_its_turn_is_not_done() -> None:
    threads, gate, done = WaitingThreads(1, "test"), threading.Event(), list[int]()
    first = threads.run(lambda: gate.wait(5))
    second, third = threads.run(lambda: done.append(2)), threads.run(lambda: done.append(3))
    second.cancel()
    gate.set()
    assert await first
    await third
    assert done == [3]
    threads.close()


def test_a_process_that_ends_does_not_wait_for_them() -> None:
    program = (
        "import asyncio, time\nfrom broker.seams.threads import WaitingThreads\n"
        "async def main():\n    WaitingThreads(1, 'x').run(lambda: time.sleep(60))\n    await asyncio.sleep(0.05)\n"
        "asyncio.run(main())\nprint('ended')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)
