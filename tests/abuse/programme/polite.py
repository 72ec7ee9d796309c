"""A polite client: so many persistent messages a second through a queue of its own, with receipts; how long each takes.

Rule: open loop. What is due is sent when it is due, whether the broker has answered or not, and each wait is counted
from when it was due: a broker that stands still for a second shows in every message of that second.
"""

from __future__ import annotations

import asyncio
import time

import broker.client
from broker.client import Client


class Polite:
    """`waits`: seconds from when a message was due until it had come back, in the order of sending."""

    def __init__(self, port: int, rate: int) -> None:
        self._port = port
        self._rate = rate
        self.waits: list[float] = []

    async def run(self, seconds: float) -> None:
        """Raises ClientError when it is thrown out or refused: whatever others do, it may not be."""
        async with (
            broker.client.connect(f"stomp://127.0.0.1:{self._port}", timeout=60, receipt_timeout=120) as client,
            client.subscribe("/queue/polite", "client-individual", prefetch=1000) as sub,
        ):
            total = int(seconds * self._rate)
            sending = asyncio.ensure_future(self._send(client, total))
            for _ in range(total):
                message = await asyncio.wait_for(sub.__anext__(), 120)
                self.waits.append(time.monotonic() - float(message.body))
                await message.ack()
            await sending

    async def _send(self, client: Client, total: int) -> None:
        begun = time.monotonic()
        async with client.pipeline(window=1_000_000) as pipeline:
            for number in range(total):
                due = begun + number / self._rate
                await asyncio.sleep(max(due - time.monotonic(), 0))
                await pipeline.send("/queue/polite", repr(due), {"persistent": "true"})

    def percentile(self, part: float) -> float:
        """Seconds; `part` 0.99: of the slowest hundredth the fastest."""
        ordered = sorted(self.waits)
        return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0
