"""Dead letters are retried while the broker is killed again and again: each comes back once, in its order."""

from __future__ import annotations

import json
import random
import threading
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

import pytest

from broker.client import connect
from tests.harness.broker import Broker
from tests.harness.waiting import until

MESSAGES = 4000
KILLS = 3


def call(broker: Broker, method: str, path: str, body: dict | None = None) -> dict:
    request = urllib.request.Request(
        f"http://127.0.0.1:{broker.admin_port}/api/v1{path}", method=method,
        data=None if body is None else json.dumps(body).encode(), headers={"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def serves(broker: Broker) -> bool:
    try:
        return bool(call(broker, "GET", "/overview")["ready"])
    except (OSError, HTTPException):
        return False


async def fill(broker: Broker) -> None:
    """As dead letters are."""
    async with connect(f"stomp://127.0.0.1:{broker.port}") as client:
        for start in range(0, MESSAGES, 1000):
            async with client.transaction() as tx:
                for n in range(start, start + 1000):
                    queue = f"orders.{n % 2}"
                    await tx.send("DLQ", f"{n}", {
                        "_AMQ_ORIG_ADDRESS": queue, "_AMQ_ORIG_QUEUE": queue, "dead-letter-reason": "rejected",
                        "destination-type": "ANYCAST", "persistent": "true",
                    })  # fmt: skip


@pytest.mark.timeout(600)
async def test_a_retry_that_is_killed_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.start()
    try:
        await fill(broker)
        chance = random.Random(7)
        kills = 0
        while kills < KILLS:
            until(lambda: serves(broker), "the API does not come up")
            # 1,000 at most in each round, so that there is always something left for the next one.
            for _ in range(chance.randrange(1, 5)):
                assert call(broker, "POST", "/queues/DLQ/retry", {"limit": 200})["done"] == 200
            timer = threading.Timer(chance.uniform(0, 0.02), broker.kill)
            timer.start()
            try:
                call(broker, "POST", "/queues/DLQ/retry", {"limit": 200})
            except (OSError, HTTPException):
                pass
            timer.join()
            kills += 1
            broker.start()
        until(lambda: serves(broker), "the API does not come up")
        while retried(broker)["done"]:
            pass
        for queue in (0, 1):
            assert await drained(broker, f"orders.{queue}", MESSAGES // 2) == [*range(queue, MESSAGES, 2)]
    finally:
        broker.kill()


def retried(broker: Broker) -> dict:
    try:
        return call(broker, "POST", "/queues/DLQ/retry", {})
    except urllib.error.HTTPError as error:
        assert error.code == 404, error.read()  # the last one has left it, and an empty queue of its own making goes
        return {"done": 0}


async def drained(broker: Broker, queue: str, count: int) -> list[int]:
    """All that is in it, and that it is all."""
    found: list[int] = []
    async with (
        connect(f"stomp://127.0.0.1:{broker.port}") as client,
        client.subscribe(queue, ack="client", prefetch=1000) as subscription,
    ):
        async for message in subscription:
            found.append(int(message.body))
            if len(found) % 500 == 0 or len(found) == count:
                await message.ack(receipt=True)
            if len(found) == count:
                break
        assert call(broker, "GET", f"/queues/{queue}")["parts"][0]["messages"] == 0
    return found
