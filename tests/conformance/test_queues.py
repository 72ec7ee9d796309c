"""What the broker adds to STOMP: windows, round robin, priority, expiry, browsing, durable subscriptions, FQQN."""

from __future__ import annotations

import time

import pytest

from broker.core.errors import Code
from broker.wire.rules import DURABLE_NAMES

from .checks import bodies, error, every_version


def load(client, destination, count, **headers):
    for number in range(count):
        client.publish(destination, b"%d" % number, **headers)


@every_version
@pytest.mark.parametrize("persistent", ["false", "true"])
def test_two_consumers_share_a_queue_message_by_message(join, queue, version, persistent):
    first, second, writer = join(version), join(version), join(version)
    first.subscribe(queue)
    second.subscribe(queue)
    load(writer, queue, 10, persistent=persistent)
    got = bodies(first.messages(5)), bodies(second.messages(5))
    assert sorted(got[0] + got[1]) == [b"%d" % n for n in range(10)]
    assert all(part == sorted(part) for part in got)
    first.nothing()
    second.nothing()


@every_version
def test_a_burst_is_shared_as_well(join, queue, version):
    """All frames in one write: a run is dealt, not given to one."""
    first, second, writer = join(version), join(version), join(version)
    first.subscribe(queue)
    second.subscribe(queue)
    writer.raw(f"SEND\ndestination:{queue}\n\nx\0".encode() * 20)
    first.messages(10)
    second.messages(10)


@every_version
def test_a_consumer_that_goes_leaves_its_messages_to_the_other(join, queue, version):
    first, second, writer = join(version), join(version), join(version)
    first.subscribe(queue, ack="client")
    second.subscribe(queue, ack="client")
    load(writer, queue, 6)
    first.messages(3)
    second.messages(3)
    first.close()
    again = second.messages(3)
    assert {m["redelivered"] for m in again} == {"true"}


@every_version
def test_prefetch_count_bounds_what_is_unacknowledged(join, queue, version):
    client, writer = join(version), join(version)
    client.subscribe(queue, ack="client-individual", prefetch_count=2)
    load(writer, queue, 5)
    held = client.messages(2)
    client.nothing()
    client.ack(held[0])
    held.append(client.read())
    client.nothing()
    assert bodies(held) == [b"0", b"1", b"2"]


@every_version
@pytest.mark.parametrize("header", ["consumer-window-size", "activemq.prefetchSize"])
def test_a_window_of_bytes_bounds_what_is_unacknowledged(join, queue, version, header):
    client, writer = join(version), join(version)
    client.ask("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client", header: 3000})
    for _ in range(10):
        writer.publish(queue, b"x" * 1000)
    held = client.messages(2)
    held += client.sync()
    assert 2 <= len(held) <= 4  # 3,000 bytes with headers, and one message may overshoot
    client.ack(held[-1])
    client.messages(2)


@every_version
def test_a_window_of_zero_is_one_message_at_a_time(join, queue, version):
    client, writer = join(version), join(version)
    client.subscribe(queue, ack="client", consumer_window_size=0)
    load(writer, queue, 3)
    for number in range(3):
        message = client.read()
        assert message.body == b"%d" % number
        client.nothing()
        client.ack(message)


@every_version
def test_a_window_smaller_than_a_message_does_not_stall(join, queue, version):
    client, writer = join(version), join(version)
    client.subscribe(queue, ack="client", consumer_window_size=1)
    writer.publish(queue, b"x" * 5000)
    writer.publish(queue, b"y")
    client.ack(client.read())
    assert client.read().body == b"y"


@every_version
def test_window_does_not_bind_auto_subscriptions(join, queue, version):
    client, writer = join(version), join(version)
    client.subscribe(queue, ack="auto", prefetch_count=1, consumer_window_size=0)
    load(writer, queue, 5)
    client.messages(5)


@every_version
@pytest.mark.parametrize("persistent", ["false", "true"])
def test_higher_priority_first_and_fifo_within(join, queue, version, persistent):
    writer, reader = join(version), join(version)
    for number, priority in enumerate([4, 0, 9, 4, 9, 0, None]):
        extra = {} if priority is None else {"priority": priority}
        writer.publish(queue, b"%d" % number, persistent=persistent, **extra)
    reader.subscribe(queue)
    assert bodies(reader.messages(7)) == [b"2", b"4", b"0", b"3", b"6", b"1", b"5"]


@every_version
@pytest.mark.parametrize("persistent", ["false", "true"])
def test_an_expired_message_is_not_delivered(join, queue, version, persistent):
    writer, reader = join(version), join(version)
    soon = int(time.time() * 1000) + 120
    writer.publish(queue, b"gone", expires=soon, persistent=persistent)
    writer.publish(queue, b"there", persistent=persistent)
    writer.publish(queue, b"later", expires=soon + 600_000, persistent=persistent)
    while time.time() * 1000 <= soon:
        time.sleep(0.01)
    reader.subscribe(queue)
    assert bodies(reader.messages(2)) == [b"there", b"later"]


@every_version
def test_what_is_sent_expired_is_dropped_with_a_receipt(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    client.publish(queue, b"late", expires=1000)
    client.publish(queue, b"x", ttl=60_000)
    assert client.read().body == b"x"


@every_version
@pytest.mark.parametrize("persistent", ["false", "true"])
def test_browsing_shows_all_takes_none_and_ends(join, queue, version, persistent):
    writer, looker, reader = join(version), join(version), join(version)
    load(writer, queue, 4, persistent=persistent)
    looker.subscribe(queue, id="b", browser="true")
    assert bodies(looker.messages(4)) == [b"0", b"1", b"2", b"3"]
    end = looker.expect("MESSAGE")
    assert (end["browser"], end["subscription"], end.body) == ("end", "b", b"")
    looker.nothing()
    looker.ask("UNSUBSCRIBE", {"id": "b"})
    reader.subscribe(queue)
    got = reader.messages(4)
    assert bodies(got) == [b"0", b"1", b"2", b"3"]
    assert not any("redelivered" in m.headers for m in got)


@every_version
def test_browsing_an_empty_queue_ends_at_once(join, queue, version):
    looker = join(version)
    looker.send("SUBSCRIBE", {"id": "b", "destination": queue, "browser": "true"})
    assert looker.expect("MESSAGE")["browser"] == "end"


DURABLE = ["durable-subscription-name", "durable-subscriber-name", "activemq.subscriptionName"]


@every_version
@pytest.mark.parametrize("header", DURABLE)
def test_a_durable_subscription_keeps_messages_while_its_client_is_away(join, topic, name, version, header):
    writer = join(version)
    for round in range(2):
        client = join(version, {"client-id": f"c-{name}"})
        client.ask("SUBSCRIBE", {"id": "1", "destination": topic, "ack": "client", header: "news"})
        if round:
            got = client.messages(3)
            assert bodies(got) == [b"0", b"1", b"2"]
            client.ack(got[-1])
        client.ask("DISCONNECT")
        if not round:
            load(writer, topic, 3, persistent="true")
    again = join(version, {"client-id": f"c-{name}"})
    again.ask("SUBSCRIBE", {"id": "1", "destination": topic, header: "news"})
    again.nothing()


@every_version
def test_unsubscribe_with_the_durable_name_deletes_the_subscription(join, topic, name, version):
    client, writer = join(version, {"client-id": f"c-{name}"}), join(version)
    client.subscribe(topic, durable_subscription_name="news")
    client.ask("UNSUBSCRIBE", {"id": "1", "durable-subscription-name": "news"})
    writer.publish(topic, b"x", persistent="true")
    client.subscribe(topic, durable_subscription_name="news")
    client.nothing()


@every_version
@pytest.mark.parametrize("header", DURABLE_NAMES)
@pytest.mark.parametrize("extra", [{}, {"id": "gone"}], ids=["", "id"])
def test_the_name_is_enough_to_delete_a_durable_subscription(join, topic, name, version, header, extra):
    """After a reconnect, as Artemis' clients do it: no consumer, no destination."""
    client, writer = join(version, {"client-id": f"c-{name}"}), join(version)
    client.ask("SUBSCRIBE", {"id": "1", "destination": topic, header: "news"})
    client.ask("DISCONNECT")
    writer.publish(topic, b"x", persistent="true")
    client = join(version, {"client-id": f"c-{name}"})
    client.ask("UNSUBSCRIBE", {header: "news", **extra})
    client.ask("SUBSCRIBE", {"id": "1", "destination": topic + ".elsewhere", header: "news"})
    writer.publish(topic + ".elsewhere", b"y", persistent="true")
    assert client.read().body == b"y"
    client.nothing()


@every_version
def test_the_name_of_somebody_else_deletes_nothing(join, topic, name, version):
    owner, thief, writer = (join(version, {"client-id": f"{who}-{name}"}) for who in "otw")
    owner.subscribe(topic, durable_subscription_name="news")
    owner.ask("DISCONNECT")
    thief.send("UNSUBSCRIBE", {"durable-subscription-name": "news", "receipt": "r"})
    error = thief.expect("ERROR")
    assert (error["error-code"], error["receipt-id"]) == (str(Code.NO_SUCH_SUBSCRIPTION.number), "r")
    writer.publish(topic, b"x", persistent="true")
    owner = join(version, {"client-id": f"o-{name}"})
    owner.subscribe(topic, durable_subscription_name="news")
    assert owner.read().body == b"x"


@every_version
def test_unsubscribe_without_the_durable_name_keeps_the_subscription(join, topic, name, version):
    client, writer = join(version, {"client-id": f"c-{name}"}), join(version)
    client.subscribe(topic, durable_subscription_name="news")
    client.ask("UNSUBSCRIBE", {"id": "1"})
    writer.publish(topic, b"x", persistent="true")
    client.subscribe(topic, durable_subscription_name="news")
    assert client.read().body == b"x"


@every_version
def test_two_clients_with_the_same_name_do_not_share(join, topic, name, version):
    first, second = join(version, {"client-id": f"{name}-1"}), join(version, {"client-id": f"{name}-2"})
    for client in (first, second):
        client.subscribe(topic, durable_subscription_name="news")
    first.publish(topic, b"x")
    assert first.read().body == second.read().body == b"x"


@every_version
def test_fqqn_reaches_one_queue_of_an_address(join, name, version):
    one, two, writer = join(version), join(version), join(version)
    destination = f"{name}::{{}}"
    one.subscribe(destination.format("q1"))
    two.subscribe(destination.format("q2"))
    writer.publish(destination.format("q2"), b"for two")
    assert two.read().body == b"for two"
    one.nothing()


@every_version
def test_fqqn_consumes_the_queue_of_a_durable_subscription(join, topic, name, version):
    owner, other = join(version, {"client-id": f"c-{name}"}), join(version)
    owner.subscribe(topic, durable_subscription_name="news")
    owner.ask("DISCONNECT")
    other.publish(topic, b"x")
    other.subscribe(f"{name}::c-{name}.news")
    assert other.read().body == b"x"


def test_nobody_comes_upon_the_queue_of_somebody_elses_subscription(join, topic, name):
    """It is named after its consumer, whose number can be guessed."""
    reader = join("1.2", {"client-id": name})
    reader.subscribe(topic)
    for number in range(1, 4):
        for command in ("SUBSCRIBE", "SEND"):
            stranger = join()
            stranger.send(command, {"destination": f"{topic}::{name}::{number}", "id": "1", "receipt": "r"})
            error(stranger, Code.BAD_DESTINATION, "r")
    reader.send(
        "SUBSCRIBE", {"destination": topic, "id": "2", "durable-subscription-name": f"{name}::1", "receipt": "r"}
    )
    error(reader, Code.BAD_HEADER, "r")


@pytest.mark.parametrize("destination", ["a::", "::", "/queue/a::"])
def test_an_incomplete_fqqn_is_an_error(join, destination):
    client = join()
    client.send("SEND", {"destination": destination, "receipt": "r"})
    error(client, Code.BAD_DESTINATION, "r")


@every_version
def test_plain_names_and_prefixes_meet_on_one_address(join, name, version):
    """`x` and `/queue/x` are one queue; a SEND to the plain name reaches queue and topic subscribers (UNSET)."""
    plain, prefixed, writer = join(version), join(version), join(version)
    plain.subscribe(name, ack="client", prefetch_count=1)
    prefixed.subscribe(f"/topic/{name}")
    writer.publish(name, b"x")
    assert plain.read().body == prefixed.read().body == b"x"


@every_version
def test_queue_and_topic_of_one_name_are_apart_when_the_sender_says_so(join, name, version):
    on_queue, on_topic, writer = join(version), join(version), join(version)
    on_queue.subscribe(f"/queue/{name}")
    on_topic.subscribe(f"/topic/{name}")
    writer.publish(f"/queue/{name}", b"q")
    writer.publish(f"/topic/{name}", b"t")
    assert (on_queue.read().body, on_topic.read().body) == (b"q", b"t")
    on_queue.nothing()
    on_topic.nothing()
