"""Queues that the settings name, and what is special about them, through a client and over kill -9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Broker, Client

from .test_later import Site, bodies, send

SETTINGS = {
    "engine.queues.work.ring_size": 3,
    "engine.queues.one.address": "both",
    "engine.queues.red.address": "both",
    "engine.queues.red.routing": "MULTICAST",
    "engine.queues.red.selector": "colour = 'red'",
    "engine.addresses.prices.last_value": True,
    "engine.addresses.board.non_destructive": True,
    "engine.addresses.board.last_value_key": "pin",
    "engine.addresses.pair.consumers_before_dispatch": 2,
    "engine.addresses.single.max_consumers": 1,
    "engine.addresses.empty.declared": True,
    "engine.addresses.empty.auto_create": False,
    "engine.queue_memory_bytes": 200_000,
    "engine.page_bytes": 50_000,
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Broker(tmp_path, SETTINGS) as running:
        site = Site(running)
        yield site
        site.close()


def states(site: Site, queue: str) -> dict[str, int]:
    """Messages of a queue that has its address's name, by state."""
    start = f'stomp_queue_messages{{address="{queue}",queue="{queue}",state="'
    found = {name.removeprefix(start)[:-2]: n for name, n in site.broker.metrics().items() if name.startswith(start)}
    return {state: int(n) for state, n in found.items() if n}


def test_declared_queues_are_there_without_anybody_asking(site: Site) -> None:
    assert 'stomp_queue_messages{address="work",queue="work",state="ready"}' in site.broker.metrics()
    client = site.join()
    for n in range(5):
        send(client, "/queue/work", b"%d" % n)
    send(client, "both", b"r", colour="red")
    send(client, "both", b"b", colour="blue")
    client = site.again()
    assert bodies(client, "/queue/work", 3) == [b"2", b"3", b"4"]
    assert bodies(client, "both::red", 1) == [b"r"]
    assert bodies(client, "::one", 2) == [b"r", b"b"]
    send(client, "/topic/empty", b"nobody is there")
    client.nothing()


def test_last_values_do_not_pile_up_nor_come_back(site: Site) -> None:
    client = site.join()
    body = b"x" * 1000
    for n in range(2000):
        headers = {"destination": "/queue/prices", "persistent": "true", "_AMQ_LVQ_NAME": f"k{n % 10}"}
        client.send("SEND", headers, b"%d " % n + body)
    client.sync()
    assert states(site, "prices") == {"ready": 10}
    client = site.again()
    assert [int(b.split()[0]) for b in bodies(client, "/queue/prices", 10)] == list(range(1990, 2000))
    client.nothing()


def test_everybody_reads_the_board(site: Site) -> None:
    client = site.join()
    for n in range(5):
        send(client, "/queue/board", b"%d" % n, pin="a" if n % 2 else f"b{n}")
    wanted = [b"0", b"2", b"3", b"4"]
    assert bodies(client, "/queue/board", 4) == wanted
    client.subscribe("/queue/board", id="acks", ack="client")
    client.ask("ACK", {"id": client.messages(4)[-1]["ack"]})
    client = site.again()
    assert bodies(client, "/queue/board", 4) == wanted


def test_consumers_are_counted(site: Site) -> None:
    one, two = site.join(), site.join()
    send(one, "/queue/pair", b"x")
    one.subscribe("/queue/pair")
    one.nothing()
    two.subscribe("/queue/pair")
    assert [message.body for message in [*one.sync(), *two.sync()]] == [b"x"]
    one.subscribe("/queue/single", id="s")
    two.send("SUBSCRIBE", {"destination": "/queue/single", "id": "s", "receipt": "r"})
    assert b"max_consumers" in two.expect("ERROR").body


def test_a_durable_subscription_keeps_its_selector(site: Site) -> None:
    def join() -> Client:
        client = Client(site.broker.port, timeout=20)
        client.connect({"client-id": "me"})
        return client

    me = join()
    headers = {"destination": "/topic/news", "durable-subscriber-name": "n", "id": "1", "selector": "colour = 'red'"}
    me.ask("SUBSCRIBE", headers)
    me.close()
    client = site.again()
    send(client, "/topic/news", b"blue", colour="blue")
    send(client, "/topic/news", b"red", colour="red")
    me = join()
    me.send("SUBSCRIBE", {**headers, "selector": "colour = 'blue'", "receipt": "r"})
    assert "colour = 'red'" in me.expect("ERROR").body.decode()
    me.close()
    me = join()
    me.ask("SUBSCRIBE", headers)
    assert me.read().body == b"red"
    me.close()
