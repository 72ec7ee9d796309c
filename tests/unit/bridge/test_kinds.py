"""What brokers are like at the other end."""

from __future__ import annotations

import pytest

from broker.bridge.kinds import (
    ACTIVEMQ,
    ARTEMIS,
    OTHER,
    RABBITMQ,
    STAMPEDE,
    WhoseFault,
    blame,
    is_topic,
    kind_of,
    selector,
)


@pytest.mark.parametrize(
    ("server", "kind"),
    [
        ("stampede/1.0.0", STAMPEDE), ("ActiveMQ-Artemis/2.40.0 ActiveMQ Artemis Messaging Engine", ARTEMIS),
        ("ActiveMQ/5.17.2", ACTIVEMQ), ("RabbitMQ/3.10.8", RABBITMQ), ("", OTHER), ("Fake/1", OTHER),
    ],
)  # fmt: skip
def test_a_broker_says_in_connected_what_it_is(server, kind):
    assert kind_of("auto", server) is kind
    assert kind_of("artemis", server) is ARTEMIS


@pytest.mark.parametrize(("server", "other"), [("RabbitMQ/3.10", RABBITMQ), ("ActiveMQ/5.17", ACTIVEMQ)])
def test_a_stampede_in_the_dialect_of_another_is_one(server, other):
    """What crosses to it once goes on doing so. And a topic is subscribed to for good by the same name as before it
    said so: by another header it would be another queue, and what waits in the old one would be nobody's."""
    found = kind_of("auto", f"{server} stampede/0.1.0")
    assert found.name == "stampede" and found.drops_known and found.lives == "ttl"
    assert found.lasting("a") == STAMPEDE.lasting("a") and found.ended("a") == STAMPEDE.ended("a")
    assert found.refuses == other.refuses


def test_what_names_a_message_stays_the_same_at_each_delivery():
    first, again = {"message-id": "boot-1-77", "message-slot": "3"}, {"message-id": "boot-9-77", "message-slot": "3"}
    assert STAMPEDE.named(first) == STAMPEDE.named(again) == "3-77"
    assert STAMPEDE.for_good(first) == "" and STAMPEDE.for_good({**first, "persistent": "true"}) == "3-77"
    assert ARTEMIS.named({"message-id": "12,4711"}) == ARTEMIS.named({"message-id": "13,4711"}) == "4711"
    assert RABBITMQ.named({"message-id": "T_1@@session@@1"}) == ""
    assert RABBITMQ.named({"amqp-message-id": "a"}) == "a"


def test_the_selector_leaves_what_has_crossed_enough_bridges():
    assert selector("", 1) == "bridge_hops IS NULL"
    assert selector("n > 1", 3) == "(n > 1) AND (bridge_hops IS NULL OR bridge_hops IN ('1', '2'))"


def test_topics_are_known_by_their_names():
    assert is_topic("/topic/a") and is_topic("/exchange/x/a") and not is_topic("/queue/a") and not is_topic("a")


def test_only_what_lies_in_the_message_is_its_fault():
    assert blame(1508) is WhoseFault.MESSAGE and blame(1511) is WhoseFault.TARGET and blame(None) is WhoseFault.UNKNOWN
