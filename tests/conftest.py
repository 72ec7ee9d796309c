"""Makes `tests` importable from every folder (pytest puts the folder above this package on the path), and lends
real servers to whoever asks: `etcd` and `redis` are shared, so use keys of your own; `own_etcd` and `own_redis` may be
stopped, killed and paused.

`make test` runs files beside each other (-n 2 --dist loadgroup): a file, or what names an xdist_group, stays in one
worker; what needs a Spark session is one group, and begins. Whatever measures how long something takes or what the
processor does, or keeps the whole machine busy, bears the marker `alone` and has the machine for itself."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.harness import scratch
from tests.harness.servers import Server, running
from tests.harness.stomp import close_all

settings.register_profile("busy", deadline=None)  # how long one example takes depends on what else the machine does
settings.load_profile("busy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    spark = [item for item in items if "sparks" in getattr(item, "fixturenames", ())]
    for item in spark:
        item.add_marker(pytest.mark.xdist_group("spark"))  # one warm session for all of them
    # Long, and in one worker: first, so that no worker waits for them in the end.
    chosen = set(spark)
    items[:] = [*spark, *(item for item in items if item not in chosen)]
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture(scope="module", autouse=True)
def _nobody_stays() -> Iterator[None]:
    """Connections end with the file that made them."""
    yield
    close_all()


@pytest.fixture(scope="module", autouse=True)
def _collected_as_before() -> Iterator[None]:
    """A process of ours that ran within this one has set Python's collector for itself (broker/app/process/garbage.py).
    What it froze has no referrers for gc: hypothesis takes its own generators for garbage then."""
    thresholds, callbacks = gc.get_threshold(), gc.callbacks.copy()
    yield
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks
    gc.unfreeze()


@pytest.fixture(scope="session")
def etcd(request: pytest.FixtureRequest) -> Iterator[Server]:
    with scratch(request, "etcd") as folder, running("etcd", folder) as server:
        yield server


@pytest.fixture(scope="session")
def redis(request: pytest.FixtureRequest) -> Iterator[Server]:
    with scratch(request, "redis") as folder, running("redis", folder) as server:
        yield server


@pytest.fixture
def own_etcd(request: pytest.FixtureRequest) -> Iterator[Server]:
    with scratch(request, "own_etcd") as folder, running("etcd", folder, ours=True) as server:
        yield server


@pytest.fixture
def own_redis(request: pytest.FixtureRequest) -> Iterator[Server]:
    with scratch(request, "own_redis") as folder, running("redis", folder, ours=True) as server:
        yield server
