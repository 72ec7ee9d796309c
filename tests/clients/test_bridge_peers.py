"""Bridges with a real ActiveMQ Classic and a real Artemis as the other end, both ways, over a kill -9 of ours."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness import Broker, Client, until
from tests.oracles import peers

LOGIN = {"login": "guest", "passcode": "guest"}
MANY = 200


class Peer(NamedTuple):
    """once: does it drop a message with an id that it knows."""

    name: str
    port: int
    once: bool


@pytest.fixture(scope="module", params=["activemq", "artemis"])
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    start = {"activemq": peers.activemq, "artemis": peers.artemis}[request.param]
    try:
        with start(tmp_path_factory.mktemp(request.param)) as port:
            yield Peer(request.param, port, request.param == "artemis")
    except peers.Absent as absent:
        pytest.skip(str(absent))


def bridged(folder: Path, peer: Peer, **values: object) -> Broker:
    folder.mkdir(exist_ok=True)
    (folder / "passcode").write_text("guest\n")
    table = {
        "url": f"stomp://127.0.0.1:{peer.port}", "login": "guest", "passcode_file": folder / "passcode",
        "retry_min_s": 0.05, "retry_max_s": 0.2, "window": 50, **values,
    }  # fmt: skip
    return Broker(folder, {f"bridges.far.{name}": value for name, value in table.items()})


def up(near: Broker) -> bool:
    return 'stomp_bridge_up{bridge="far"} 1' in near.http("/metrics")[1]


def moved(near: Broker) -> int:
    found = re.search(r'stomp_bridge_messages_total{bridge="far"} (\d+)', near.http("/metrics")[1])
    return int(found[1]) if found else 0


def test_to_it_none_is_lost_and_where_ids_count_none_comes_twice(tmp_path: Path, peer: Peer):
    with (
        bridged(tmp_path / "b", peer, source="/queue/out", target="/queue/arrives") as near,
        Client(peer.port, "1.2") as far,
    ):
        far.connect(LOGIN)
        far.subscribe("/queue/arrives")
        with Client(near.port) as client:
            client.connect()
            for number in range(MANY):
                client.send(
                    "SEND", {"destination": "/queue/out", "persistent": "true", "colour": "blue"}, b"%d" % number
                )
            client.sync()
        found = [frame.body for frame in far.messages(1)]
        near.kill()
        near.start()
        while set(found) != {b"%d" % number for number in range(MANY)}:
            (frame,) = far.messages(1, timeout=30)
            found.append(frame.body)
            assert (frame["colour"], frame["bridge_hops"]) == ("blue", "1")
        assert 'stomp_bridge_exactly_once{bridge="far"} ' + str(int(peer.once)) in near.http("/metrics")[1]
        if peer.once:
            far.nothing()
            assert len(found) == MANY


@pytest.mark.parametrize("destination", ["/queue/departs", "/topic/departs.too"])
def test_from_it_each_comes_once(tmp_path: Path, peer: Peer, destination: str):
    settings = {"source": destination, "target": "/queue/arrived", "direction": "in"}
    with bridged(tmp_path / "b", peer, **settings) as near, Client(peer.port, "1.2") as far:
        until(lambda: up(near), near.log)
        far.connect(LOGIN)

        def send(numbers: range) -> None:
            for number in numbers:
                far.send(
                    "SEND", {"destination": destination, "persistent": "true", "receipt": f"{number}"}, b"%d" % number
                )
            for number in numbers:
                far.expect("RECEIPT", {"receipt-id": f"{number}"})

        send(range(MANY // 2))
        # Not before the first ACK. Artemis 2.40 keeps a message for good that was just being delivered, as the first
        # one of a consumer, when its connection broke: it stands in the journal of its queue and is given to no
        # consumer before Artemis is started anew. Seen in 4 of 25 runs on a busy machine, with all that went over the
        # bridge's connections written down.
        until(lambda: moved(near) > 0, near.log)
        near.kill()
        send(range(MANY // 2, MANY))
        near.start()
        with Client(near.port) as client:
            client.connect()
            client.subscribe("/queue/arrived")
            found = [frame.body for frame in client.messages(MANY, timeout=30)]
            until(lambda: 'stomp_bridge_in_flight{bridge="far"} 0' in near.http("/metrics")[1], near.log)
            client.nothing()
        assert Counter(found) == Counter(b"%d" % number for number in range(MANY))
