"""A subscription that takes so many messages a second: its room comes back no faster."""

from __future__ import annotations

import asyncio

from broker.core.commands import Grant, Subscribe
from broker.core.effects import Deliver
from broker.core.message import Run

from .bench import Bench


def subscribe(bench: Bench, headers: str, destination: str = "/queue/a") -> tuple[Subscribe | None, bytes]:
    """The command, or what the client was told instead."""
    session, wire = bench.session()
    bench.port.commands.clear()
    session.receive(f"SUBSCRIBE\nid:1\ndestination:{destination}\nreceipt:r\n{headers}\n\0".encode())
    asked = [getattr(command, "model", command) for command in bench.port.commands]
    commands = [command for command in asked if isinstance(command, Subscribe)]
    return (commands[0] if commands else None), wire.take()


def grants(bench: Bench) -> int:
    found = [command.nbytes for command in bench.port.commands if isinstance(command, Grant)]
    bench.port.commands.clear()
    return sum(found)


def deliver(bench: Bench, command: Subscribe, count: int) -> int:
    run = Run(range(1, count + 1), b"\n", [b"x\0"] * count, 3 * count)
    cost = run.nbytes + count * command.overhead
    bench.edge.on_effects([Deliver(command.consumer, run, cost)])
    return cost


async def test_a_rate_gives_room_back_no_faster_than_it_says():
    bench = Bench()
    command, _ = subscribe(bench, "consumer-max-rate:100\n")
    assert command is not None and command.room == 20 * 64  # a fifth of a second's, however small they are
    assert grants(bench) == 0 and deliver(bench, command, 40) == grants(bench)  # half a second may come at once
    cost = deliver(bench, command, 40)
    assert grants(bench) == 0
    await asyncio.sleep(0.6)
    assert grants(bench) == cost
    slow, _ = subscribe(bench, "consumer-max-rate:2\n")
    assert slow is not None and slow.room == 1
    free, _ = subscribe(bench, "consumer-max-rate:-1\n")
    assert free is not None and free.room > 16 * 1024
