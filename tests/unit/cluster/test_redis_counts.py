"""Counts of quotas that edges tell each other by a real Redis."""

from __future__ import annotations

import pytest

from broker.cluster.redis import redis_counts
from broker.core.errors import RefusedError
from broker.edge.quotas.quotas import Quotas, Resource
from tests.harness.waiting import eventually

LIMITS = {"user:*": {"max_connections": 10}}


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(redis_counts, "EVERY_S", 0.02)


def of(quotas: Quotas) -> int:
    return quotas.others_of("user:ada")[Resource.CONNECTIONS]


async def two(edges):
    names = ["edge0", "edge1"]
    both = []
    for name in names:
        shared, quotas = await edges.start(), Quotas(LIMITS)
        quotas.shared_by(2, names.index(name))
        shared.counts.start(quotas, lambda name=name: [other for other in names if other != name])
        both.append((shared, quotas))
    return both


async def test_what_one_edge_uses_is_taken_from_the_others(edges, monkeypatch):
    monkeypatch.setattr(redis_counts, "CHUNK", 2)
    (one, here), (_, there) = await two(edges)
    ada = here.usage("ada", "", "")
    ada.charge(Resource.CONNECTIONS, 5)
    for user in ("bob", "eve", "joe"):
        here.usage(user, "", "").charge(Resource.CONNECTIONS)
    await eventually(lambda: of(there) == 5)
    other = there.usage("ada", "", "")
    other.charge(Resource.CONNECTIONS, 5)
    with pytest.raises(RefusedError, match="user:ada has 10 connections at most \\(edge"):
        other.charge(Resource.CONNECTIONS)
    assert there.others_of("user:joe")[Resource.CONNECTIONS] == 1
    ada.leave()
    await eventually(lambda: of(there) == 0)
    other.charge(Resource.CONNECTIONS, 5)
    await eventually(lambda: of(here) == 10)
    await one.counts.close()
    assert [key for key in await edges.keys() if "quotas:edge0" in key] == []


async def test_while_redis_is_away_each_edge_has_its_part(edges, server, monkeypatch):
    monkeypatch.setattr("broker.cluster.redis.redis_link.RETRY_S", 0.05)
    (_, here), _ = await two(edges)
    ada = here.usage("ada", "", "")
    await eventually(lambda: here.part(10, 0) == 10)
    server.pause()
    try:
        await eventually(lambda: here.part(10, 0) == 5)
        ada.charge(Resource.CONNECTIONS, 5)
        with pytest.raises(RefusedError, match="5 of them at this one of 2 edges"):
            ada.charge(Resource.CONNECTIONS)
    finally:
        server.resume()
    await eventually(lambda: here.part(10, 0) == 10)
