"""One who subscribes at a bench, and is given messages."""

from __future__ import annotations

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
    """Bytes of room that were given back since it was asked last."""
    found = [command.nbytes for command in bench.port.commands if isinstance(command, Grant)]
    bench.port.commands.clear()
    return sum(found)


def deliver(bench: Bench, command: Subscribe, count: int) -> int:
    """So many messages of three bytes. What they cost of the room."""
    run = Run(range(1, count + 1), b"\n", [b"x\0"] * count, 3 * count)
    cost = run.nbytes + count * command.overhead
    bench.edge.on_effects([Deliver(command.consumer, run, cost)])
    return cost
