"""RabbitMQ's names as ours, and the page that lists all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.acceptor import AcceptorSettings
from broker.config.addressing import AddressSettings
from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.core.management import MANAGEMENT
from broker.edge.destinations.dialect import Dialect, Homes
from broker.edge.destinations.dialects import arguments, choose, flags, rabbitmq, streams
from broker.edge.destinations.dialects.exchanges import PREDECLARED
from broker.edge.destinations.send_route import READ, RouteCache
from broker.edge.subscribing.subscribe_request import PRIORITIES
from broker.wire.events import Head
from broker.wire.heads import NAMED, SIGNIFICANT

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "compatibility-rabbitmq.md").read_text()
DIALECT = rabbitmq.RabbitMQ(
    ".", Homes(), lambda _: AddressSettings(), {"a.b": {"type": "topic"}, "a": {"type": "topic"}}
)


def test_the_dialect_is_the_acceptors():
    def chosen(name: str) -> Dialect:
        return choose(AcceptorSettings(dialect=name), ".", Homes(), lambda _: AddressSettings(), {})

    assert [chosen(name).name for name in ("artemis", "rabbitmq", "activemq")] == ["artemis", "rabbitmq", "activemq"]
    assert chosen("artemis").key != chosen("rabbitmq").key


def test_the_page_lists_all_of_it():
    names = [
        *rabbitmq.IN_SEND, *streams.HEADERS, streams.VALUE, *flags.FLAGS, *rabbitmq.PROPERTIES, *arguments.ARGUMENTS,
        *PREDECLARED,
        *rabbitmq.TEXTS.values(), rabbitmq.PREFETCH, PRIORITIES[-1],
    ]  # fmt: skip
    assert [name for name in names if f"`{name}`" not in PAGE and f"`{name} " not in PAGE] == []
    assert [prefix for prefix in rabbitmq.PREFIXES if f"`{prefix}/" not in PAGE] == []


def test_the_wire_never_hides_a_header_that_decides_the_route():
    assert {*READ, *DIALECT.read, "user-id", *rabbitmq.SENT} <= SIGNIFICANT
    assert {*arguments.ARGUMENTS} <= SIGNIFICANT and {*rabbitmq.IN_SEND} <= SIGNIFICANT | NAMED


def test_keys_of_one_exchange_are_no_keys_of_another():
    one = DIALECT.resolve("/exchange/a.b/c", None, "SEND-").address
    other = DIALECT.resolve("/exchange/a/b.c", None, "SEND-").address
    assert one != other and (one, other) == ("$exchange/a%2Eb.c", "$exchange/a.b.c")


@pytest.mark.parametrize(
    ("destination", "address"),
    [
        ("/queue/a%2Fb", "a/b"),
        ("/queue/a%41", "a%41"),
        ("/queue/%C3%A9%41", "é%41"),
        ("/queue/100%25", "100%"),
        ("/queue/5%", "5%"),
    ],
)
def test_escapes_that_rabbitmq_reads_or_writes(destination, address):
    assert DIALECT.resolve(destination, None, "SEND-").address == address


@pytest.mark.parametrize("destination", ["/queue/%FF", "/queue/%C3"])
def test_escapes_of_what_is_not_text(destination):
    with pytest.raises(RefusedError) as refused:
        DIALECT.resolve(destination, None, "SEND-")
    assert refused.value.code is Code.BAD_DESTINATION


@pytest.mark.parametrize("name", ["{}", "/queue/{}", "/amq/queue/{}", "/topic/{}", "/exchange/amq.topic/{}"])
def test_requests_to_the_broker_are_not_queued_as_if_they_were_messages(name):
    with pytest.raises(RefusedError, match="dialect artemis") as refused:
        RouteCache(lambda _: 1, DIALECT).of(Head(b"", {"destination": name.format(MANAGEMENT)}, 0, True))
    assert refused.value.code is Code.BAD_DESTINATION
    assert DIALECT.resolve("/queue/x.activemq.management", None, "SEND-").address == "x.activemq.management"


def test_a_durable_subscription_is_named_by_its_id_and_destination():
    def queue(destination: str, id: str) -> str | None:
        return DIALECT.subscribed({"destination": destination, "id": id, "durable": "true"}).queue

    assert queue("/topic/a", "1") == queue("/topic/a", "1")
    assert len({queue("/topic/a", "1"), queue("/topic/a", "2"), queue("/topic/b", "1")}) == 3
    assert queue("/queue/a", "1") is None, "a queue is durable anyway"


def test_dead_letters_of_an_exchange():
    settings = AddressSettings(dead_letter_address="$exchange/amq.fanout".replace(".", "%2E"))
    headers = {"destination": "/queue/q", "x-dead-letter-exchange": "amq.fanout"}
    dialect = rabbitmq.RabbitMQ(".", Homes(), lambda _: settings, {})
    dialect.check_send(headers)
    with pytest.raises(RefusedError, match="dead_letter_address"):
        DIALECT.check_send(headers)


def test_a_route_has_the_properties():
    routes = RouteCache(lambda _: 1, DIALECT)
    route = routes.of(
        Head(b"", {"destination": "q", "expiration": "5", "priority": "77", "persistent": "yes"}, 0, True)
    )
    assert (route.ttl, route.priority, route.flags, route.routing) == (5, 9, 0, Routing.ANYCAST)
    other = routes.of(Head(b"", {"destination": "q", "expiration": "6", "priority": "77"}, 0, True))
    assert other.ttl == 6
