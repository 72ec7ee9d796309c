"""`stampede bench`: one producer and one consumer on two connections, in Python.

Rule: measures client and server together, and says so in its output. With a rate, latency counts from the
planned time of a message, so that a stalled server cannot hide its delay.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from broker.seams.clock import SystemClock
from broker.seams.entropy import token

if TYPE_CHECKING:
    from broker.client import Client, Subscription

STAMP = 20
"""Digits at the head of a body: nanoseconds of the monotonic clock."""


class BenchRun:
    """What both sides share."""

    def __init__(self, destination: str, body_bytes: int, lag: int, headers: dict[str, str]) -> None:
        self.destination = destination
        self.filler = b"x" * (body_bytes - STAMP)
        self.lag = lag
        # A mark of this run: what an earlier one left in the queue is taken, but not counted.
        self.mark = token(4)
        self.headers = {**headers, "x-bench-run": self.mark}
        self.clock = SystemClock().monotonic
        self.sent = 0
        self.latencies: list[int] = []
        self.progress = asyncio.Event()
        self.producing = True

    async def produce(self, client: Client, seconds: float, rate: float) -> None:
        start = self.clock()
        # The time is over also for who waits for a message that was lost.
        asyncio.get_running_loop().call_later(seconds, self.progress.set)
        while (now := self.clock()) - start < seconds:
            if self.sent - len(self.latencies) >= self.lag and not rate:
                self.progress.clear()
                await self.progress.wait()
                continue
            planned = start + self.sent / rate if rate else now
            if planned > now:
                await asyncio.sleep(planned - now)
            body = b"%0*d%b" % (STAMP, int(planned * 1e9), self.filler)
            await client.send(self.destination, body, self.headers)
            self.sent += 1
        self.producing = False

    async def consume(self, subscription: Subscription) -> None:
        async for message in subscription:
            if message.headers.get("x-bench-run") == self.mark:
                self.latencies.append(int(self.clock() * 1e9) - int(message.body[:STAMP]))
                self.progress.set()
            if not self.producing and len(self.latencies) >= self.sent:
                return


async def measure(
    open_client: Callable[[], Any],
    destination: str,
    seconds: float,
    body_bytes: int,
    rate: float,
    lag: int,
    headers: dict[str, str],
) -> int:
    """Runs it and prints the JSON line; 0, or 1 when messages did not arrive."""
    run = BenchRun(destination, body_bytes, lag, headers)
    async with open_client() as producer, open_client() as consumer, consumer.subscribe(destination) as subscription:
        start = run.clock()
        consuming = asyncio.create_task(run.consume(subscription))
        try:
            await run.produce(producer, seconds, rate)
            # An empty confirmed send behind the others: all of them have been taken when it returns.
            await producer.send(destination, b"", receipt=True)
            await asyncio.wait_for(consuming, 10)
        except TimeoutError:
            pass
        finally:
            consuming.cancel()
        took = run.clock() - start
    click.echo(json.dumps(_report(run, took, body_bytes, rate)))
    return 0 if len(run.latencies) == run.sent else 1


def _report(run: BenchRun, took: float, body_bytes: int, rate: float) -> dict[str, Any]:
    ordered = sorted(run.latencies)
    report: dict[str, Any] = {
        "measures": "client and server together (Python generator)",
        "body_bytes": body_bytes,
        "rate": rate or None,
        "sent": run.sent,
        "received": len(ordered),
        "messages_per_s": round(len(ordered) / took, 1),
    }
    if ordered:
        quantiles = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
        report["latency_us"] = {name: ordered[int(len(ordered) * q)] // 1000 for name, q in quantiles.items()}
        report["latency_us"]["max"] = ordered[-1] // 1000
    return report
