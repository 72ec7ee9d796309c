"""Fixtures of the cases: the site, and connections that close themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.harness import scratch
from tests.harness.servers import needs_etcdctl

from .sites import SITES, Site, User


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The cases of one site stay together."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and "site" in item.callspec.params:
            item.add_marker(pytest.mark.xdist_group(f"artemis-{item.callspec.params['site']}"))


@pytest.fixture(scope="package", params=list(SITES))
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    if request.param == "cluster":
        needs_etcdctl()
    with scratch(request, f"cases-{request.param}") as folder, SITES[request.param](folder) as site:
        yield site


@pytest.fixture
def dial(site: Site) -> Iterator[Callable[..., User]]:
    """Opens connections without CONNECT; closes them after the test."""
    opened: list[User] = []

    def dial(version: str = "1.2", acceptor: str = "plain", **options: object) -> User:
        opened.append(site.dial(version, acceptor, **options))
        return opened[-1]

    yield dial
    for client in opened:
        client.leave()
    assert site.alive()


@pytest.fixture
def join(dial: Callable[..., User]) -> Callable[..., User]:
    """Opens connections and logs in."""

    def join(
        version: str = "1.2", headers: dict[str, object] | None = None, acceptor: str = "plain", **options: object
    ) -> User:
        client = dial(version, acceptor, **options)
        client.connect(headers or {})
        return client

    return join
