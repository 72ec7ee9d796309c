"""Temporary queues that come and go with their connections leave nothing behind: no queue, no consumer, no memory."""

from __future__ import annotations

import json
from pathlib import Path

from tests.harness import Broker, Client, build, until

EACH = 500
"""Of one connection."""
WARM, MORE = 20, 10
"""Connections before the first look at the memory (then the edge's table of routes is full, and what layouts remember
of destinations), and behind it."""
MOST = 1_600_000
"""It may grow by that: 320 bytes for each queue. Without a leak it is 1.0 MB at most."""


def come_and_go(broker: Broker) -> None:
    """A connection that asks at as many temporary queues as it may; all are answered."""
    with Client(broker.port) as client:
        client.connect()
        client.subscribe("/queue/asked", "service")
        asks = [{"destination": "/queue/asked", "reply-to": f"/temp-queue/t{number}"} for number in range(EACH)]
        client.raw(b"".join([build("SEND", head, b"?") for head in asks]))
        answers = [build("SEND", {"destination": asked["reply-to"]}, b"!") for asked in client.messages(EACH)]
        client.raw(b"".join(answers))
        assert {answer["subscription"] for answer in client.messages(EACH)} == {head["reply-to"] for head in asks}


def temporary(broker: Broker, kind: str) -> int:
    rows = json.loads(broker.http(f"/api/v1/{kind}?limit=500")[1])["items"]
    return sum("$temp" in str(row.get("address", row.get("name"))) for row in rows)


def test_nothing_grows(tmp_path: Path):
    with Broker(tmp_path / "b") as broker:
        for _ in range(WARM):
            come_and_go(broker)
        before = broker.rss()
        for _ in range(MORE):
            come_and_go(broker)
        for kind in ("queues", "addresses", "consumers"):
            until(lambda kind=kind: temporary(broker, kind) == 0, f"no temporary {kind}")
        grown = broker.rss() - before
        assert grown < MOST, grown
