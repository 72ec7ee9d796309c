"""A broker with edge processes as a library: one answer for all of them, and nothing stays behind."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from broker.app.standalone import Standalone
from broker.client import connect
from broker.config.settings import Settings
from broker.core.errors import ConfigError
from broker.core.metrics import Histogram
from broker.edge.transport import channel
from tests.unit.app.test_standalone import closed_cleanly, settings


@pytest.fixture(autouse=True)
def _numbers_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of connections: other tests go on with theirs."""
    monkeypatch.setattr(channel, "_numbers", channel._numbers)


def with_edges(folder: Path, **edge: object) -> Settings:
    plain = settings(folder)
    return replace(plain, edge=replace(plain.edge, processes="2", **edge))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def nobody_is_hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these stands still: on a busy machine one that has to wait looks like it."""
    monkeypatch.setattr("broker.app.edges.supervisor.PING_S", 3600.0)


async def test_all_processes_answer_as_one(tmp_path: Path) -> None:
    broker = Standalone(with_edges(tmp_path))
    await broker.start()
    processes = broker.processes
    assert processes is not None and broker.readiness()[1]["edge processes"] == "2 of 2"
    try:
        port = broker.listeners.ports["tcp"]
        # The kernel shares them out: of twenty one process has all once in half a million runs.
        clients = [await connect(f"stomp://127.0.0.1:{port}") for _ in range(20)]
        totals, missing = await processes.ask({"kind": "clients"})
        assert sorted(each["connections"] > 0 for each in totals) == [True, True] and not missing
        assert sum(each["connections"] for each in totals) == 20
        asked = {"kind": "connections", "sort": "id", "limit": 50, "descending": False}
        ids = [row["id"] for answer in (await processes.ask(asked))[0] for row in answer["rows"]]
        assert len(set(ids)) == 20, "no two connections of the broker have the same number"
        for id, ended in ((ids[0], [False, True]), (10**9, [False, False])):
            told, _ = await processes.ask({"kind": "disconnect", "id": id, "why": "enough"})
            assert sorted(each["ended"] for each in told) == ended
        await broker.live.change("permissions", "secret", {"send": "nobody"}, "me")
        for client in clients:
            try:
                await client.close()
            except Exception:
                assert client  # that one was disconnected
        await processes.gather()
        families = [each for each in processes.metrics() if each.name == "stomp_connections_opened_total"]
        opened = [sample for each in families for sample in each.samples]
        assert sum(value for _, value in opened) == 20
        assert {labels["process"] for labels, _ in opened} == {"edge-1", "edge-2"}
        values = [value for each in processes.metrics() if each.kind == "histogram" for _, value in each.samples]
        assert values and all(type(value) is Histogram for value in values), "as the exposition wants them"
    finally:
        await broker.stop()
    assert closed_cleanly(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["journal", "live.json"]


async def test_a_port_in_use_is_said_by_its_name(tmp_path: Path) -> None:
    first = Standalone(with_edges(tmp_path / "a"))
    await first.start()
    try:
        port = first.listeners.ports["tcp"]
        with pytest.raises(ConfigError, match=f"port {port} .*in use"):
            await Standalone(with_edges(tmp_path / "b", port=port)).start()
    finally:
        await first.stop()
    assert closed_cleanly(tmp_path / "b")


async def test_what_it_cannot_do_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"edge\.notifications"):
        Standalone(with_edges(tmp_path, notifications=True))
    assert not (tmp_path / "journal").exists()
