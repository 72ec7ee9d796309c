"""One broker with default settings for the whole folder; every test uses destinations of its own.

Where it matters that edges and owners are apart, a test runs a second time against a cluster (targets.py), in one
version of the protocol: the others differ in the edge only, which is the same code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.harness import Broker, Client, scratch
from tests.harness.servers import needs_etcdctl
from tests.harness.steps import no_long_steps as no_long_steps

from .targets import Target, cluster_target, meet

_NUMBERS = itertools.count(1)

BY_EDGES_ALONE = {"test_connect", "test_framing", "test_heartbeat"}
"""What these test never reaches an owner, or does not depend on it."""
STANDALONE_ONLY = {"test_a_restart_keeps_order_and_what_was_settled"}
"""tests/cluster restarts owners."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drops what a second run against the cluster would not tell; what needs the cluster stays together."""
    dropped = [item for item in items if _tells_nothing_new(item)]
    config.hook.pytest_deselected(items=dropped)
    items[:] = [item for item in items if item not in set(dropped)]
    for item in items:
        if _in_cluster(item):
            item.add_marker(pytest.mark.xdist_group("conformance-cluster"))


def _in_cluster(item: pytest.Item) -> bool:
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return "cluster" in (given.get(name) for name in ("broker", "small", "split"))


def _tells_nothing_new(item: pytest.Item) -> bool:
    if not _in_cluster(item):
        return False
    assert isinstance(item, pytest.Function)
    given = item.callspec.params
    return (
        item.path.stem in BY_EDGES_ALONE
        or item.originalname in STANDALONE_ONLY
        or given.get("version", "1.2") != "1.2"
        or given.get("cut", "whole") != "whole"
    )


@pytest.fixture(scope="package")
def cluster(request: pytest.FixtureRequest) -> Iterator[Target]:
    needs_etcdctl()
    with scratch(request, "cluster") as folder, cluster_target(folder) as target:
        yield target


@pytest.fixture(scope="package", params=["standalone", "cluster"])
def broker(request: pytest.FixtureRequest) -> Iterator[Target]:
    if request.param == "cluster":
        yield request.getfixturevalue("cluster")
        return
    with scratch(request, "conformance") as folder, Broker(folder) as broker:
        yield broker
        assert "Traceback" not in broker.log()


@pytest.fixture(params=["whole", "bytewise", "joined"])
def cut(request: pytest.FixtureRequest) -> str:
    """What a client sends leaves frame by frame, byte by byte, or all that stands between two reads at once."""
    return str(request.param)


@pytest.fixture
def dial(broker: Target, cut: str) -> Iterator[Callable[..., Client]]:
    """Opens connections without CONNECT; closes them after the test."""
    with_closing: list[Client] = []

    def dial(version: str = "1.2", **options: object) -> Client:
        client = meet(Client(broker.port, version, cut=cut, **options), broker)  # type: ignore[arg-type]
        with_closing.append(client)
        return client

    yield dial
    for client in with_closing:
        client.leave()
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
