"""A bridge with a real RabbitMQ as the other end, both ways, over a kill -9 of ours: none is lost, and what has a name
at RabbitMQ comes once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Broker, Client, until
from tests.oracles.peers import Absent, rabbitmq

LOGIN = {"login": "guest", "passcode": "guest"}
MANY = 300


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    try:
        with rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as port:
            yield port
    except Absent as absent:
        pytest.skip(str(absent))


def broker(folder: Path, rabbit: int, **values: object) -> Broker:
    """With one bridge to RabbitMQ."""
    folder.mkdir(exist_ok=True)
    (folder / "passcode").write_text("guest\n")
    table = {
        "url": f"stomp://127.0.0.1:{rabbit}", "host": "/", "login": "guest", "passcode_file": folder / "passcode",
        "retry_min_s": 0.05, "retry_max_s": 0.2, **values,
    }  # fmt: skip
    return Broker(folder, {f"bridges.rabbit.{name}": value for name, value in table.items()})


def test_to_rabbitmq_none_is_lost(tmp_path: Path, rabbit: int):
    with (
        broker(tmp_path / "b", rabbit, source="/queue/out", target="/queue/to-rabbit") as near,
        Client(rabbit, "1.0") as far,
    ):
        far.connect(LOGIN)
        far.subscribe("/queue/to-rabbit")
        with Client(near.port) as client:
            client.connect()
            head = {"destination": "/queue/out", "persistent": "true", "colour": "blue"}
            for number in range(MANY):
                client.send("SEND", head, b"%d" % number)
            client.sync()
        far.messages(1)
        near.kill()
        near.start()
        seen = {b"0"}
        while len(seen) < MANY:
            (frame,) = far.messages(1, timeout=30)
            seen.add(frame.body)
            assert (frame["colour"], frame["persistent"], frame["bridge_hops"]) == ("blue", "true", "1")


@pytest.mark.parametrize("destination", ["/queue/from-rabbit", "/topic/from.rabbit"])
def test_from_rabbitmq_what_has_a_name_comes_once(tmp_path: Path, rabbit: int, destination: str):
    settings = {"source": destination, "target": "/queue/arrived", "direction": "in", "window": 50}
    with broker(tmp_path / "b", rabbit, **settings) as near, Client(rabbit, "1.0") as far:
        until(lambda: 'stomp_bridge_up{bridge="rabbit"} 1' in near.http("/metrics")[1], near.log)
        far.connect(LOGIN)

        def send(numbers: range) -> None:
            for number in numbers:
                head = {"destination": destination, "persistent": "true", "amqp-message-id": f"n{number}"}
                far.send("SEND", {**head, "receipt": f"{number}"}, b"%d" % number)
            for number in numbers:
                far.expect("RECEIPT", {"receipt-id": f"{number}"})

        send(range(MANY // 2))
        near.kill()
        send(range(MANY // 2, MANY))
        near.start()
        with Client(near.port) as client:
            client.connect()
            client.subscribe("/queue/arrived")
            found = [frame.body for frame in client.messages(MANY, timeout=30)]
            until(lambda: 'stomp_bridge_in_flight{bridge="rabbit"} 0' in near.http("/metrics")[1], near.log)
            client.nothing()
        assert Counter(found) == Counter(b"%d" % number for number in range(MANY))


def test_how_long_a_message_may_live_is_known_at_the_other_end(tmp_path: Path, rabbit: int):
    """Each broker knows it by another header: relayed as it came, it would live for ever, or be refused here."""
    with Client(rabbit, "1.0") as far:
        far.connect(LOGIN)
        with broker(tmp_path / "out", rabbit, source="/queue/out", target="/queue/lives") as near:
            with Client(near.port) as client:
                client.connect()
                client.publish("/queue/out", b"x", ttl=600_000)
            far.subscribe("/queue/lives")
            assert far.messages(1, timeout=30)[0]["expiration"] == "600000"
        settings = {"source": "/queue/mortal", "target": "/queue/in", "direction": "in"}
        with broker(tmp_path / "in", rabbit, **settings) as near, Client(near.port) as client:
            client.connect()
            client.subscribe("/queue/in", selector="AMQExpiration > 0")
            far.send("SEND", {"destination": "/queue/mortal", "expiration": "600000"}, b"y")
            (frame,) = client.messages(1, timeout=30)
            assert (frame["ttl"], frame.get("expiration"), frame.body) == ("600000", None, b"y")
