"""Messages for later and for elsewhere, through a client, over kill -9: schedules, duplicate ids, diverts, the last
ones of a topic, dead letters in queues of their own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Broker, Client, build

SETTINGS = {
    "engine.diverts.audit.address": "orders",
    "engine.diverts.audit.forward": "audit",
    "engine.diverts.urgent.address": "orders",
    "engine.diverts.urgent.forward": "urgent",
    "engine.diverts.urgent.exclusive": True,
    "engine.diverts.urgent.selector": "kind = 'urgent'",
    "engine.addresses.news.retroactive_messages": 2,
    "engine.addresses.frail.max_delivery_attempts": 1,
    "engine.addresses.frail.auto_create_dead_letter_resources": True,
    "engine.addresses.tight.full_policy": "FAIL",
    "engine.addresses.tight.max_size_messages": 1,
    "engine.addresses.short.max_expiry_delay_ms": 200,
    "engine.addresses.short.expiry_address": "gone",
}
COUNT = 50_000
SLACK = 24 << 20
"""Bytes of RSS that buffers and the journal's books may take besides."""
SCHEDULED = 'stomp_queue_messages{address="q",queue="q",state="scheduled"}'


class Site:
    """A broker, and its clients."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._clients: list[Client] = []

    def join(self) -> Client:
        client = Client(self.broker.port)
        self._clients.append(client)
        client.connect()
        return client

    def again(self) -> Client:
        """Kills the broker, starts it on the same data, and connects."""
        self.broker.kill()
        self.close()
        self.broker.start()
        return self.join()

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Broker(tmp_path, SETTINGS) as running:
        site = Site(running)
        yield site
        site.close()


def send(client: Client, destination: str, body: bytes, **headers: object) -> None:
    """Durable, and answered."""
    client.ask("SEND", {"destination": destination, "persistent": "true", **headers}, body)


def bodies(client: Client, destination: str, count: int) -> list[bytes]:
    client.subscribe(destination, id=destination)
    found = [message.body for message in client.messages(count)]
    client.ask("UNSUBSCRIBE", {"id": destination})
    return found


def test_a_schedule_outlives_a_kill(site: Site) -> None:
    client = site.join()
    due = time.time() + 3
    send(client, "q", b"later", AMQ_SCHEDULED_TIME=int(due * 1000))
    send(client, "q", b"now")
    client = site.again()
    client.subscribe("q")
    arrived = {}
    for _ in range(2):
        message = client.read()
        assert message.get("redelivered", "false") == "false"
        arrived[message.body] = time.time()
    assert set(arrived) == {b"now", b"later"}
    assert arrived[b"later"] >= due - 0.05


def test_a_known_id_is_known_after_a_kill(site: Site) -> None:
    send(site.join(), "q", b"a", _AMQ_DUPL_ID="x")
    client = site.again()
    send(client, "q", b"a", _AMQ_DUPL_ID="x")
    send(client, "q", b"b", _AMQ_DUPL_ID="y")
    assert bodies(client, "q", 2) == [b"a", b"b"]
    assert site.broker.metrics()["stomp_messages_duplicates_total"] == 1


def test_a_transaction_with_a_known_id_sends_nothing_and_succeeds(site: Site) -> None:
    client = site.join()
    for _ in range(2):
        client.send("BEGIN", {"transaction": "t"})
        client.send("SEND", {"destination": "q", "transaction": "t", "_AMQ_DUPL_ID": "x"}, b"a")
        client.send("SEND", {"destination": "r", "transaction": "t"}, b"b")
        client.ask("COMMIT", {"transaction": "t"})
    send(client, "q", b"end")
    send(client, "r", b"end")
    assert (bodies(client, "q", 2), bodies(client, "r", 2)) == ([b"a", b"end"], [b"b", b"end"])


def test_a_full_address_knows_duplicates_by_send_and_by_transaction(site: Site) -> None:
    client = site.join()
    message = {"destination": "tight", "transaction": "t", "persistent": "true", "_AMQ_DUPL_ID": "x"}
    for _ in range(2):
        client.send("BEGIN", {"transaction": "t"})
        client.send("SEND", message, b"a")
        client.ask("COMMIT", {"transaction": "t"})
    client = site.again()
    send(client, "tight", b"b", _AMQ_DUPL_ID="x")
    client.send("SEND", {"destination": "tight", "_AMQ_DUPL_ID": "y"}, b"c")
    error = client.read()
    assert error.command == "ERROR" and "Address is full" in str(error)


def test_diverts_copy_and_detour_and_their_copies_outlive_a_kill(site: Site) -> None:
    client = site.join()
    send(client, "orders", b"1")
    send(client, "orders", b"2", kind="urgent")
    client = site.again()
    assert bodies(client, "audit", 1) == [b"1"]
    assert bodies(client, "orders", 1) == [b"1"]
    client.subscribe("urgent")
    message = client.read()
    assert (message.body, message["_AMQ_ORIG_ADDRESS"]) == (b"2", "orders")


def test_the_last_ones_of_a_topic_are_there_after_a_kill(site: Site) -> None:
    client = site.join()
    for body in (b"1", b"2", b"3"):
        send(client, "/topic/news", body)
    assert bodies(site.again(), "/topic/news", 2) == [b"2", b"3"]


def test_dead_letters_and_expired_messages_find_their_place(site: Site) -> None:
    client = site.join()
    send(client, "frail", b"a")
    client.subscribe("frail", ack="client-individual")
    client.nack(client.read())
    client.subscribe("DLQ::DLQ.frail", id="dead", ack="client")
    assert client.read()["_AMQ_ORIG_QUEUE"] == "frail"
    client.ask("UNSUBSCRIBE", {"id": "dead"})
    client = site.again()
    send(client, "other", b"c")
    client.subscribe("other", ack="client-individual")
    letter = client.read()
    client.send("NACK", {"id": letter["ack"], "requeue": "false"})
    client.subscribe("DLQ", id="letters", ack="client")
    assert client.read()["_AMQ_ORIG_QUEUE"] == "other"
    client.subscribe("DLQ::DLQ.frail", id="dead", ack="client")
    again = client.read()
    assert (again["subscription"], again["_AMQ_ORIG_QUEUE"]) == ("dead", "frail")  # and no letter of another address
    send(client, "short", b"b")
    client.subscribe("gone", id="gone")
    assert client.read()["_AMQ_ORIG_ADDRESS"] == "short"


def test_many_schedules_cost_little_memory(site: Site) -> None:
    """At most 200 B each, with 1 KiB bodies; a restart brings all of them back."""
    client = site.join()
    send(client, "q", b"warm up")
    bodies(client, "q", 1)
    before, due = site.broker.rss(), int(time.time() * 1000) + 3_600_000
    for at in range(0, COUNT, 1000):
        # Neighbours differ, or a read full of them would be one run.
        headers = {"destination": "q", "persistent": "true"}
        client.raw(
            b"".join(
                [
                    build("SEND", {**headers, "AMQ_SCHEDULED_TIME": due + n % 7}, b"%08d" % n + b"x" * 1016)
                    for n in range(at, at + 1000)
                ]
            )
        )
        client.sync()
    used = site.broker.rss() - before
    assert used < 200 * COUNT + SLACK, used
    assert site.broker.metrics()[SCHEDULED] == COUNT
    site.again()
    assert site.broker.metrics()[SCHEDULED] == COUNT
    assert site.broker.rss() - before < 200 * COUNT + SLACK
