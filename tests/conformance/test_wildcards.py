"""Wildcard subscriptions: `*` is one word, `#` the rest; topics only."""

from __future__ import annotations

import pytest

from broker.core.errors import Code

from .checks import error


@pytest.mark.parametrize("ack", ["auto", "client", "client-individual"])
def test_a_wildcard_gets_what_matches_and_nothing_else(join, topic, ack):
    client, other = join(), join()
    client.subscribe(f"{topic}.*.b", id="one", ack=ack)
    client.subscribe(f"{topic}.#", id="all", ack=ack)
    for name in ("x.b", "y.b", "x.c", "x.b.c"):
        other.publish(f"{topic}.{name}", name.encode())
    other.publish(topic, b"itself")
    got = [(message["subscription"], message["destination"]) for message in client.messages(7)]
    assert sorted(got) == sorted(
        [("one", f"{topic}.x.b"), ("one", f"{topic}.y.b"), ("all", topic)]
        + [("all", f"{topic}.{name}") for name in ("x.b", "y.b", "x.c", "x.b.c")]
    )
    client.nothing()


def test_plain_subscribers_of_the_same_topic_get_theirs_too(join, topic):
    client = join()
    client.subscribe(f"{topic}.a", id="plain")
    client.subscribe(f"{topic}.*", id="wild")
    client.publish(f"{topic}.a", b"x")
    assert sorted(message["subscription"] for message in client.messages(2)) == ["plain", "wild"]
    client.nothing()


def test_queues_do_not_match(join, name):
    client = join()
    client.subscribe(f"/topic/{name}.#", id="wild")
    client.publish(f"/queue/{name}.a", b"x")
    client.publish(f"{name}.b", b"x")
    client.nothing()


def test_after_unsubscribe_nothing_comes_awake_or_asleep(join, topic):
    client, other = join(), join()
    client.subscribe(f"{topic}.*", id="1")
    other.publish(f"{topic}.a", b"awake")
    client.read()
    client.ask("UNSUBSCRIBE", {"id": "1"})
    for number in range(20):
        other.publish(f"{topic}.{number}", b"x")
    client.nothing()


def test_an_ack_in_client_mode_covers_all_topics_of_the_wildcard(join, topic):
    client = join()
    client.subscribe(f"{topic}.#", ack="client")
    for number in range(12):
        client.publish(f"{topic}.{number}", b"%d" % number)
    messages = client.messages(12)
    client.ack(messages[8], receipt="r")
    client.expect("RECEIPT", {"receipt-id": "r"})
    client.send("ACK", {"id": messages[3]["ack"], "receipt": "again"})
    error(client, Code.NO_SUCH_DELIVERY, "again")


@pytest.mark.parametrize("ack", ["client", "client-individual"])
def test_the_window_holds_over_all_topics_of_the_wildcard(join, topic, ack):
    client, other = join(), join()
    client.subscribe(f"{topic}.#", ack=ack, **{"prefetch-count": 3})
    for number in range(5):
        other.send("SEND", {"destination": f"{topic}.{number}"}, b"x")
        other.send("SEND", {"destination": f"{topic}.{number}"}, b"y")
    other.sync()
    seen = client.messages(3)
    client.nothing()
    while len(seen) < 10:
        client.ack(seen[-1])
        seen += client.messages(min(3 if ack == "client" else 1, 10 - len(seen)))
    client.nothing()


def test_a_durable_wildcard_keeps_what_was_sent_meanwhile(join, topic):
    name = {"durable-subscription-name": "wild"}
    connect = {"client-id": topic}
    client, other = join(headers=connect), join()
    client.subscribe(f"{topic}.#", **name)
    client.ask("DISCONNECT")
    for number in range(5):
        other.publish(f"{topic}.{number}", b"%d" % number, persistent="true")
    client = join(headers=connect)
    client.subscribe(f"{topic}.#", **name)
    assert sorted(message.body for message in client.messages(5)) == [b"0", b"1", b"2", b"3", b"4"]
    client.ask("UNSUBSCRIBE", {"id": "1"} | name)
    other.publish(f"{topic}.0", b"late", persistent="true")
    client.subscribe(f"{topic}.#", **name)
    client.nothing()
    client.ask("UNSUBSCRIBE", {"id": "1"} | name)


@pytest.mark.parametrize("destination", ["/queue/a.*", "a.#", "/topic/a.*::q"])
def test_where_wildcards_make_no_sense_they_are_refused(join, destination):
    client = join()
    client.send("SUBSCRIBE", {"id": "1", "destination": destination, "receipt": "r"})
    error(client, Code.BAD_DESTINATION, "r")


@pytest.mark.parametrize("destination", ["/queue/a.*", "/topic/a.#", "*"])
def test_a_message_goes_to_one_address(join, destination):
    client = join()
    client.send("SEND", {"destination": destination, "receipt": "r"}, b"x")
    assert b"wildcard" in error(client, Code.BAD_DESTINATION, "r").body


def test_a_star_inside_a_word_is_a_letter(join, topic):
    client = join()
    client.subscribe(f"{topic}.a*b")
    client.publish(f"{topic}.axb", b"no")
    client.publish(f"{topic}.a*b", b"yes")
    assert client.read().body == b"yes"
