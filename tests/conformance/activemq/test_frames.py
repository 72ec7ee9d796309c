"""Headers of ActiveMQ Classic: what they do, or how they are refused."""

from __future__ import annotations

import time

import pytest

from broker.core.errors import Code

from ..checks import error

# Deliveries that repeat


@pytest.mark.parametrize(
    ("headers", "count"),
    [
        ({"AMQ_SCHEDULED_DELAY": 1, "AMQ_SCHEDULED_PERIOD": 1, "AMQ_SCHEDULED_REPEAT": 2}, 3),
        ({"AMQ_SCHEDULED_PERIOD": 1, "AMQ_SCHEDULED_REPEAT": 1}, 2),
        ({"AMQ_SCHEDULED_PERIOD": 1}, 1),
    ],
)
def test_a_message_comes_as_often_as_it_says(join, name, headers, count):
    client = join()
    client.subscribe(f"/queue/{name}")
    client.ask("SEND", {"destination": f"/queue/{name}", **headers}, b"x")
    assert [message.body for message in client.messages(count)] == [b"x"] * count
    client.nothing()


def test_the_times_between_them(join, name):
    client = join()
    client.subscribe(f"/queue/{name}")
    began = time.monotonic()
    times = {"AMQ_SCHEDULED_DELAY": 100, "AMQ_SCHEDULED_PERIOD": 200, "AMQ_SCHEDULED_REPEAT": 1}
    client.ask("SEND", {"destination": f"/queue/{name}", **times}, b"x")
    client.read()
    assert time.monotonic() - began >= 0.1
    client.read()
    assert time.monotonic() - began >= 0.3


def test_one_that_comes_for_ever_outlives_its_sender(join, name):
    sender = join()
    times = {"AMQ_SCHEDULED_DELAY": 1, "AMQ_SCHEDULED_PERIOD": 50, "AMQ_SCHEDULED_REPEAT": -1}
    end = round(time.time() * 1000) + 60_000  # or it would go on behind all other tests
    sender.ask("SEND", {"destination": f"/topic/{name}", "expires": end, **times}, b"x")
    sender.ask("DISCONNECT")
    client = join()
    client.subscribe(f"/topic/{name}")
    found = client.messages(5)
    assert [message.body for message in found] == [b"x"] * 5
    assert {message["destination"] for message in found} == {f"/topic/{name}"}
    assert len({message["scheduledJobId"] for message in found}) == 1
    assert len({message["message-id"] for message in found}) == 5


def test_it_waits_for_what_cron_says(join, name):
    client = join()
    client.subscribe(f"/queue/{name}")
    headers = {"AMQ_SCHEDULED_CRON": "0 0 29 2 *", "AMQ_SCHEDULED_ZONE": "Asia/Kolkata"}
    client.ask("SEND", {"destination": f"/queue/{name}", **headers}, b"x")
    client.nothing()


def test_it_is_part_of_a_transaction(join, name):
    client = join()
    client.subscribe(f"/queue/{name}")
    times = {"AMQ_SCHEDULED_PERIOD": 1, "AMQ_SCHEDULED_REPEAT": 1}
    for end in ("ABORT", "COMMIT"):
        client.ask("BEGIN", {"transaction": "t"})
        client.ask("SEND", {"destination": f"/queue/{name}", "transaction": "t", **times}, end.encode())
        client.ask(end, {"transaction": "t"})
    assert [message.body for message in client.messages(2)] == [b"COMMIT"] * 2
    client.nothing()


def test_a_zone_that_is_not_one(join, name):
    client = join()
    headers = {"AMQ_SCHEDULED_CRON": "* * * * *", "AMQ_SCHEDULED_ZONE": "Europe/../Berlin", "receipt": "r"}
    client.send("SEND", {"destination": f"/queue/{name}", **headers}, b"x")
    assert "time zone" in error(client, Code.BAD_HEADER, "r").body.decode()


@pytest.mark.parametrize(
    ("headers", "word"),
    [
        ({"AMQ_SCHEDULED_REPEAT": -1, "AMQ_SCHEDULED_PERIOD": 1}, "an hour"),
        ({"AMQ_SCHEDULED_REPEAT": 60, "AMQ_SCHEDULED_PERIOD": 60_001}, "an hour"),
    ],
)
def test_a_burst_that_does_not_end(join, name, headers, word):
    client = join()
    head = {"destination": f"/queue/{name}", "AMQ_SCHEDULED_CRON": "* * * * *", "receipt": "r", **headers}
    client.send("SEND", head, b"x")
    assert word in error(client, Code.BAD_HEADER, "r").body.decode()


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("AMQ_SCHEDULED_REPEAT", "-1"), ("AMQ_SCHEDULED_REPEAT", "-2"), ("AMQ_SCHEDULED_REPEAT", "3"),
        ("AMQ_SCHEDULED_CRON", "0 * * *"), ("AMQ_SCHEDULED_CRON", "61 * * * *"), ("AMQ_SCHEDULED_CRON", "0 0 31 2 *"),
        ("AMQ_SCHEDULED_CRON", "* * * * * *"), ("AMQ_SCHEDULED_ZONE", "UTC"), ("AMQ_SCHEDULER_ACTION", "BROWSE"),
        ("transformation", "jms-json"), ("amq-msg-type", "map"), ("priority", "high"),
        ("expiration", "60000"),
    ],
)  # fmt: skip
def test_a_send_that_is_refused_by_name(join, name, header, value):
    client = join()
    client.send("SEND", {"destination": f"/queue/{name}", header: value, "receipt": "r"}, b"x")
    assert header in error(client, Code.BAD_HEADER, "r").body.decode()


def test_an_expiration_that_is_no_number_is_the_clients_own(join, name):
    client = join()
    client.subscribe(f"/queue/{name}")
    client.publish(f"/queue/{name}", b"x", expiration="12/27")
    assert client.read()["expiration"] == "12/27"


# SUBSCRIBE


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("activemq.exclusive", "true"), ("activemq.retroactive", "true"), ("activemq.maximumPendingMessageLimit", "10"),
        ("activemq.subcriptionName", "news"), ("activemq.networkSubscription", "true"),
        ("transformation", "jms-object-xml"), ("activemq.dispatchAsync", "perhaps"),
    ],
)  # fmt: skip
def test_a_subscribe_that_is_refused_by_name(join, name, header, value):
    client = join()
    client.send("SUBSCRIBE", {"destination": f"/topic/{name}", "id": "1", header: value, "receipt": "r"})
    assert header in error(client, Code.BAD_HEADER, "r").body.decode()


def test_what_the_settings_say_is_let_in(join):
    first, second = join(), join()
    for client in (first, second):
        client.subscribe("/queue/only.one", **{"activemq.exclusive": "true", "activemq.dispatchAsync": "false"})
    for number in range(4):
        first.publish("/queue/only.one", b"%d" % number)
    first.messages(4)
    second.nothing()


def test_a_queue_has_no_durable_subscription(join, name):
    client = join(headers={"client-id": name})
    client.send(
        "SUBSCRIBE",
        {"destination": f"/queue/{name}", "id": "1", "activemq.subscriptionName": "s", "receipt": "r"},
    )
    assert b"cannot durably subscribe to a Queue" in error(client, Code.BAD_DESTINATION, "r").body


def test_a_durable_subscription(join, name):
    first = join(headers={"client-id": name})
    first.subscribe(f"/topic/{name}", **{"activemq.subscriptionName": "s"})
    first.ask("DISCONNECT")
    second = join(headers={"client-id": name})
    second.publish(f"/topic/{name}", b"x", persistent="true")
    second.subscribe(f"/topic/{name}", **{"activemq.subscriptionName": "s"})
    assert second.read().body == b"x"


def test_the_prefetch_counts_messages(join, name):
    client = join()
    for number in range(2):
        client.publish(f"/queue/{name}", b"%d" % number)
    client.subscribe(f"/queue/{name}", ack="client-individual", **{"activemq.prefetchSize": 1})
    message = client.read()
    client.nothing()
    client.ack(message)
    assert client.read().body == b"1"


def test_a_browser_sees_all_and_its_end(join, name):
    client = join()
    client.publish(f"/queue/{name}", b"x")
    client.subscribe(f"/queue/{name}", browser="true")
    assert client.read().body == b"x"
    assert client.read()["browser"] == "end"


def test_a_nack_is_the_end_of_a_message(join, name):
    client = join()
    client.publish(f"/queue/{name}", b"x")
    client.subscribe(f"/queue/{name}", ack="client-individual")
    client.nack(client.read())
    client.nothing()
    client.subscribe("/queue/DLQ", id="dead")
    assert client.expect("MESSAGE", {"subscription": "dead", "_AMQ_ORIG_ADDRESS": name}).body == b"x"


def test_a_map_is_json_wherever_it_is_read(join, name):
    client, sender = join(), join()
    client.subscribe(f"/queue/{name}", transformation="jms-map-json")
    body = b'{"map":{"entry":[{"string":["name","Ada"]},{"string":"age","long":36}]}}'
    sender.publish(f"/queue/{name}", body, transformation="jms-map-json")
    (message,) = client.messages(1)
    assert (message.body, message["transformation"]) == (body, "jms-map-json")
    sender.publish(f"/queue/{name}", b"a\0b", transformation="jms-byte", **{"content-length": 3})
    assert client.messages(1)[0].body == b"a\0b"
