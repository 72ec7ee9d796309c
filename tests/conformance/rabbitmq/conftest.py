"""Fixtures: a place whose ports speak RabbitMQ's dialect, and its clients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.harness import Client

from ..dialects import PLACES, joining, opened, stay_together
from ..targets import Target

_NUMBERS = itertools.count(1)

SETTINGS: dict[str, object] = {
    "edge.exchanges.logs.type": "topic",
    "edge.exchanges.my.own.type": "direct",
    "edge.exchanges.everybody.type": "fanout",
    "engine.diverts.bound.address": "$exchange/my%2Eown/to.queue",
    "engine.diverts.bound.forward": "bound.queue",
    "engine.diverts.bound.routing": "ANYCAST",
    "engine.addresses.with.ttl.expiry_delay_ms": 60_000,
    "engine.addresses.with.length.ring_size": 3,
    "engine.addresses.with.reject.max_size_messages": 3,
    "engine.addresses.with.reject.full_policy": "FAIL",
    "engine.addresses.with.dlx.dead_letter_address": "dead.queue",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    stay_together(items, "rabbitmq")


@pytest.fixture(scope="package", params=PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[Target]:
    with opened(request, "rabbitmq", SETTINGS) as place:
        yield place


@pytest.fixture
def join(place: Target) -> Iterator[Callable[..., Client]]:
    yield from joining(place)


@pytest.fixture
def name() -> str:
    """Of a queue, or a key, that nobody else uses."""
    return f"r.{next(_NUMBERS)}"
