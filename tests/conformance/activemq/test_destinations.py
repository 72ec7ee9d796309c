"""Destinations of ActiveMQ Classic: composite ones, wildcards, virtual topics, temporary ones."""

from __future__ import annotations

import pytest

from broker.core.errors import Code
from tests.harness import unescape

from ..checks import error


def bodies(client, count):
    return sorted(message.body.decode() for message in client.messages(count))


# Composite destinations


def test_a_message_to_several_destinations_reaches_each(join, name):
    client, other = join(), join()
    other.subscribe(f"/topic/{name}.t", id="t")
    client.publish(f"/queue/{name}.a,/queue/{name}.b,/topic/{name}.t,{name}.bare", b"x")
    assert other.expect("MESSAGE", {"subscription": "t"}).body == b"x"
    for queue in ("a", "b", "bare"):
        other.subscribe(f"/queue/{name}.{queue}", id=queue)
        assert other.expect("MESSAGE", {"subscription": queue}).body == b"x"


def test_it_reaches_all_of_them_or_none(join, name):
    client = join()
    client.publish("/queue/small", b"full")
    client.send("SEND", {"destination": f"/queue/{name},/queue/small", "receipt": "r"}, b"x")
    error(client, Code.ADDRESS_FULL, "r")
    reader = join()
    reader.subscribe(f"/queue/{name}")
    reader.nothing()
    reader.subscribe("/queue/small", id="2")
    assert reader.read().body == b"full"
    reader.sync()


def test_in_a_transaction(join, name):
    client = join()
    client.subscribe(f"/queue/{name}.a,/queue/{name}.b")
    client.ask("BEGIN", {"transaction": "t"})
    client.publish(f"/queue/{name}.a,/queue/{name}.b", b"x", transaction="t")
    client.nothing()
    client.ask("COMMIT", {"transaction": "t"})
    assert bodies(client, 2) == ["x", "x"]


@pytest.mark.parametrize("size", [1, 3])
def test_each_copy_says_where_it_went_to(join, name, size):
    """size: messages of one read, whose headers differ."""
    client = join()
    client.subscribe(f"/queue/{name}.a", id="a")
    client.subscribe(f"/topic/{name}.b", id="b")
    both = f"{name}.a,/topic/{name}.b"
    for number in range(size):
        client.publish(both, b"\n\ndestination:x", n=number)
    for message in client.messages(2 * size):
        where = {"a": f"/queue/{name}.a", "b": f"/topic/{name}.b"}[message["subscription"]]
        assert (message["destination"], message["original-destination"]) == (where, both)
        assert message.body == b"\n\ndestination:x"


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
def test_one_subscription_to_several_destinations(join, name, ack):
    client = join()
    client.subscribe(f"/queue/{name}.a,/topic/{name}.t,/queue/{name}.b", ack=ack)
    for destination in (f"/queue/{name}.a", f"/topic/{name}.t", f"/queue/{name}.b"):
        client.publish(destination, destination.encode())
    messages = client.messages(3)
    assert {message["subscription"] for message in messages} == {"1"}
    assert all(message["destination"].encode() == message.body for message in messages)
    assert all(message.get("original-destination") is None for message in messages)
    if ack == "client":
        client.ack(messages[-1])
    elif ack == "client-individual":
        for message in messages:
            client.ack(message)
    client.ask("UNSUBSCRIBE", {"id": "1"})
    client.publish(f"/queue/{name}.a", b"later")
    client.subscribe(f"/queue/{name}.a", id="2")
    assert client.read().body == b"later", "what was acknowledged does not come again"


@pytest.mark.parametrize(
    "destination", ["/queue/a,/topic/b.>", "/queue/a,", ",", "/temp-queue/a,/queue/b", "/queue/a,/bogus/b"]
)
def test_what_cannot_be_one_of_several(join, destination):
    client = join()
    client.send("SUBSCRIBE", {"destination": destination, "id": "1", "receipt": "r"})
    error(client, Code.BAD_DESTINATION, "r")


# Wildcards


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [(">", ["", ".a", ".a.b"]), ("*", [".a"]), ("*.b", [".a.b"]), ("a.>", [".a", ".a.b"])],
)
def test_wildcards_of_topics(join, name, pattern, matching):
    client, other = join(), join()
    client.subscribe(f"/topic/{name}.{pattern}")
    for end in ("", ".a", ".a.b"):
        other.publish(f"/topic/{name}{end}", end.encode())
    assert bodies(client, len(matching)) == matching
    client.nothing()


@pytest.mark.parametrize("destination", ["/queue/a.>.b", "/queue/#", "/topic/a.>.b", "/topic/a.#"])
def test_wildcards_that_are_not_here(join, destination):
    client = join()
    client.send("SUBSCRIBE", {"destination": destination, "id": "1", "receipt": "r"})
    error(client, Code.BAD_DESTINATION, "r")


def test_who_is_named_twice_gets_one_copy(join, name):
    client, sender = join(), join()
    client.subscribe(f"/queue/{name},/queue/{name}")
    sender.publish(f"/queue/{name},/queue/{name}", b"x")
    assert bodies(client, 1) == ["x"]
    client.nothing()


def test_options_of_a_consumer_behind_its_destination(join, name):
    client, sender = join(), join()
    for number in range(3):
        sender.publish(f"/queue/{name}", b"%d" % number)
    sender.sync()
    client.subscribe(f"/queue/{name}?consumer.prefetchSize=1&consumer.priority=5", ack="client")
    (first,) = client.messages(1)
    client.nothing()
    client.ack(first)
    assert client.messages(1)[0]["destination"] == f"/queue/{name}"
    client.send("SUBSCRIBE", {"destination": f"/queue/{name}?consumer.exclusive=true", "id": "x", "receipt": "r"})
    assert b"exclusive" in error(client, Code.BAD_HEADER, "r").body


# Advisories of single messages


def test_a_dead_letter_is_told_to_who_subscribes(join, name):
    watcher, client = join(), join()
    watcher.subscribe(f"/topic/ActiveMQ.Advisory.MessageDLQd.Queue.told.{name}")
    watcher.subscribe("/topic/ActiveMQ.Advisory.Expired.Queue.>", "2")
    watcher.sync()
    client.subscribe(f"/queue/told.{name}", "1", "client-individual")
    client.publish(f"/queue/told.{name}", b"x", persistent="true")
    client.nack(client.read())
    told = watcher.read()
    assert (told["type"], unescape(told["orignalDestination"])) == ("Advisory", f"queue://told.{name}")
    assert told["destination"] == f"/topic/ActiveMQ.Advisory.MessageDLQd.Queue.told.{name}"
    letters = join()
    letters.subscribe("/queue/DLQ", "1", selector=f"_AMQ_ORIG_ADDRESS = 'told.{name}'")
    assert letters.read()["_AMQ_ORIG_MESSAGE_ID"] == told["orignalMessageId"]
    watcher.nothing()


@pytest.mark.parametrize("kind", ["MessageDLQd", "Expired", "MessageDiscarded", "NoConsumer"])
def test_what_nobody_tells_is_refused_with_the_line_to_write(join, name, kind):
    client = join()
    client.send(
        "SUBSCRIBE", {"destination": f"/topic/ActiveMQ.Advisory.{kind}.Queue.{name}", "id": "1", "receipt": "r"}
    )
    frame = error(client, Code.BAD_DESTINATION, "r")
    assert f'"{name}".message_advisories = "{kind}"' in frame.body.decode()


@pytest.mark.parametrize("kind", ["MessageDelivered", "MessageConsumed", "FastProducer"])
def test_those_of_every_message_are_refused(join, name, kind):
    client = join()
    client.send(
        "SUBSCRIBE", {"destination": f"/topic/ActiveMQ.Advisory.{kind}.Queue.{name}", "id": "1", "receipt": "r"}
    )
    error(client, Code.BAD_DESTINATION, "r")


# Virtual topics


@pytest.mark.parametrize(
    ("topic", "queue"),
    [("VirtualTopic.{}", "Consumer.{app}.VirtualTopic.{}"), ("{}", "VirtualTopicConsumers.{app}.{}")],
)
def test_each_application_gets_all_and_shares_them_inside(join, name, topic, queue):
    def of(app):
        return "/queue/" + queue.format(name, app=app)

    one, same, other = join(), join(), join()
    one.subscribe(of("A"), ack="client-individual", **{"activemq.prefetchSize": 1})
    same.subscribe(of("A"), ack="client-individual", **{"activemq.prefetchSize": 1})
    other.subscribe(of("B"))
    for number in range(2):
        one.publish("/topic/" + topic.format(name), b"%d" % number)
    assert bodies(other, 2) == ["0", "1"]
    assert {one.read().body, same.read().body} == {b"0", b"1"}


def test_what_an_application_was_not_there_for_waits(join, name):
    client = join()
    queue = f"/queue/Consumer.A.VirtualTopic.{name}"
    client.subscribe(queue)
    client.ask("UNSUBSCRIBE", {"id": "1"})
    client.publish(f"/topic/VirtualTopic.{name}", b"x", persistent="true")
    client.subscribe(queue, id="2")
    assert client.read().body == b"x"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@pytest.mark.parametrize("size", [1, 300_000])
def test_its_messages_say_which_queue_they_are_of(join, name, version, size):
    """size: of the body; large ones are streamed."""
    client = join(version)
    queue, topic = f"/queue/Consumer.A.VirtualTopic.{name}", f"/topic/VirtualTopic.{name}"
    client.subscribe(queue, ack="client")
    client.publish(topic, b"x" * size, persistent="true", colon="a" if version == "1.0" else "a:b")
    for again in range(2):
        message = client.read()
        assert (message["destination"], message["original-destination"]) == (queue, topic)
        assert len(message.body) == size
        assert (message.get("redelivered") == "true") is bool(again)
        if not again:
            client.ask("UNSUBSCRIBE", {"id": "1"})
            client.subscribe(queue, ack="client", id="2")
    client.ack(message)
    client.sync()


# Temporary destinations


def test_request_and_reply(join, name):
    server, client = join(), join()
    server.subscribe(f"/queue/{name}")
    client.subscribe("/temp-queue/answers", id="mine")
    client.publish(f"/queue/{name}", b"?", reply_to="/temp-queue/answers")
    where = server.read()["reply-to"]
    assert where.startswith("/remote-temp-queue/")
    server.publish(where, b"!")
    answer = client.expect("MESSAGE", {"subscription": "mine"})
    assert answer.body == b"!"
    assert answer["destination"] == "/temp-queue/answers", "as who asked knows it, not as others do"
    assert answer.get("original-destination") is None


@pytest.mark.parametrize(
    ("command", "destination"),
    [
        ("SEND", "/topic/ActiveMQ.Advisory.Queue"),
        ("SEND", "/queue/a?consumer.x=1"),
        ("SUBSCRIBE", "/topic/ActiveMQ.Advisory.Queue"),
        ("SUBSCRIBE", "/queue/a?consumer.x=1"),
        ("SUBSCRIBE", "ActiveMQ.Statistics.Broker"),
        ("SUBSCRIBE", "/queue/ActiveMQ.Scheduler.Management"),
    ],
)
def test_destinations_of_its_own_that_are_not_here(join, command, destination):
    client = join()
    client.send(
        command, {"destination": destination, "receipt": "r", **({"id": "1"} if command == "SUBSCRIBE" else {})}
    )
    error(client, Code.BAD_DESTINATION, "r")
