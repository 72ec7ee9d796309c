"""Bridges between two real brokers, each of which is killed with SIGKILL while messages cross: none is lost, none comes
twice, whichever end has the bridge."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.harness import Broker, Client, until
from tests.harness.stomp import ClosedByBroker

MESSAGES = 2000
ROUNDS = 3
QUICK = {"retry_min_s": "0.05", "retry_max_s": "0.2", "window": "300"}


def bridge(name: str, **values: object) -> dict[str, object]:
    """Settings of one."""
    return {f"bridges.{name}.{field}": value for field, value in {**QUICK, **values}.items()}


def produce(broker: Broker, destination: str, done: threading.Event) -> None:
    """All of them are there when it ends; what had no receipt is sent again under the same id."""
    sent = 0
    while sent < MESSAGES:
        try:
            with Client(broker.port) as client:
                client.connect()
                while sent < MESSAGES:
                    batch = range(sent, min(sent + 50, MESSAGES))
                    for number in batch:
                        head = {"persistent": "true", "_AMQ_DUPL_ID": f"n{number}", "receipt": f"{number}"}
                        client.send("SEND", {"destination": destination, **head}, b"%d" % number)
                    for number in batch:
                        client.expect("RECEIPT", {"receipt-id": f"{number}"})
                    sent = batch.stop
        except (OSError, ClosedByBroker, AssertionError):
            time.sleep(0.05)
    done.set()


def consumed(broker: Broker, destination: str, many: int) -> list[bytes]:
    """What is there, and nothing behind it."""
    with Client(broker.port) as client:
        client.connect()
        client.subscribe(destination)
        found = [frame.body for frame in client.messages(many, timeout=60)]
        time.sleep(0.5)
        client.nothing()
    return found


@pytest.mark.parametrize("direction", ["out", "in"])
def test_each_message_comes_once_whatever_is_killed(tmp_path: Path, direction: str):
    near, far = Broker(tmp_path / "near"), Broker(tmp_path / "far")
    near.settings |= {
        key: str(value)
        for key, value in bridge(
            "orders", url=f"stomp://127.0.0.1:{far.port}", direction=direction, source="/queue/orders",
            target="/queue/arrived",
        ).items()
    }  # fmt: skip
    source, target = (near, far) if direction == "out" else (far, near)
    chance, done = random.Random(direction), threading.Event()
    near.start()
    far.start()
    producer = threading.Thread(target=produce, args=(source, "/queue/orders", done), daemon=True)
    producer.start()
    for _ in range(ROUNDS):
        for broker in (near, far):
            time.sleep(chance.uniform(0.3, 0.9))
            broker.kill()
            time.sleep(chance.uniform(0, 0.2))
            broker.start()
    assert done.wait(60), source.log()[-2000:]
    producer.join()
    try:
        found = consumed(target, "/queue/arrived", MESSAGES)
        assert Counter(found) == Counter(b"%d" % number for number in range(MESSAGES))
        assert "exactly once" in near.log()
    finally:
        near.kill()
        far.kill()


def test_a_topic_bridged_both_ways_goes_round_nowhere(tmp_path: Path):
    """Each bridge takes what was sent here, and not what a bridge has brought; nothing is missed while the other side
    is away."""
    east, west = Broker(tmp_path / "east"), Broker(tmp_path / "west")
    for broker, other in ((east, west), (west, east)):
        url = f"stomp://127.0.0.1:{other.port}"
        broker.settings |= {key: str(v) for key, v in bridge("news", url=url, source="/topic/news").items()}
    with east, west, Client(east.port) as a, Client(west.port) as b:
        for client in (a, b):
            client.connect()
            client.subscribe("/topic/news")
        for broker in (east, west):
            until(lambda broker=broker: 'stomp_bridge_up{bridge="news"} 1' in broker.http("/metrics")[1], broker.log)
        a.publish("/topic/news", b"from the east", persistent="true")
        assert {frame.body for frame in a.messages(1) + b.messages(1)} == {b"from the east"}
        b.publish("/topic/news", b"from the west", persistent="true")
        assert {frame.body for frame in a.messages(1) + b.messages(1)} == {b"from the west"}
        time.sleep(0.5)
        a.nothing()
        b.nothing()
        west.kill()
        a.publish("/topic/news", b"meanwhile", persistent="true")
        assert a.messages(1)[0].body == b"meanwhile"
        west.start()
        with Client(west.port) as late:
            late.connect()
            late.subscribe("/topic/seen")
            until(lambda: 'stomp_bridge_messages_total{bridge="news"} 2' in east.http("/metrics")[1], east.log)


def test_a_number_that_comes_again_after_a_kill_takes_no_message_for_a_known_one(tmp_path: Path):
    """What is not persistent is in no log, and its numbers begin anew; bodies are all the same here."""
    near, far = Broker(tmp_path / "near"), Broker(tmp_path / "far")
    with far:
        near.settings |= bridge("over", url=f"stomp://127.0.0.1:{far.port}", source="/queue/a")
        with near:
            for persistent in ("false", "true"):
                with Client(near.port) as client:
                    client.connect()
                    for number in range(3):
                        head = {"destination": "/queue/a", "persistent": persistent, "receipt": f"{number}"}
                        client.send("SEND", head, b"tick")
                        client.expect("RECEIPT")
                assert consumed(far, "/queue/a", 3) == [b"tick"] * 3
                if persistent == "false":
                    near.kill()
                    near.start()
