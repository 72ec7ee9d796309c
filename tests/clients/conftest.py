"""One broker for all clients of a module; every test has queues of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.harness import Broker

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def name() -> str:
    """A name no other test uses."""
    return f"clients.{next(_numbers)}"
