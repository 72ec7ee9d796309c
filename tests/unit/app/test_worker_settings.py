"""Settings of edge processes: what belongs to all is shared out, and what cannot be is refused by name."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from broker.app.edges import worker_settings
from broker.app.edges.worker_settings import (
    WorkerStart,
    changed,
    memory_shares,
    refuse_more_partitions,
    refuse_undivided,
    settings_for,
    with_changed,
)
from broker.config.settings import EdgeSettings, EngineSettings, MemorySettings, Settings
from broker.core.errors import ConfigError


def edge(**values) -> Settings:
    return Settings(edge=EdgeSettings(**values))


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
    entries = [entry for piece in changed(before, after) for entry in piece]
    assert sorted(entries) == [
        ("engine.addresses", "a", {"max_size_bytes": 3}), ("engine.addresses", "b", None), ("engine.queues", "q", {}),
    ]  # fmt: skip
    assert with_changed(before, entries) == after
    assert before.engine.addresses["b"], "the settings of before stay what they were"


def test_many_entries_are_compared_in_pieces():
    """A step of the loop does not grow with what somebody has set."""
    many = {f"a.{n}": {"max_size_bytes": n} for n in range(4 * worker_settings.COMPARED)}
    looked: list[str] = []

    class Noting(dict[str, object]):
        def get(self, name, default=None):
            looked.append(name)
            return super().get(name, default)

    before = Settings(engine=EngineSettings(addresses=Noting(many)))
    after = replace(before, engine=EngineSettings(addresses={**many, "a.7": {}, "new": {}}))
    pieces = []
    for piece in changed(before, after):
        assert len(looked) <= worker_settings.COMPARED
        looked.clear()
        pieces.append(piece)
    assert [entry for piece in pieces for entry in piece] == [
        ("engine.addresses", "a.7", {}), ("engine.addresses", "new", {}),
    ]  # fmt: skip
    assert len(pieces) > 4


def test_partitions_stay():
    before = Settings(engine=EngineSettings(addresses={"a": {"partitions": 2}}))
    refuse_more_partitions(before, replace(before, edge=EdgeSettings(audit="all")))
    for after in ({"a": {"partitions": 3}}, {}, {"a": {"partitions": 2}, "b": {"partitions": 2}}):
        with pytest.raises(ConfigError, match="partitions"):
            refuse_more_partitions(before, Settings(engine=EngineSettings(addresses=after)))


def test_it_travels_whole():
    told = WorkerStart(1, 2, "b", "/p", {"tcp": [5]}, 0, edge(issuers={"i": {"url": "https://x"}}))
    assert msgspec.json.decode(msgspec.json.encode(told), type=WorkerStart) == told
