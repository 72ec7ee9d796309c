"""`make retry`: a million dead letters are retried while the broker is killed again and again; what was lost, doubled
and out of order, and how many a second. ARGS="--messages 100000 --kills 3 --folder DIR"

Rule: not a test of `make test`, for it takes minutes. What was retried is read at the end, all of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import threading
import time
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

from broker.client import connect
from tests.harness.broker import Broker
from tests.harness.waiting import until

from .test_carried import call, serves

QUEUES = 2
BATCH = 1000


async def fill(broker: Broker, messages: int) -> None:
    """As dead letters are."""
    async with connect(f"stomp://127.0.0.1:{broker.port}") as client:
        for start in range(0, messages, BATCH):
            async with client.transaction() as tx:
                for n in range(start, min(start + BATCH, messages)):
                    queue = f"orders.{n % QUEUES}"
                    await tx.send("DLQ", f"{n}", {
                        "_AMQ_ORIG_ADDRESS": queue, "_AMQ_ORIG_QUEUE": queue, "dead-letter-reason": "rejected",
                        "destination-type": "ANYCAST", "persistent": "true",
                    })  # fmt: skip


def retry(broker: Broker, messages: int, kills: int) -> tuple[float, float]:
    """Seconds of asking, and with what the restarts took."""
    chance = random.Random(7)
    began, busy, killed = time.monotonic(), 0.0, 0
    while True:
        until(lambda: serves(broker), "the API does not come up", 600)
        # The longer it is at it the more kills there are: they are spread over all of it.
        timer = threading.Timer(chance.uniform(0.2, 2.0), broker.kill) if killed < kills else None
        if timer is not None:
            timer.start()
        start = time.monotonic()
        try:
            told = call(broker, "POST", "/queues/DLQ/retry", {"limit": max(messages // (2 * kills + 1), BATCH)})
            done = not told["more"] and not told["done"]
        except HTTPError as error:
            done = error.code == 404  # the last one has left it, and an empty queue of its own making goes
        except (OSError, HTTPException):
            done = False
        busy += time.monotonic() - start
        if timer is not None:
            timer.join()
            killed += 1
            broker.start()
        elif done:
            return busy, time.monotonic() - began


async def drained(broker: Broker, queue: str) -> list[int]:
    """All that is in it."""
    (part,) = call(broker, "GET", f"/queues/{queue}")["parts"]
    found: list[int] = []
    async with (
        connect(f"stomp://127.0.0.1:{broker.port}") as client,
        client.subscribe(queue, ack="client", prefetch=2 * BATCH) as subscription,
    ):
        async for message in subscription:
            found.append(int(message.body))
            if len(found) % BATCH == 0 or len(found) == part["messages"]:
                await message.ack(receipt=len(found) == part["messages"])
            if len(found) == part["messages"]:
                return found
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Retry dead letters while the broker is killed.")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(options.folder or Path(folder))
        broker.start()
        try:
            began = time.monotonic()
            asyncio.run(fill(broker, options.messages))
            filled = time.monotonic() - began
            busy, took = retry(broker, options.messages, options.kills)
            found = [asyncio.run(drained(broker, f"orders.{n}")) for n in range(QUEUES)]
        finally:
            broker.kill()
    all = [n for part in found for n in part]
    wrong = sum(part != sorted(part) for part in found)
    told = {
        "messages": options.messages, "kills": options.kills, "filled_s": round(filled, 1), "retry_s": round(busy, 1),
        "with_restarts_s": round(took, 1), "per_s": round(options.messages / busy),
        "lost": options.messages - len(set(all)), "doubled": len(all) - len(set(all)), "queues_out_of_order": wrong,
    }  # fmt: skip
    print(json.dumps(told))
    return 1 if told["lost"] or told["doubled"] or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
