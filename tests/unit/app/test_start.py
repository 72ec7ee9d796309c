"""Settings of edge processes: what belongs to all is shared out, and what cannot be is refused by name."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from broker.app.edges import start
from broker.app.edges.start import (
    WorkerStart,
    changed,
    memory_shares,
    processes_of,
    refuse_more_partitions,
    refuse_undivided,
    settings_for,
    with_changed,
)
from broker.config.settings import EdgeSettings, EngineSettings, MemorySettings, Settings
from broker.core.errors import ConfigError


def edge(**values) -> Settings:
    return Settings(edge=EdgeSettings(**values))


def test_how_many(monkeypatch):
    monkeypatch.setattr(start.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    assert [processes_of(edge(processes=said)) for said in ("0", "5", "auto")] == [0, 5, 4]
    monkeypatch.setattr(start.os, "sched_getaffinity", lambda _: {0, 1, 2})
    assert processes_of(edge(processes="auto")) == 0, "with few cores more processes cost, and bring nothing"
    for wrong in ("-1", "many", "65", ""):
        with pytest.raises(ConfigError, match=r"edge\.processes"):
            processes_of(edge(processes=wrong))


@pytest.mark.parametrize(
    "name, settings",
    [
        ("edge.max_connections is 150", edge(max_connections=150)),
        ("edge.max_connections_per_ip", edge(max_connections_per_ip=10)),
        ("edge.virtual_hosts.shop.max_connections", edge(virtual_hosts={"shop": {"max_connections": 5}})),
        ("acceptors.a.connections_allowed", Settings(acceptors={"a": {"port": 1, "connections_allowed": 1}})),
        ("edge.notifications", edge(notifications=True)),
    ],
)
def test_what_several_processes_cannot_do_is_named(name, settings):
    with pytest.raises(ConfigError, match=name):
        refuse_undivided(settings, 2)


def test_limits_are_those_of_all_together():
    settings = replace(
        edge(max_connections=1001, virtual_hosts={"shop": {"max_connections": 300}, "open": {}}),
        acceptors={"a": {"port": 1, "connections_allowed": 400}},
    )
    refuse_undivided(settings, 2)
    shared = settings_for(settings, 2, 2, 7 << 20)
    assert (shared.edge.max_connections, shared.cluster.id, shared.memory.limit_bytes) == (501, "edge-2", 7 << 20)
    assert shared.edge.virtual_hosts == {"shop": {"max_connections": 150}, "open": {}}
    assert shared.acceptors["a"]["connections_allowed"] == 200


def test_memory_is_shared_out_and_no_bound_stays_none():
    assert memory_shares(Settings(memory=MemorySettings(800)), 4) == (400, 100)
    assert memory_shares(Settings(memory=MemorySettings(-1)), 4) == (-1, -1)


def test_changed_entries_and_nothing_else():
    before = Settings(
        engine=EngineSettings(addresses={"a": {"max_size_bytes": 1}, "b": {"max_size_bytes": 2}}),
        edge=EdgeSettings(permissions={"#": {"send": "x"}}),
    )
    after = replace(before, engine=EngineSettings(addresses={"a": {"max_size_bytes": 3}}, queues={"q": {}}))
    entries = changed(before, after)
    assert sorted(entries) == [
        ("engine.addresses", "a", {"max_size_bytes": 3}), ("engine.addresses", "b", None), ("engine.queues", "q", {}),
    ]  # fmt: skip
    assert with_changed(before, entries) == after
    assert before.engine.addresses["b"], "the settings of before stay what they were"


def test_partitions_stay():
    before = Settings(engine=EngineSettings(addresses={"a": {"partitions": 2}}))
    refuse_more_partitions(before, replace(before, edge=EdgeSettings(audit="all")))
    for after in ({"a": {"partitions": 3}}, {}, {"a": {"partitions": 2}, "b": {"partitions": 2}}):
        with pytest.raises(ConfigError, match="partitions"):
            refuse_more_partitions(before, Settings(engine=EngineSettings(addresses=after)))


def test_it_travels_whole():
    told = WorkerStart(1, 2, "b", "/p", {"tcp": [5]}, 0, edge(issuers={"i": {"url": "https://x"}}))
    assert msgspec.json.decode(msgspec.json.encode(told), type=WorkerStart) == told
