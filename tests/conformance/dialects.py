"""What the conformance tests of a dialect are tried on: a standalone broker and a cluster, all of whose ports speak it.

Rule: one configuration for all tests of a dialect, because a cluster takes its time to start. In the cluster every
connection goes to the other edge than the one before it. Imports nothing of the product."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.harness import Broker, Client, scratch
from tests.harness.cluster import Cluster
from tests.harness.servers import needs_etcdctl, running

from .targets import ClusterTarget, Target, meet

QUIET: Mapping[str, object] = {
    # These tests are not about fail-over: a busy machine must not cause one.
    "cluster.lease_s": 20,
    "cluster.dead_after_ms": 10_000,
    "journal.segment_bytes": 1 << 20,
}
PLACES = ("standalone", "cluster")


def stay_together(items: list[pytest.Item], dialect: str) -> None:
    """The tests of one place are run by one worker."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "place" in item.callspec.params:
            item.add_marker(pytest.mark.xdist_group(f"{dialect}-{item.callspec.params['place']}"))


@contextmanager
def opened(request: pytest.FixtureRequest, dialect: str, settings: Mapping[str, object]) -> Iterator[Target]:
    """The place that the test is run at."""
    settings = {**settings, "edge.dialect": dialect, "journal.segment_bytes": 1 << 20}
    if request.param == "standalone":
        with scratch(request, f"{dialect}-standalone") as folder, Broker(folder, settings) as broker:
            yield broker
            assert "Traceback" not in broker.log()
        return
    needs_etcdctl()
    with scratch(request, f"{dialect}-cluster") as folder, _cluster(folder, settings) as target:
        yield target
        assert "Traceback" not in target.log()


@contextmanager
def _cluster(folder: Path, settings: Mapping[str, object]) -> Iterator[ClusterTarget]:
    with running("etcd", folder / "etcd", ours=True) as etcd:
        cluster = Cluster(folder, etcd.port, settings={**settings, **QUIET})
        with cluster:
            cluster.wait(lambda: not cluster.status()["left_to_move"], 60, lambda: f"not at rest: {cluster.status()}")
            target = ClusterTarget(cluster)
            # sync() names its queues as every dialect understands them.
            yield target


class Joins:
    """Opens connections, and closes them after the test."""

    def __init__(self, place: Target) -> None:
        self.place = place
        self._opened: list[Client] = []

    def __call__(self, version: str = "1.2", headers: dict[str, object] | None = None) -> Client:
        client = meet(Client(self.place.port, version), self.place)
        self._opened.append(client)
        client.connect(headers or {})
        return client

    def close(self) -> None:
        for client in self._opened:
            client.leave()
        assert self.place.alive


class Fixtures(NamedTuple):
    """What a conftest.py gives to the tests of its folder, under these names.

    place   where a test is run: standalone, and a cluster.
    join    opens connections to it.
    name    of a queue, topic or key that nobody else uses."""

    pytest_collection_modifyitems: Callable[[list[pytest.Item]], None]
    place: Any
    join: Any
    name: Any


def fixtures(dialect: str, settings: Mapping[str, object]) -> Fixtures:
    """Of the folder of a dialect."""
    numbers = itertools.count(1)

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        stay_together(items, dialect)

    @pytest.fixture(scope="package", params=PLACES)
    def place(request: pytest.FixtureRequest) -> Iterator[Target]:
        with opened(request, dialect, settings) as place:
            yield place

    @pytest.fixture
    def join(place: Target) -> Iterator[Callable[..., Client]]:
        joins = Joins(place)
        yield joins
        joins.close()

    @pytest.fixture
    def name() -> str:
        return f"{dialect[0]}.{next(numbers)}"

    return Fixtures(pytest_collection_modifyitems, place, join, name)
