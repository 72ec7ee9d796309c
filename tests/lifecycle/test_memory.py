"""The bound of a process's memory, seen from outside: five times as much over a thousand queues, each far below its own
limit. Nothing is lost, order holds, and what is durable is there after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Broker, Client, build, scratch, until

pytestmark = pytest.mark.alone
MIB = 1024 * 1024
BOUND = 32 * MIB
BASE = 48 * MIB
"""Beside the bound: what is on its way to the disk and in sockets, positions, and fragmentation. Without the bound the
process grows by 165 MiB."""
QUEUES, EACH, SIZE = 1000, 60, 2000


def name(number: int) -> str:
    return f"/queue/memory.{number}"


def durable(number: int) -> bool:
    return number % 2 == 0


def body(number: int, nth: int) -> bytes:
    return f"{number} {nth} ".encode().ljust(SIZE, b"x")


def fill(client: Client, broker: Broker) -> int:
    """All of them, round and round; the most memory that was seen."""
    peak = 0
    for nth in range(EACH):
        for start in range(0, QUEUES, 250):
            client.raw(
                b"".join(
                    build(
                        "SEND",
                        {"destination": name(n), "persistent": str(durable(n)).lower(), "content-length": SIZE},
                        body(n, nth),
                    )
                    for n in range(start, start + 250)
                )
            )
            peak = max(peak, broker.rss())
        client.sync()
    return peak


def drain(client: Client, numbers: list[int]) -> None:
    """Everything of these queues, in order."""
    for start in range(0, len(numbers), 50):
        some = numbers[start : start + 50]
        for n in some:
            client.send("SUBSCRIBE", {"id": n, "destination": name(n), "ack": "auto"})
        found: dict[int, list[int]] = {n: [] for n in some}
        for frame in client.messages(len(some) * EACH):
            n, nth, _ = frame.body.split(b" ", 2)
            found[int(n)].append(int(nth))
        assert all(nths == list(range(EACH)) for nths in found.values())


def test_a_thousand_queues_stay_within_the_bound_and_lose_nothing(request: pytest.FixtureRequest) -> None:
    settings = {"memory.limit_bytes": BOUND, "journal.segment_bytes": 8 * MIB, "edge.block_timeout_s": 0}
    with scratch(request, "memory") as folder, Broker(Path(folder), settings) as broker:
        with Client(broker.port) as client:
            client.connect()
            before = broker.rss()
            peak = fill(client, broker)
            assert peak - before < BOUND + BASE, f"{(peak - before) / MIB:.0f} MiB more than before"
            metrics = broker.metrics()
            assert metrics["stomp_memory_limit_bytes"] == BOUND
            assert metrics["stomp_memory_put_away_total"] > 0
            assert metrics['stomp_memory_used_bytes{kind="queues"}'] < BOUND
            assert "memory is short" in broker.log()
            assert (
                sum(v for k, v in metrics.items() if k.startswith("stomp_queue_messages{")) == QUEUES * EACH + 2 * EACH
            )  # sync()
            drain(client, [n for n in range(QUEUES) if not durable(n)])
        broker.stop()
        broker.start()
        with Client(broker.port) as client:
            client.connect()
            drain(client, [n for n in range(QUEUES) if durable(n)])
            until(lambda: "stomp_memory_state 0.0" in broker.http("/metrics")[1], "memory is free again")
        assert "Traceback" not in broker.log()
