"""One broker per module, with the limits the module names in SETTINGS; an innocent client beside every test."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.core.errors import Code
from tests.harness import Broker, Client, Frame, scratch
from tests.harness.steps import no_long_steps as no_long_steps

from .innocent import Innocent

_NUMBERS = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The innocent's rounds are timed, and so is much of what the attackers get."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.alone)


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    settings = getattr(request.module, "SETTINGS", {})
    with scratch(request, "abuse") as folder, Broker(folder, settings) as broker:
        broker.metrics()  # the admin port is up
        yield broker
        assert "Traceback" not in broker.log()


@pytest.fixture(autouse=True)
def innocent(broker: Broker) -> Iterator[Innocent]:
    """Beside every test; judged after it."""
    client = Innocent(broker.port, f"/queue/innocent.{next(_NUMBERS)}")
    yield client
    client.check()
    assert broker.alive


@pytest.fixture
def dial(broker: Broker) -> Iterator[Callable[..., Client]]:
    """Opens connections without CONNECT; closes them after the test."""
    opened: list[Client] = []

    def dial(version: str = "1.2", **options: object) -> Client:
        client = Client(broker.port, version, **options)  # type: ignore[arg-type]
        opened.append(client)
        return client

    yield dial
    for client in opened:
        client.close()


@pytest.fixture
def join(dial: Callable[..., Client]) -> Callable[..., Client]:
    def join(version: str = "1.2", headers: dict[str, object] | None = None, **options: object) -> Client:
        client = dial(version, **options)
        client.connect(headers or {})
        return client

    return join


@pytest.fixture
def name() -> str:
    return f"a.{next(_NUMBERS)}"


@pytest.fixture
def queue(name: str) -> str:
    return f"/queue/{name}"


@pytest.fixture
def ends() -> Callable[..., Frame]:
    """Reads the ERROR of `code` and the end of the connection."""

    def ends(client: Client, code: Code, receipt: str | None = None) -> Frame:
        frame = client.expect("ERROR")
        assert frame["error-code"] == str(code.number), f"expected {code.name}, got {frame}"
        assert frame.get("receipt-id") == receipt
        client.ended()
        return frame

    return ends


@pytest.fixture
def counted(broker: Broker) -> Iterator[Callable[[str, int], None]]:
    """counted(reason, n): exactly n connections have ended for this reason since the test began."""
    before = broker.metrics()

    def counted(reason: str, count: int = 1) -> None:
        key = f'stomp_connections_closed_total{{reason="{reason}"}}'
        assert broker.metrics().get(key, 0) - before.get(key, 0) == count

    yield counted
