"""Advisories of single messages: who subscribes hears of what was put aside, and costs nobody else anything."""

from __future__ import annotations

import pytest

from broker.core.commands import Outcome

from .world import INDIVIDUAL, MULTICAST, World, ids, whole

ALL = "MessageDLQd,Expired,MessageDiscarded,NoConsumer"


def world(**more) -> World:
    made = World(addresses={"#": {"message_advisories": ALL, "max_delivery_attempts": 1, **more}})
    made.subscribe(90, "ActiveMQ.Advisory.#", routing=MULTICAST)
    return made


def heard(made: World) -> list[tuple[str, str]]:
    """What each is called, and of which message it is."""
    told = []
    for message in whole(made.effects):
        head = message.decode().partition("\n\n")[0].split("\n")
        fields = dict(line.split(":", 1) for line in head if ":" in line)
        if fields.get("type") == "Advisory":
            told.append((fields["destination"].removeprefix("/topic/ActiveMQ.Advisory."),
                         fields.get("orignalMessageId", "")))  # fmt: skip
    return told


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("outcome", [Outcome.NACK, Outcome.REJECT])
def test_a_dead_letter_is_told_once(durable, outcome):
    made = world()
    made.subscribe(1, ack=INDIVIDUAL)
    made.publish("q", b"a", b"b", durable=durable)
    numbers = ids(made.effects, 1)
    made.settle(1, *numbers, outcome=outcome)
    assert heard(made) == [("MessageDLQd.Queue.q", str(number)) for number in numbers]
    assert made.queue("DLQ")["ready"] == 2


def test_what_expires_is_told_and_so_is_what_a_ring_does_not_keep():
    made = world(ring_size=1)
    made.publish("q", b"a")
    made.publish("q", b"b", expires=made.now + 10)
    made.tick(20)
    made.subscribe(1)
    assert [name for name, _ in heard(made)] == ["MessageDiscarded.Queue.q", "Expired.Queue.q"]


def test_a_topic_without_subscribers_is_told_and_no_advisory_about_an_advisory():
    made = World(addresses={"#": {"message_advisories": ALL}})
    assert made.publish("t", b"a", routing=MULTICAST) == []  # nobody hears it, and nothing is made for it
    assert "ActiveMQ.Advisory.NoConsumer.Topic.t" not in made.engine._slot.addresses
    made.subscribe(90, "ActiveMQ.Advisory.NoConsumer.Topic.t", routing=MULTICAST)
    made.publish("t", b"a", b"b", routing=MULTICAST)
    assert heard(made) == [("NoConsumer.Topic.t", "")] * 2


def test_those_of_a_virtual_host_are_told_in_it():
    made = World(addresses={"$host/shop.q": {"message_advisories": "MessageDLQd", "max_delivery_attempts": 1}})
    made.subscribe(90, "$host/shop.ActiveMQ.Advisory.MessageDLQd.Queue.q", routing=MULTICAST)
    made.subscribe(91, "ActiveMQ.Advisory.#", routing=MULTICAST)
    made.subscribe(1, "$host/shop.q", ack=INDIVIDUAL)
    made.publish("$host/shop.q", b"a")
    made.settle(1, *ids(made.effects, 1), outcome=Outcome.NACK)
    assert [name for name, _ in heard(made)] == ["MessageDLQd.Queue.q"]


def test_what_nobody_asked_for_is_not_told():
    made = World(addresses={"q": {"message_advisories": "Expired", "max_delivery_attempts": 1}})
    made.subscribe(90, "ActiveMQ.Advisory.#", routing=MULTICAST)
    made.subscribe(1, ack=INDIVIDUAL)
    made.publish("q", b"a")
    made.settle(1, *ids(made.effects, 1), outcome=Outcome.NACK)
    assert heard(made) == []
