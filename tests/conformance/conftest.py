"""One broker with default settings for the whole folder; every test uses destinations of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.harness import Broker, Client

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("conformance")) as broker:
        yield broker
        assert "Traceback" not in broker.log()


@pytest.fixture(params=["whole", "bytewise"])
def bytewise(request: pytest.FixtureRequest) -> bool:
    """Everything a client sends leaves in one piece, or byte by byte."""
    return bool(request.param == "bytewise")


@pytest.fixture
def dial(broker: Broker, bytewise: bool) -> Iterator[Callable[..., Client]]:
    """Opens connections without CONNECT; closes them after the test."""
    with_closing: list[Client] = []

    def dial(version: str = "1.2", **options: object) -> Client:
        client = Client(broker.port, version, bytewise=bytewise, **options)  # type: ignore[arg-type]
        with_closing.append(client)
        return client

    yield dial
    for client in with_closing:
        client.close()
    assert broker.alive


@pytest.fixture
def join(dial: Callable[..., Client]) -> Callable[..., Client]:
    """Opens connections and logs in."""

    def join(version: str = "1.2", headers: dict[str, object] | None = None, **options: object) -> Client:
        client = dial(version, **options)
        client.connect(headers or {})
        return client

    return join


@pytest.fixture
def name() -> str:
    """An address nobody else uses."""
    return f"t.{next(_NUMBERS)}"


@pytest.fixture
def queue(name: str) -> str:
    return f"/queue/{name}"


@pytest.fixture
def topic(name: str) -> str:
    return f"/topic/{name}"
