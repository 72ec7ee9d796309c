"""Kills the broker at moments nobody chose and starts it again on the same folder, while the workload goes on.

Rule: SIGKILL only; the page cache survives it, so this proves ordering and recovery, not fsync (the simulated disk
of tests/sim does that).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

from tests.harness import Broker

from .connection import Connection, Gone
from .history import Kind
from .workload import SUBSCRIBERS, tasks
from .world import World


async def run(folder: Path, kills: int, seed: int) -> World:
    """`kills` lives that end by SIGKILL, a drained one, and one after a clean stop. The caller checks the history."""
    chance = random.Random(seed)
    settings: dict[str, object] = {"engine.address.max_delivery_attempts": -1}
    if chance.randrange(2):
        # Rolling over and compaction become common instead of rare.
        settings["journal.segment_bytes"] = 256 * 1024
    if chance.randrange(2):
        settings |= {"engine.queue_memory_bytes": 32 * 1024, "engine.page_bytes": 16 * 1024}
    world = World(Broker(folder, settings), chance)
    await _start(world)
    await _subscribe(world)
    workload = [asyncio.ensure_future(task) for task in tasks(world)]
    try:
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0.05, 0.9))
            await asyncio.to_thread(world.broker.kill)
            if chance.randrange(6) == 0:
                await _killed_while_starting(world, chance.uniform(0.05, 0.6))
            await _start(world)
            _raise_early(workload)
        await _busy_enough(world, kills)
        world.stopping = True
        await world.quiet(1.0, 20.0)
        world.drained = world.life
        assert await asyncio.to_thread(world.broker.stop) == 0, world.broker.log()[-4000:]
        await _start(world)
        await world.quiet(0.5, 5.0)
        _raise_early(workload)
    finally:
        world.over = True
        for task in workload:
            task.cancel()
        await asyncio.gather(*workload, return_exceptions=True)
        await asyncio.to_thread(world.broker.kill)
    return world


async def _busy_enough(world: World, kills: int) -> None:
    """A machine that is busy with other things needs longer for as much work as tells something."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        await asyncio.sleep(0.3)
        counts = Counter(event.kind for event in world.history.events)
        if counts[Kind.RECEIPTED] > 120 * kills and counts[Kind.COMMITTED] > 12 * kills:
            return


async def _start(world: World) -> None:
    world.life += 1
    began = time.monotonic()
    await asyncio.to_thread(world.broker.start)
    world.recoveries.append(time.monotonic() - began)


async def _killed_while_starting(world: World, after: float) -> None:
    """A second blow while the first is being recovered from."""
    world.life += 1
    starting = asyncio.ensure_future(asyncio.to_thread(world.broker.start))
    await asyncio.sleep(after)
    await asyncio.to_thread(world.broker.kill)
    await asyncio.gather(starting, return_exceptions=True)
    await asyncio.to_thread(world.broker.kill)


async def _subscribe(world: World) -> None:
    """The durable subscriptions must exist before the first message is sent."""
    for subscriber in SUBSCRIBERS:
        connection = await Connection.opened(world, **{"client-id": subscriber})
        headers = {"id": "1", "destination": "/topic/kill.topic", "durable-subscription-name": "durable"}
        connection.send("SUBSCRIBE", {**headers, "ack": "client-individual", "receipt": "there"})
        frame = await connection.read()
        assert frame.command == "RECEIPT", frame
        connection.send("DISCONNECT", {"receipt": "bye"})
        try:
            await connection.read()
        except Gone:
            pass
        await connection.close()


def _raise_early(workload: list[asyncio.Future[None]]) -> None:
    """A task that has ended found something no kill explains (an ERROR frame, a frame cut wrongly)."""
    for task in workload:
        if task.done():
            task.result()
            raise AssertionError(f"{task} ended")
