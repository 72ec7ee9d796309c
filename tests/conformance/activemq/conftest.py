"""Fixtures: a place whose ports speak ActiveMQ Classic's dialect, and its clients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.harness import Client

from ..dialects import PLACES, joining, opened, stay_together
from ..targets import Target

_NUMBERS = itertools.count(1)

SETTINGS: dict[str, object] = {
    "engine.addresses.only.one.exclusive": True,
    "engine.addresses.small.max_size_messages": 1,
    "engine.addresses.small.full_policy": "FAIL",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    stay_together(items, "activemq")


@pytest.fixture(scope="package", params=PLACES)
def place(request: pytest.FixtureRequest) -> Iterator[Target]:
    with opened(request, "activemq", SETTINGS) as place:
        yield place


@pytest.fixture
def join(place: Target) -> Iterator[Callable[..., Client]]:
    yield from joining(place)


@pytest.fixture
def name() -> str:
    """Of a queue or topic that nobody else uses."""
    return f"c.{next(_NUMBERS)}"
