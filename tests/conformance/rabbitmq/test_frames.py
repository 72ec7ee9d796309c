"""Headers of RabbitMQ in every frame: what they do, or how they are refused."""

from __future__ import annotations

import time

import pytest

from .checks import error

# MESSAGE


def test_every_message_says_whether_it_comes_again(join, name):
    client = join()
    client.publish(f"/queue/{name}", b"x", persistent="true", x="y")
    client.subscribe(f"/queue/{name}", ack="client-individual")
    first = client.expect("MESSAGE", {"redelivered": "false", "x": "y", "persistent": "true"})
    client.nack(first)
    again = client.expect("MESSAGE", {"redelivered": "true"})
    assert [name for name, _ in again.pairs].count("redelivered") == 1
    client.ack(again)


PROPERTIES = {
    "content-type": "text/x", "content-encoding": "gzip", "correlation-id": "7", "amqp-message-id": "m",
    "timestamp": "17", "type": "t", "app-id": "a", "priority": "200", "x-anything": "else",
}  # fmt: skip


def test_properties_are_relayed(join, name):
    client = join()
    client.subscribe(f"/queue/{name}")
    client.ask("SEND", {"destination": f"/queue/{name}", **PROPERTIES}, b"x")
    message = client.read()
    assert {header: message[header] for header in PROPERTIES} == PROPERTIES


def test_forged_headers_are_not_relayed(join, name):
    client = join()
    client.subscribe(f"/queue/{name}")
    client.ask("SEND", {"destination": f"/queue/{name}", "ack": "f", "subscription": "f", "redelivered": "true"}, b"x")
    message = client.expect("MESSAGE", {"subscription": "1", "redelivered": "false"})
    assert message.get("ack") is None


# SEND


def test_a_message_id_is_the_brokers(join, name):
    client = join()
    client.send("SEND", {"destination": f"/queue/{name}", "message-id": "mine", "receipt": "r"}, b"x")
    error(client, "Invalid header", "'message-id'", "not allowed on 'SEND'", receipt="r")


def test_a_user_id_is_who_it_is(join, name):
    client = join()
    client.publish(f"/queue/{name}", b"x", user_id="anonymous")
    client.send("SEND", {"destination": f"/queue/{name}", "user-id": "ceo", "receipt": "r"}, b"x")
    error(client, "access_refused", "user_id property set to 'ceo'", receipt="r")


def test_an_expiration_is_how_long_it_lives(join, name):
    client = join()
    client.publish(f"/queue/{name}", b"short", expiration=1)
    client.publish(f"/queue/{name}", b"long", expiration=600_000)
    time.sleep(0.05)  # more than the millisecond: whoever waits longer sees the same
    client.subscribe(f"/queue/{name}")
    assert client.read().body == b"long"


@pytest.mark.parametrize("value", ["soon", "-1"])
def test_an_expiration_that_is_none(join, name, value):
    client = join()
    client.send("SEND", {"destination": f"/queue/{name}", "expiration": value, "receipt": "r"}, b"x")
    error(client, "Invalid header", f"expiration:{value}", receipt="r")


# SUBSCRIBE


def test_prefetch_count_bounds_what_is_not_acknowledged(join, name):
    client = join()
    for number in range(3):
        client.publish(f"/queue/{name}", b"%d" % number)
    client.subscribe(f"/queue/{name}", ack="client-individual", prefetch_count=1)
    for number in range(3):
        message = client.read()
        assert message.body == b"%d" % number
        client.nothing()
        client.ack(message)


def test_nack_without_requeue_goes_to_the_dead_letters(join, name):
    client = join()
    client.publish("/queue/with.dlx", name.encode())
    client.subscribe(
        "/queue/with.dlx", ack="client-individual", x_dead_letter_exchange="", x_dead_letter_routing_key="dead.queue"
    )
    client.nack(client.read(), requeue="false")
    client.subscribe("/queue/dead.queue", id="dead")
    assert client.expect("MESSAGE", {"subscription": "dead"}).body == name.encode()


@pytest.mark.parametrize("flag", ["durable", "persistent"])
def test_a_durable_subscription_by_its_id(join, name, flag):
    topic = f"/topic/{name}.*"
    first = join()
    first.subscribe(topic, id="mine", **{flag: "true", "auto-delete": "false"})
    first.ask("DISCONNECT")
    sender = join()
    sender.publish(f"/topic/{name}.a", b"kept", persistent="true")
    second = join()
    second.subscribe(topic, id="mine", **{flag: "true", "auto-delete": "false"})
    assert second.read().body == b"kept"
    second.ask("UNSUBSCRIBE", {"id": "mine", flag: "true"})
    sender.publish(f"/topic/{name}.a", b"gone")
    third = join()
    third.subscribe(topic, id="mine", **{flag: "true"})
    third.nothing()
    third.ask("UNSUBSCRIBE", {"id": "mine", flag: "true"})


def test_it_is_shared_by_who_says_the_same(join, name):
    one, other = join(), join()
    for client in (one, other):
        client.subscribe(f"/topic/{name}", id="shared", ack="client-individual", durable="true", prefetch_count=1)
    one.publish(f"/topic/{name}", b"1")
    one.publish(f"/topic/{name}", b"2")
    assert {one.read().body, other.read().body} == {b"1", b"2"}


def test_it_is_deleted_by_who_does_not_consume_it(join, name):
    client = join()
    client.subscribe(f"/topic/{name}", id="mine", durable="true")
    client.ask("UNSUBSCRIBE", {"id": "mine"})
    client.publish(f"/topic/{name}", b"x")
    client.ask("UNSUBSCRIBE", {"id": "mine", "destination": f"/topic/{name}", "durable": "true"})
    client.subscribe(f"/topic/{name}", id="mine", durable="true")
    client.nothing()


def test_it_may_have_a_name_of_its_own(join, name):
    client = join()
    client.subscribe(f"/topic/{name}", id="1", durable="true", x_queue_name=f"q.{name}")
    client.ask("UNSUBSCRIBE", {"id": "1"})
    client.publish(f"/topic/{name}", b"x")
    client.subscribe(f"/topic/{name}", id="2", durable="true", x_queue_name=f"q.{name}")
    assert client.read().body == b"x"


@pytest.mark.parametrize(
    "headers", [{}, {"durable": "true", "auto-delete": "true"}, {"auto-delete": "true", "exclusive": "true"}]
)
def test_a_subscription_that_goes_with_its_connection(join, name, headers):
    first = join()
    first.subscribe(f"/topic/{name}", id="1", **headers)
    first.ask("DISCONNECT")
    second = join()
    second.publish(f"/topic/{name}", b"x")
    second.subscribe(f"/topic/{name}", id="1", **headers)
    second.nothing()


@pytest.mark.parametrize(
    ("queue", "arguments"),
    [
        ("with.ttl", {"x-message-ttl": "60000"}),
        ("with.length", {"x-max-length": "3", "x-overflow": "drop-head"}),
        ("with.reject", {"x-max-length": "3", "x-overflow": "reject-publish"}),
        ("with.bytes", {"x-max-length-bytes": "1000"}),
        ("with.letters", {"x-max-length": "1", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "over"}),
        ("plain", {"x-max-priority": "10", "x-queue-type": "quorum", "durable": "true"}),
        ("plain", {"x-single-active-consumer": "false"}),
    ],
)
def test_arguments_that_the_settings_fulfil(join, queue, arguments):
    client = join()
    client.subscribe(f"/queue/{queue}", **arguments)
    client.ask("SEND", {"destination": f"/queue/{queue}", **arguments}, b"x")
    assert client.read().body == b"x"


@pytest.mark.parametrize(
    ("queue", "stays", "goes"),
    [("over.head", b"2", [b"0", b"1"]), ("over.reject", b"0", [b"1", b"2"])],
)
def test_what_a_full_queue_has_no_room_for_is_a_dead_letter(join, queue, stays, goes):
    client = join()
    for number in range(3):
        client.ask("SEND", {"destination": f"/queue/{queue}", "persistent": "true"}, b"%d" % number)
    client.subscribe(f"/queue/{queue}.letters", "letters")
    letters = client.messages(2)
    assert [letter.body for letter in letters] == goes
    assert {letter["dead-letter-reason"] for letter in letters} == {"maxlen"}
    assert {letter["_AMQ_ORIG_ADDRESS"] for letter in letters} == {queue}
    client.subscribe(f"/queue/{queue}", "rest")
    assert client.read().body == stays
    client.nothing()


def test_a_queue_bounded_by_bytes_keeps_the_newest(join):
    client = join()
    for number in range(9):
        client.ask("SEND", {"destination": "/queue/with.bytes", "x-max-length-bytes": "1000"}, b"%d" % number * 200)
    client.subscribe("/queue/with.bytes")
    found = [message.body[:1] for message in client.messages(3)]
    assert found == [b"6", b"7", b"8"], "of 280 bytes each, with their header lines"
    client.nothing()


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
@pytest.mark.parametrize(
    ("header", "value", "text"),
    [
        ("x-message-ttl", "5000", 'set engine.addresses."{}".expiry_delay_ms = 5000'),
        ("x-expires", "5000", "auto_delete_delay_ms = 5000"),
        ("x-max-length", "7", "ring_size = 7"),
        ("x-max-length-bytes", "7", "ring_bytes = 7"),
        ("x-dead-letter-exchange", "", 'dead_letter_address = ""'),
        ("x-dead-letter-exchange", "none", "no exchange 'none'"),
        ("x-dead-letter-routing-key", "k", "x-dead-letter-exchange"),
        ("x-single-active-consumer", "true", "exclusive = true"),
        ("x-queue-type", "lazy", "classic, quorum"),
        ("x-message-ttl", "long", "x-message-ttl:long"),
        ("x-max-age", "1D", "x-max-age"),
        ("x-overflow", "drop-tail", "reject-publish-dlx"),
    ],
)
def test_arguments_that_they_do_not(join, name, command, header, value, text):
    client = join()
    headers = {"destination": f"/queue/{name}", header: value, "receipt": "r"}
    client.send(command, headers if command == "SEND" else {**headers, "id": "1"})
    frame = error(client, "not_found" if "no exchange" in text else "Invalid header", text.format(name), receipt="r")
    assert header in frame.body.decode() or "exchange" in frame.body.decode()


@pytest.mark.parametrize(
    ("headers", "text"),
    [
        ({"x-stream-offset": "first"}, "x-stream-offset:first"), ({"x-queue-name": "q"}, "x-queue-name:q"),
        ({"durable": "perhaps"}, "durable:perhaps"),
    ],
)  # fmt: skip
def test_headers_that_would_have_no_effect(join, name, headers, text):
    client = join()
    client.send("SUBSCRIBE", {"destination": f"/topic/{name}", "id": "1", "receipt": "r", **headers})
    error(client, "Invalid header", text, receipt="r")


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE"])
@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"auto-delete": "true"}, "auto_delete_message_count = -1"),
        ({"durable": "false"}, "auto-delete:false"),
        ({"exclusive": "true"}, "exclusive = true"),
        ({"durable": "perhaps"}, "durable:perhaps"),
    ],
)
def test_a_queue_that_is_not_as_its_flags_say(join, name, command, flags, text):
    client = join()
    headers = {"destination": f"/queue/{name}", "receipt": "r", **flags}
    client.send(command, headers if command == "SEND" else {**headers, "id": "1"})
    error(client, "Invalid header", text, receipt="r")


@pytest.mark.parametrize(
    "flags",
    [
        {"durable": "false", "auto-delete": "false", "exclusive": "false"}, {"durable": "true"},
        {"durable": "false", "auto-delete": "true", "exclusive": "false"},
    ],
)  # fmt: skip
def test_a_queue_that_is(join, flags):
    client = join()
    client.subscribe("/queue/with.goes", **flags)
    client.ask("SEND", {"destination": "/queue/with.goes", **flags}, b"x")
    assert client.read().body == b"x"


def test_a_flag_whose_value_changes_is_looked_at_again(join, name):
    """The wire remembers what blocks look like: a value that the broker acts on must not be hidden by that."""
    client = join()
    for number in range(8):
        client.publish(f"/queue/{name}", b"x", **{"auto-delete": "false", "n": number})
    client.sync()
    client.send("SEND", {"destination": f"/queue/{name}", "auto-delete": "true", "n": "9", "receipt": "r"}, b"x")
    error(client, "Invalid header", receipt="r")


@pytest.mark.parametrize("flags", [{"auto-delete": "false"}, {"durable": "true", "exclusive": "true"}])
def test_a_subscription_that_is_not_as_its_flags_say(join, name, flags):
    client = join()
    client.send("SUBSCRIBE", {"destination": f"/topic/{name}", "id": "1", "receipt": "r", **flags})
    error(client, "Invalid header", receipt="r")


def test_a_full_queue_refuses_and_says_so(join, name):
    client = join()
    for number in range(3):
        client.publish("/queue/with.reject", b"%d" % number)
    client.send("SEND", {"destination": "/queue/with.reject", "receipt": "r"}, b"x")
    assert client.expect("ERROR").get("receipt-id") == "r"
    reader = join()
    reader.subscribe("/queue/with.reject")
    reader.messages(3)
    reader.sync()


# The same errors by the same words


@pytest.mark.parametrize(
    ("command", "headers", "message"),
    [
        ("SUBSCRIBE", {"destination": "/queue/same", "id": "1"}, "Duplicated subscription identifier"),
        ("SUBSCRIBE", {"destination": "/queue/same", "id": "2", "ack": "perhaps"}, "Processing error"),
        ("UNSUBSCRIBE", {"id": "none"}, "No subscription found"),
        ("ACK", {"id": "T_1@@session@@7"}, "Message not found"),
        ("COMMIT", {"transaction": "none"}, "Bad transaction"),
        ("SEND", {}, "Missing destination"),
        ("SUBSCRIBE", {"id": "2"}, "Missing destination"),
        ("UNSUBSCRIBE", {}, "Missing destination or id"),
        ("BEGIN", {}, "Missing transaction"),
        ("COMMIT", {}, "Missing transaction"),
        ("ACK", {}, "Missing header"),
        ("NONSENSE", {}, "Bad command"),
    ],
)
def test_words_of_errors(join, command, headers, message):
    client = join()
    client.subscribe("/queue/same", id="1")
    client.send(command, {**headers, "receipt": "r"})
    error(client, message, receipt="r")


def test_no_version_in_common(place):
    from tests.harness import Client

    with Client(place.port, "1.2") as client:
        client.send("CONNECT", {"accept-version": "9.9", "host": "/"})
        error(client, "Version mismatch")


# Request and reply


def test_a_reply_finds_who_asked(join, name):
    server, client = join(), join()
    server.subscribe(f"/queue/{name}")
    client.publish(f"/queue/{name}", b"?", reply_to="/temp-queue/foo")
    request = server.read()
    assert request["reply-to"].startswith("/reply-queue/")
    server.publish(request["reply-to"], b"!")
    assert client.expect("MESSAGE", {"subscription": "/temp-queue/foo", "redelivered": "false"}).body == b"!"
    client.send("UNSUBSCRIBE", {"id": "/temp-queue/foo", "receipt": "u"})
    error(client, "Invalid id", "/temp-queue/foo", receipt="u")


def test_an_id_that_is_a_reply_queues_is_nobody_elses(join, name):
    client = join()
    client.send("SUBSCRIBE", {"destination": f"/queue/{name}", "id": "/temp-queue/foo", "receipt": "s"})
    error(client, "Invalid id", "/temp-queue/foo", receipt="s")
