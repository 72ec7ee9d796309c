"""One broker for all clients of a module; every test has queues of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.harness import Broker, scratch
from tests.harness.steps import no_long_steps as no_long_steps

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with scratch(request, "broker") as folder, Broker(folder) as broker:
        yield broker


@pytest.fixture
def name() -> str:
    """A name no other test uses."""
    return f"clients.{next(_numbers)}"
