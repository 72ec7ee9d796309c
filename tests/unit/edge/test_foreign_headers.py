"""What means something to other brokers is refused by name, and the page lists all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.catalogue import entry_leaves
from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.edge.destinations import foreign_headers
from broker.edge.destinations.dialect import Dialect
from broker.edge.destinations.send_route import RouteCache
from broker.edge.subscribing.subscribe_request import PRIORITIES
from broker.wire.events import Head

DIALECT = Dialect.of("/queue/", "/topic/")
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "compatibility.md").read_text()


def send(**headers: str) -> None:
    RouteCache(lambda _: 1, DIALECT).of(Head(b"", {"destination": "/queue/a", **headers}, 0, False))


@pytest.mark.parametrize("name", [*foreign_headers.IN_SEND, *foreign_headers.NUMBERS, *foreign_headers.ARGUMENTS])
def test_a_send_that_asks_for_it_is_refused_by_name(name):
    with pytest.raises(RefusedError, match=name) as caught:
        send(**{name: "1"})
    assert caught.value.code is Code.BAD_HEADER


@pytest.mark.parametrize("value", ["60000", " 60000 ", "0", "-1", "1" * 18])
def test_milliseconds_to_live_by_a_name_that_does_nothing_here(value):
    """RabbitMQ's `expiration`: relayed, the message would live for ever."""
    with pytest.raises(RefusedError, match=r"expiration:.*write ttl"):
        send(expiration=value)


@pytest.mark.parametrize("value", ["", "12/27", "2026-12-31T00:00:00Z", "never", "6e4"])
def test_what_is_no_number_there_is_a_header_of_the_clients_own(value):
    send(expiration=value)


@pytest.mark.parametrize("name", [*foreign_headers.IN_SUBSCRIBE, *foreign_headers.ARGUMENTS])
def test_a_subscribe_that_asks_for_it_is_refused_by_name(name):
    with pytest.raises(RefusedError, match=name):
        foreign_headers.check_subscribe({name: "true"}, Routing.ANYCAST, False)


@pytest.mark.parametrize("name", foreign_headers.IN_SUBSCRIBE)
@pytest.mark.parametrize("value", ["false", "False", "0", "-1", ""])
def test_who_asks_for_nothing_is_let_in(name, value):
    foreign_headers.check_subscribe({name: value}, Routing.ANYCAST, False)


def test_a_misspelt_name_beside_the_right_one_is_let_in():
    both = {"activemq.subcriptionName": "news", "activemq.subscriptionName": "news"}
    foreign_headers.check_subscribe(both, Routing.MULTICAST, durable=True)


@pytest.mark.parametrize(("name", "value"), [("persistent", "true"), ("durable", "True"), ("auto-delete", "false")])
def test_a_subscription_that_should_outlive_its_connection_needs_a_name(name, value):
    with pytest.raises(RefusedError, match="client-id"):
        foreign_headers.check_subscribe({name: value}, Routing.MULTICAST, durable=False)
    foreign_headers.check_subscribe({name: value}, Routing.MULTICAST, durable=True)
    foreign_headers.check_subscribe({name: value}, Routing.ANYCAST, durable=False)  # a queue stays anyway


@pytest.mark.parametrize(
    "destination",
    [
        "/queue/a,/queue/b", "/queue/a,/topic/b", "queue://a,topic://b", "/queue/a?consumer.exclusive=true",
        "/topic/>", "/topic/a.>", "/topic/a.>.b", "activemq.management", "/queue/activemq.management",
        "/topic/activemq.notifications", "/topic/ActiveMQ.Advisory.Queue", "/queue/ActiveMQ.Statistics.Broker",
        "/topic/ActiveMQ.Scheduler.Management",
    ],
)  # fmt: skip
def test_a_name_that_others_read_otherwise(destination):
    with pytest.raises(RefusedError) as caught:
        DIALECT.resolve(destination, None, "destination-type")
    assert caught.value.code is Code.BAD_DESTINATION


@pytest.mark.parametrize(
    "destination", ["/queue/a,b", "/queue/a>b", "/topic/a.b>", "/queue/activemq.managements", "a?b"]
)
def test_names_that_only_look_like_it(destination):
    DIALECT.resolve(destination, None, "destination-type")


def test_the_settings_that_are_recommended_exist():
    known = set(entry_leaves("engine.addresses"))
    named = {text for text in foreign_headers.ARGUMENTS.values() if not text.startswith("(")}
    named |= {text.split("`")[1] for text in foreign_headers.IN_SUBSCRIBE.values() if text.startswith("set `")}
    assert named <= known


def test_the_page_lists_all_of_it():
    names = [
        *foreign_headers.IN_SEND,
        *foreign_headers.NUMBERS,
        *foreign_headers.IN_SUBSCRIBE,
        *foreign_headers.ARGUMENTS,
        *foreign_headers.DESTINATIONS,
    ]
    assert [name for name in [*names, *PRIORITIES] if f"`{name}" not in PAGE] == []
