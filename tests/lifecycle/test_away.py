"""Durable subscriptions that are away while the broker restarts: what waits for them stays on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Broker, Client, build

SUBSCRIPTIONS, MESSAGES = 200, 2000
TOPIC = "/topic/news"


def come(client: Client, number: int) -> None:
    headers = {"id": str(number), "destination": TOPIC, "durable-subscription-name": f"s{number}", "ack": "auto"}
    client.ask("SUBSCRIBE", headers)


@pytest.mark.alone
def test_memory_does_not_grow_by_a_restart_and_who_comes_back_gets_everything(tmp_path: Path) -> None:
    """Each of them filled its memory with copies of its own of what they all have in common."""
    with Broker(tmp_path) as broker:
        with Client(broker.port) as client:
            client.connect({"client-id": "away"})
            for number in range(SUBSCRIPTIONS):
                come(client, number)
        with Client(broker.port) as client:
            client.connect()
            one = build("SEND", {"destination": TOPIC, "persistent": "true"}, b"x" * 100)
            for _ in range(MESSAGES // 100):
                client.raw(one * 100)
                client.sync()
        before = broker.rss()
        broker.stop()
        broker.start()
        with Client(broker.port) as client:
            client.connect({"client-id": "away"})
            come(client, 0)
            for _ in range(MESSAGES):
                assert client.expect("MESSAGE").body == b"x" * 100
        assert broker.messages("news") == (SUBSCRIPTIONS - 1) * MESSAGES
        assert broker.rss() < 2 * before, f"{before} bytes before, {broker.rss()} after"
