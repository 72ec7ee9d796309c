"""Classic's names as ours, and the page that lists all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.config.acceptor import AcceptorSettings
from broker.config.addressing import AddressSettings
from broker.core.address import Routing
from broker.core.errors import RefusedError
from broker.core.ids import slot_of
from broker.edge.destinations import foreign_headers
from broker.edge.destinations.dialect import Destination, Homes
from broker.edge.destinations.dialects import activemq
from broker.edge.destinations.send_route import READ, RouteCache
from broker.engine.publishing.recurrence import FOR_EVER, Recurrence
from broker.wire.events import Head
from broker.wire.heads import SIGNIFICANT

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "compatibility-activemq.md").read_text()
DIALECT = activemq.ActiveMQ.made(AcceptorSettings(dialect="activemq"), ".", Homes(), lambda _: AddressSettings())


def resolve(destination: str) -> Destination:
    return DIALECT.resolve(destination, None, "")


def test_the_page_lists_all_of_it():
    destinations = [name for name in foreign_headers.DESTINATIONS if name.startswith("ActiveMQ.")]
    names = [
        *foreign_headers.NUMBERS, *activemq.IN_SEND, *activemq.IN_SUBSCRIBE, *activemq.BY_SETTINGS, *activemq.TAKEN,
        activemq.PERIOD, activemq.REPEAT, activemq.CRON, activemq.ZONE, *destinations,
    ]  # fmt: skip
    assert [name for name in names if f"`{name}" not in PAGE] == []


def test_the_wire_never_hides_a_header_that_decides_the_route():
    assert {
        *READ,
        *DIALECT.read,
        *activemq.IN_SEND,
        *foreign_headers.NUMBERS,
        *activemq.ARGUMENTS,
        "amq-msg-type",
    } <= SIGNIFICANT


def test_a_composite_destination_is_its_parts():
    found = resolve("/queue/a,/topic/b.>,c")
    assert found == Destination("a", Routing.ANYCAST, None, shown="/queue/a", more=(
        Destination("b.#", Routing.MULTICAST, None, shown="/topic/b.#"),
        Destination("c", Routing.ANYCAST, None, shown="/queue/c"),
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("queue", "topic"),
    [
        ("Consumer.A.VirtualTopic.X", "VirtualTopic.X"), ("Consumer.A.VirtualTopic.X.Y", "VirtualTopic.X.Y"),
        ("VirtualTopicConsumers.A.X.Y", "X.Y"),
    ],
)  # fmt: skip
def test_a_queue_that_consumes_a_topic(queue, topic):
    assert resolve(f"/queue/{queue}") == Destination(
        topic, Routing.MULTICAST, queue, True, False, shown=f"/queue/{queue}"
    )
    assert DIALECT.subscribed({"destination": f"/queue/{queue}"}).create


@pytest.mark.parametrize(
    "queue", ["Consumer.A.Other.X", "Consumer.A.VirtualTopic", "VirtualTopicConsumers.A", "Consumer"]
)
def test_a_queue_that_does_not(queue):
    assert resolve(f"/queue/{queue}") == Destination(queue, Routing.ANYCAST, None)


def test_the_patterns_are_the_acceptors():
    acceptor = AcceptorSettings(dialect="activemq", virtual_topic_consumers="C.*.>;2")
    dialect = activemq.ActiveMQ.made(acceptor, ".", Homes(), lambda _: AddressSettings())
    assert dialect.resolve("/queue/C.A.x", None, "").address == "x"
    other = activemq.ActiveMQ.made(
        replace(acceptor, virtual_topic_consumers=""), ".", Homes(), lambda _: AddressSettings()
    )
    assert other.resolve("/queue/C.A.x", None, "").address == "C.A.x" and other.key != dialect.key


@pytest.mark.parametrize(("headers", "order"), [
    ({"destination": "/queue/a"}, "a"),
    ({"destination": "/queue/a,/queue/b"}, None),
    ({"destination": "/queue/a", "AMQ_SCHEDULED_CRON": "0 9 * * MON"}, None),
    ({"destination": "/queue/a", "transaction": "t"}, None),
])  # fmt: skip
def test_what_goes_to_several_addresses_is_passed_by_no_frame(headers, order):
    """A SEND to the second of them was, of the same read: its order there was lost."""
    head = Head(b"", headers, 0, True)
    RouteCache(lambda _: 1, DIALECT).of(head)
    assert head.order == order


def test_when_a_message_comes_again():
    routes = RouteCache(lambda _: 1, DIALECT)

    def again(**headers: str) -> list[Recurrence | None]:
        route = routes.of(Head(b"", {"destination": "/queue/a,/topic/b", **headers}, 0, True))
        return [copy.again for copy in route.copies]

    assert again() == [None, None]
    assert again(AMQ_SCHEDULED_DELAY="5") == [None, None]
    assert again(AMQ_SCHEDULED_DELAY="5", AMQ_SCHEDULED_PERIOD="7", AMQ_SCHEDULED_REPEAT="2", persistent="true") == [
        Recurrence("a", Routing.ANYCAST, durable=True, delay=5, period=7, left=2),
        Recurrence("b", Routing.MULTICAST, durable=True, delay=5, period=7, left=2),
    ]
    cron = {"AMQ_SCHEDULED_CRON": "0 9 * * MON", "AMQ_SCHEDULED_ZONE": "Europe/Berlin"}
    assert again(**cron)[0] == Recurrence("a", Routing.ANYCAST, cron="0 9 * * MON", zone="Europe/Berlin")
    assert again(AMQ_SCHEDULED_PERIOD="7", AMQ_SCHEDULED_REPEAT="-1")[0] == Recurrence(
        "a", Routing.ANYCAST, period=7, left=FOR_EVER
    )


def test_what_is_sent_again_has_an_address_of_its_own_that_no_client_names():
    routes = RouteCache(lambda _: 1, DIALECT)
    head = Head(b"", {"destination": "/queue/a", "AMQ_SCHEDULED_PERIOD": "7", "AMQ_SCHEDULED_REPEAT": "-1"}, 0, True)
    assert [copy.slot for copy in routes.of(head).copies] == [slot_of("$scheduled.a")]
    for name in ("/queue/$scheduled.a", "/topic/$scheduled.a", "$scheduled.a::a"):
        with pytest.raises(RefusedError, match="broker's own"):
            resolve(name)
