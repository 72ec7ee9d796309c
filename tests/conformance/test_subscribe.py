"""C38 … C42, C46, C47, C58: SUBSCRIBE and UNSUBSCRIBE."""

from __future__ import annotations

import pytest

from broker.core.errors import Code

from .checks import error, every_version, since_11


@every_version
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"destination": "/nonsense/a"}, Code.BAD_DESTINATION),
        ({"destination": "/queue/"}, Code.BAD_DESTINATION),
        ({}, Code.MISSING_HEADER),
        ({"destination": "/queue/a", "ack": "sometimes"}, Code.BAD_ACK_MODE),
        ({"destination": "/queue/a", "ack": ""}, Code.BAD_ACK_MODE),
        ({"destination": "/queue/a", "ack": "AUTO"}, Code.BAD_ACK_MODE),
        ({"destination": "/queue/a", "ack": "client", "prefetch-count": "many"}, Code.BAD_HEADER),
        ({"destination": "/queue/a", "ack": "client", "consumer-window-size": "1e3"}, Code.BAD_HEADER),
        ({"destination": "/queue/a", "subscription-type": "BOTH"}, Code.BAD_HEADER),
        ({"destination": "/topic/a", "durable-subscription-name": "d"}, Code.CLIENT_ID_REQUIRED),
        ({"destination": "/queue/a", "selector": "a === b"}, Code.BAD_SELECTOR),
    ],
    ids=lambda value: "-".join(f"{k}={v}" for k, v in value.items()) if isinstance(value, dict) else value.name,
)
def test_C38_C42_a_subscribe_that_fails_gets_error_and_close(join, version, headers, code):
    client = join(version)
    client.send("SUBSCRIBE", {"id": "1"} | headers | {"receipt": "r-38"})
    error(client, code, "r-38")


@since_11
def test_C39_subscribe_needs_an_id(join, queue, version):
    client = join(version)
    client.send("SUBSCRIBE", {"destination": queue, "receipt": "r"})
    assert b"id" in error(client, Code.MISSING_HEADER, "r").body


@every_version
def test_C39_ids_differ_within_a_connection(join, queue, version):
    client = join(version)
    client.subscribe(queue, id="same")
    client.send("SUBSCRIBE", {"id": "same", "destination": queue + ".b", "receipt": "r"})
    error(client, Code.DUPLICATE_SUBSCRIPTION, "r")


@every_version
def test_C39_an_id_may_be_used_again_after_unsubscribe(join, queue, version):
    client = join(version)
    for number in range(3):
        client.subscribe(f"{queue}.{number}", id="same")
        client.publish(f"{queue}.{number}", b"x")
        assert client.read()["subscription"] == "same"
        client.ask("UNSUBSCRIBE", {"id": "same"})


@every_version
def test_C39_two_connections_may_use_the_same_id(join, queue, version):
    first, second = join(version), join(version)
    first.subscribe(queue + ".a", id="1")
    second.subscribe(queue + ".b", id="1")
    second.publish(queue + ".a", b"for the first")
    assert first.read().body == b"for the first"
    second.nothing()


def test_C40_v10_the_id_is_optional(join, queue):
    client = join("1.0")
    client.ask("SUBSCRIBE", {"destination": queue})
    client.publish(queue, b"x")
    assert "subscription" not in client.read().headers


def test_C40_v10_an_id_given_is_shown_on_message(join, queue):
    client = join("1.0")
    client.ask("SUBSCRIBE", {"destination": queue, "id": "mine"})
    client.publish(queue, b"x")
    assert client.read()["subscription"] == "mine"


@every_version
def test_C41_without_an_ack_header_messages_count_as_consumed(join, queue, version):
    client = join(version)
    client.ask("SUBSCRIBE", {"id": "1", "destination": queue})
    client.publish(queue, b"x", persistent="true")
    assert "ack" not in client.read().headers
    client.ask("UNSUBSCRIBE", {"id": "1"})
    client.subscribe(queue, id="2")
    client.nothing()


@since_11
def test_C46_unsubscribe_needs_an_id(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    client.send("UNSUBSCRIBE", {"destination": queue, "receipt": "r"})
    error(client, Code.MISSING_HEADER, "r")


@every_version
def test_C46_unsubscribe_of_an_unknown_id_is_an_error(join, version):
    client = join(version)
    client.send("UNSUBSCRIBE", {"id": "none", "receipt": "r"})
    error(client, Code.NO_SUCH_SUBSCRIPTION, "r")


@every_version
@pytest.mark.parametrize("mode", ["auto", "client", "client-individual"])
def test_C46_no_message_follows_an_unsubscribe(join, queue, version, mode):
    client, writer = join(version), join(version)
    client.subscribe(queue, ack=mode)
    client.ask("UNSUBSCRIBE", {"id": "1"})
    writer.publish(queue, b"x")
    client.nothing()
    late = join(version)
    late.subscribe(queue)
    assert late.read().body == b"x"


def test_C47_v10_unsubscribe_by_destination(join, queue):
    client = join("1.0")
    client.ask("SUBSCRIBE", {"destination": queue})
    client.ask("UNSUBSCRIBE", {"destination": queue})
    client.publish(queue, b"x")
    client.nothing()


def test_C47_v10_unsubscribe_by_id(join, queue):
    client = join("1.0")
    client.ask("SUBSCRIBE", {"destination": queue, "id": "1"})
    client.ask("UNSUBSCRIBE", {"id": "1"})
    client.publish(queue, b"x")
    client.nothing()


def test_C47_v10_unsubscribe_needs_one_of_them(join):
    client = join("1.0")
    client.send("UNSUBSCRIBE", {"receipt": "r"})
    error(client, Code.MISSING_HEADER, "r")


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_C58_v12_message_has_an_ack_header_in_client_modes(join, queue, mode):
    client = join()
    client.subscribe(queue, ack=mode)
    client.publish(queue, b"x")
    client.publish(queue, b"y")
    first, second = client.messages(2)
    assert first["ack"] and first["ack"] != second["ack"]


@pytest.mark.parametrize(("version", "mode"), [("1.2", "auto"), ("1.1", "client"), ("1.0", "client")])
def test_C58_and_only_there(join, queue, version, mode):
    client = join(version)
    client.subscribe(queue, ack=mode)
    client.publish(queue, b"x")
    assert "ack" not in client.read().headers


@every_version
def test_several_subscriptions_of_one_connection_each_get_their_own(join, queue, version):
    client = join(version)
    for number in range(5):
        client.subscribe(f"{queue}.{number}", id=f"s{number}")
    for number in range(5):
        client.send("SEND", {"destination": f"{queue}.{number}"}, b"%d" % number)
    assert {(m["subscription"], m.body) for m in client.messages(5)} == {(f"s{n}", b"%d" % n) for n in range(5)}


@every_version
def test_a_topic_reaches_every_subscription_even_of_one_connection(join, topic, version):
    client = join(version)
    client.subscribe(topic, id="a")
    client.subscribe(topic, id="b")
    client.send("SEND", {"destination": topic}, b"x")
    assert {m["subscription"] for m in client.messages(2)} == {"a", "b"}


@every_version
def test_a_topic_keeps_nothing_for_those_who_come_later(join, topic, version):
    client = join(version)
    client.publish(topic, b"early", persistent="true")
    client.subscribe(topic)
    client.nothing()
    client.send("SEND", {"destination": topic}, b"now")
    assert client.read().body == b"now"
