"""A real Redis for the tests of what edges share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.harness import scratch
from tests.harness.servers import Server, running

from .redis_world import Edges


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with scratch(request, "redis") as folder, running("redis", folder, ours=True) as server:
        yield server


@pytest.fixture
async def edges(server: Server, request: pytest.FixtureRequest) -> AsyncIterator[Edges]:
    edges = Edges(server, f"{request.node.name}:")
    yield edges
    for shared in edges.all:
        await shared.close()
