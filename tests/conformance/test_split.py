"""Split addresses: several partitions behind one name; to a client it is one queue, but for the order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

from broker.core.errors import Code
from tests.harness import Broker, Client, scratch

from .checks import error
from .targets import Target, meet

ACKS = pytest.mark.parametrize("ack", ["client", "client-individual"])


@pytest.fixture(scope="module", params=["standalone", "cluster"])
def split(request: pytest.FixtureRequest) -> Iterator[Target]:
    if request.param == "cluster":
        yield request.getfixturevalue("cluster")
        return
    settings = {"engine.addresses.split.#.partitions": 3, "wire.large_body_bytes": 20_000}
    with scratch(request, "split") as folder, Broker(folder, settings) as broker:
        yield broker
        assert "Traceback" not in broker.log()


@pytest.fixture
def join(split: Target) -> Iterator[object]:
    opened: list[Client] = []

    def join(version: str = "1.2", **headers: object) -> Client:
        client = meet(Client(split.port, version), split)
        opened.append(client)
        client.connect(headers)
        return client

    yield join
    for client in opened:
        client.leave()
    assert split.alive


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    return "/queue/split." + request.node.name.replace("[", ".").replace("]", "")


def publish(client, destination, count, **headers):
    """One receipt each, so that every message is a run of its own."""
    for number in range(count):
        client.publish(destination, b"%d" % number, **headers)


def bodies(messages):
    return sorted(int(message.body) for message in messages)


def test_every_message_of_a_split_queue_arrives_once(join, queue):
    client = join()
    publish(client, queue, 10, persistent="true")
    client.subscribe(queue)
    publish(client, queue, 10)
    assert bodies(client.messages(20)) == sorted([*range(10), *range(10)])
    client.nothing()
    client.ask("UNSUBSCRIBE", {"id": "1"})


def test_messages_of_a_group_keep_their_order(join, queue):
    client = join()
    client.subscribe(queue)
    for number in range(40):
        client.send("SEND", {"destination": queue, "JMSXGroupID": f"g{number % 5}"}, b"%d" % number)
    got = defaultdict(list)
    parts = set()
    for message in client.messages(40):
        number = int(message.body)
        got[number % 5].append(number)
        parts.add(message["message-id"].rpartition("-")[0])
    assert all(numbers == sorted(numbers) for numbers in got.values())
    assert len(parts) > 1


def test_a_topic_of_several_partitions_reaches_every_subscriber(join, queue):
    topic = queue.replace("/queue/", "/topic/")
    first, second = join(), join()
    first.subscribe(topic)
    second.subscribe(topic)
    publish(first, topic, 9)
    assert bodies(first.messages(9)) == bodies(second.messages(9)) == list(range(9))


def test_client_mode_covers_what_other_partitions_delivered_before(join, queue):
    client = join()
    client.subscribe(queue, ack="client")
    publish(client, queue, 12)
    messages = client.messages(12)
    client.ack(messages[7], receipt="acked")
    client.expect("RECEIPT", {"receipt-id": "acked"})
    client.ask("UNSUBSCRIBE", {"id": "1"})
    client.subscribe(queue, id="2")
    assert bodies(client.messages(4)) == bodies(messages[8:])
    client.nothing()


def test_client_mode_refuses_what_was_covered_already(join, queue):
    client = join()
    client.subscribe(queue, ack="client")
    publish(client, queue, 6)
    messages = client.messages(6)
    client.ack(messages[4])
    client.send("ACK", {"id": messages[1]["ack"], "receipt": "twice"})
    error(client, Code.NO_SUCH_DELIVERY, "twice")


def test_nack_in_client_mode_brings_back_all_it_covers(join, queue):
    client = join()
    client.subscribe(queue, ack="client")
    publish(client, queue, 6)
    messages = client.messages(6)
    client.nack(messages[5])
    again = client.messages(6)
    assert bodies(again) == list(range(6))
    assert {message["redelivered"] for message in again} == {"true"}


@ACKS
def test_a_window_of_one_message_holds_over_all_partitions(join, queue, ack):
    client = join()
    client.subscribe(queue, ack=ack, **{"prefetch-count": 1})
    publish(client, queue, 9)
    seen = []
    for _ in range(9):
        message = client.read()
        seen.append(message)
        client.nothing()
        client.ack(message)
    assert bodies(seen) == list(range(9))


@ACKS
def test_a_whole_window_arrives_before_the_first_ack_wherever_it_lies(join, queue, ack):
    """A client that acknowledges one full window at a time, and messages that lie in one partition."""
    consumer, producer = join(), join()
    consumer.subscribe(queue, ack=ack, **{"prefetch-count": 10})
    for number in range(12):
        producer.publish(queue, b"%d" % number, JMSXGroupID="one")
    window = consumer.messages(10)
    assert bodies(window) == list(range(10))
    for message in window if ack == "client-individual" else window[-1:]:
        consumer.ack(message)
    assert bodies(consumer.messages(2)) == [10, 11]


def test_a_transaction_acknowledges_over_partitions_or_not_at_all(join, queue):
    client = join()
    client.subscribe(queue, ack="client")
    publish(client, queue, 6)
    for ending in ("ABORT", "COMMIT"):
        messages = client.messages(6)
        client.send("BEGIN", {"transaction": "t"})
        client.ack(messages[5], transaction="t")
        for number in range(4):
            client.send("SEND", {"destination": queue + ".out", "transaction": "t"}, b"%d" % number)
        client.ask(ending, {"transaction": "t"})
    client.nothing()
    client.subscribe(queue + ".out", id="out")
    assert [int(message.body) for message in client.messages(4)] == [0, 1, 2, 3]


def test_a_durable_subscription_has_a_part_in_every_partition(join, queue):
    topic = queue.replace("/queue/", "/topic/")
    name = {"durable-subscription-name": "d"}
    client = join(**{"client-id": "split"})
    client.subscribe(topic, **name)
    client.ask("UNSUBSCRIBE", {"id": "1"})
    publish(client, topic, 6, persistent="true")
    client.subscribe(topic, **name)
    assert bodies(client.messages(6)) == list(range(6))
    client.ask("UNSUBSCRIBE", {"id": "1"} | name)
    publish(client, topic, 3)
    client.subscribe(topic, **name)
    client.nothing()
    client.ask("UNSUBSCRIBE", {"id": "1"} | name)


def test_a_browser_sees_all_partitions_and_one_end(join, queue):
    client = join()
    publish(client, queue, 7, persistent="true")
    client.subscribe(queue, browser="true")
    seen = client.messages(8)
    assert bodies(seen[:7]) == list(range(7))
    assert seen[7]["browser"] == "end"
    client.nothing()


def test_a_part_that_is_refused_names_the_receipt_of_its_frame(join, queue):
    client = join()
    client.send("SUBSCRIBE", {"id": "1", "destination": queue, "selector": "a =", "receipt": "r"})
    error(client, Code.BAD_SELECTOR, "r")


def test_large_bodies_travel_through_partitions(join, queue):
    client = join()
    client.subscribe(queue, ack="client")
    for letter in b"abcd":
        client.publish(queue, bytes([letter]) * 30_000)
    messages = client.messages(4)
    assert sorted(message.body[:1] for message in messages) == [b"a", b"b", b"c", b"d"]
    client.ack(messages[-1], receipt="all")
    client.expect("RECEIPT", {"receipt-id": "all"})
