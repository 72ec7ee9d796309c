"""Live settings, users and tokens of a cluster, as an edge's API changes them: checked, in etcd, in use, told."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker.app.live.cluster_live import ClusterLive
from broker.cluster import config_writer
from broker.cluster.config_writer import NotKnown
from broker.cluster.operate import NotPossible
from broker.config.settings import EdgeSettings
from broker.core.errors import ConfigError
from tests.unit.app.live_edge import FILE, KEYS, running


async def test_a_change_is_in_etcd_and_in_use_when_it_is_answered():
    async with running() as edge:
        assert await edge.live.change("queues", "slips", {"selector": "a = 1"}, "ada") == {}
        assert edge.stored(KEYS.queue("slips")) == {"selector": "a = 1"}
        assert edge.settings.engine.queues["slips"] == {"selector": "a = 1"}
        assert await edge.live.behind() == []
        assert edge.row("queues", "slips")["source"] == "live"


async def test_an_address_and_a_pattern_are_written_where_the_command_line_writes_them():
    async with running() as edge:
        await edge.live.change("addresses", "orders", {"max_delivery_attempts": 3}, "ada")
        assert edge.stored(KEYS.address("orders")) == {"max_delivery_attempts": 3}, "what the file says stays there"
        assert edge.row("addresses", "orders")["values"] == {"partitions": 2, "max_delivery_attempts": 3}
        await edge.live.change("addresses", "orders.#", {"max_delivery_attempts": 4}, "ada")
        assert edge.stored(KEYS.setting("orders.#")) == {"max_delivery_attempts": 4}
        await edge.put(KEYS.setting("other"), {"max_delivery_attempts": 4})
        await edge.live.change("addresses", "other", {"max_delivery_attempts": 5}, "ada")
        assert edge.stored(KEYS.setting("other")) == {"max_delivery_attempts": 5}


async def test_a_queue_of_the_file_keeps_what_is_not_changed_and_comes_back():
    """Beside an entry in etcd that of the file does not count."""
    async with running() as edge:
        before = await edge.live.change("queues", "bills", {"ring_size": 7}, "ada")
        assert before == {"selector": "n > 1", "ring_size": 5}
        assert edge.settings.engine.queues["bills"] == {"selector": "n > 1", "ring_size": 7}
        row = edge.row("queues", "bills")
        assert row["source"] == "file and live" and row["overridden"] == {"ring_size": 5}
        await edge.live.change("queues", "bills", {"ring_size": None}, "ada")
        assert edge.stored(KEYS.queue("bills")) is None
        assert edge.settings.engine.queues["bills"] == FILE.engine.queues["bills"]


async def test_what_was_changed_is_taken_back_and_nothing_else():
    async with running() as edge:
        await edge.live.change("queues", "slips", {"ring_size": 3}, "ada")
        assert await edge.live.forget("queues", "slips") == {"ring_size": 3}
        assert "slips" not in edge.settings.engine.queues
        with pytest.raises(KeyError):
            await edge.live.forget("queues", "bills")


async def test_what_cannot_be_is_refused_and_nothing_is_written():
    async with running() as edge:
        for table, name, values, why in (
            ("queues", "slips", {"selector": "a ="}, "Invalid selector"),
            ("addresses", "orders", {"partitions": 1}, "partitions may only grow"),
            ("addresses", "orders", {"colour": 1}, "Unknown setting colour"),
            ("permissions", "file.#", {"colour": "x"}, "Unknown setting colour"),
        ):
            with pytest.raises(ConfigError, match=why):
                await edge.live.change(table, name, values, "ada")
        assert not [key for key in edge.store.keys if key.startswith(KEYS.config)]


async def test_the_last_permission_stays():
    async with running() as edge:
        edge.settings = replace(edge.settings, edge=EdgeSettings())
        await edge.live.change("permissions", "#", {"send": "ops"}, "ada")
        edge.settings = replace(edge.settings, edge=EdgeSettings(permissions={"#": {"send": "ops"}}))
        with pytest.raises(ConfigError, match="last entry"):
            await edge.live.forget("permissions", "#")


async def test_an_entry_of_kubernetes_is_changed_there():
    async with running() as edge:
        await edge.put(KEYS.marker(KEYS.queue("slips")), {"kind": "Address", "namespace": "mq", "name": "slips"})
        with pytest.raises(NotPossible, match="slips belongs to Address mq/slips of Kubernetes"):
            await edge.live.change("queues", "slips", {"ring_size": 3}, "ada")
        assert edge.stored(KEYS.queue("slips")) is None


async def test_two_who_change_one_entry_at_once_lose_nothing():
    async with running() as edge:
        other = ClusterLive(FILE, lambda: edge.settings, edge.config, edge.writer, edge.users)
        await asyncio.gather(
            edge.live.change("queues", "slips", {"ring_size": 3}, "ada"),
            other.change("queues", "slips", {"selector": "a = 1"}, "bob"),
        )
        assert edge.stored(KEYS.queue("slips")) == {"ring_size": 3, "selector": "a = 1"}


async def test_who_does_not_use_it_yet_is_named(monkeypatch: pytest.MonkeyPatch):
    async with running() as edge:
        monkeypatch.setattr(config_writer, "ANSWER_S", 0.3)
        edge.stuck = {"owner-0"}
        await edge.live.change("queues", "slips", {"ring_size": 3}, "ada")
        assert await edge.live.behind() == ["owner-0"]
        edge.members.owners["owner-0"] = replace(edge.members.owners["owner-0"], leaving=True)
        assert await edge.live.behind() == []


async def test_a_store_that_does_not_answer_is_not_taken_for_a_no(monkeypatch: pytest.MonkeyPatch):
    async with running() as edge:
        edge.metadata.lose_answer = lambda: True
        with pytest.raises(NotKnown, match="may have been made"):
            await edge.live.change("queues", "slips", {"ring_size": 3}, "ada")


async def test_an_entry_that_cannot_be_read_is_shown_and_can_be_taken_away():
    async with running() as edge:
        await edge.put(KEYS.queue("slips"), {"selector": "a ="})
        row = edge.row("queues", "slips")
        assert row["source"] == "set aside" and "Invalid selector" in row["why"]
        await edge.live.forget("queues", "slips")
        assert not edge.config.bad


async def test_of_the_last_two_permissions_one_stays():
    async with running() as edge:
        edge.metadata.latency = lambda: 0.002
        file = replace(FILE, edge=EdgeSettings())
        edge.settings = replace(edge.settings, edge=EdgeSettings())
        for name in ("a.#", "b.#"):
            await edge.live.change("permissions", name, {"send": "ops"}, "ada")
        edge.settings = replace(edge.settings, edge=EdgeSettings(permissions=dict(edge.config.permissions)))
        lives = [ClusterLive(file, lambda: edge.settings, edge.config, edge.writer, edge.users) for _ in range(2)]
        done = await asyncio.gather(
            lives[0].forget("permissions", "a.#"), lives[1].forget("permissions", "b.#"), return_exceptions=True
        )
        assert [type(one) for one in done].count(ConfigError) == 1 and len(edge.config.permissions) == 1
