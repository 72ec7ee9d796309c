"""Life cycle of an owner: whatever it waits for, it can be stopped, and leaves its folder in order."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from broker.app.edge import EdgeProcess
from broker.app.owner import OwnerProcess
from broker.app.process.journal_opening import Opening
from broker.app.process.process import _started
from broker.cluster.keys import Keys
from broker.cluster.slots import SlotTable
from broker.config.settings import (
    AdminSettings,
    ClusterSettings,
    EdgeSettings,
    EtcdSettings,
    JournalSettings,
    Settings,
)
from broker.core.errors import BrokerError
from broker.core.records import MetaRecord
from broker.core.slots import Member
from broker.journal.journal import Journal
from broker.metadata.port import Put
from broker.owner.slots.recovered_slots import RECOVER_PIECE
from broker.owner.slots.slot_lifecycle import SlotLifecycle
from broker.seams.files import OsFiles
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.harness.waiting import eventually

JOURNAL = JournalSettings(segment_bytes=256 * 1024, min_free_bytes=0)


def settings(folder: Path, port: int = 0) -> Settings:
    """There is no etcd."""
    return Settings(
        data=str(folder),
        edge=EdgeSettings(host="127.0.0.1", port=0, ws_port=-1, drain_timeout_s=2.0),
        journal=JOURNAL,
        admin=AdminSettings(port=-1),
        cluster=ClusterSettings(id="o1", port=port),
        etcd=EtcdSettings(endpoints="127.0.0.1:1", timeout_s=0.2),
    )


def nobody_holds(folder: Path) -> bool:
    Journal.open(OsFiles(), os.path.join(folder, "journal"), JOURNAL).close(clean=True)
    return True


async def others() -> list[str]:
    """Tasks that are left."""
    await asyncio.sleep(0)
    return [task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@pytest.mark.parametrize("kind", [OwnerProcess, EdgeProcess])
async def test_what_waits_for_etcd_can_be_stopped(tmp_path: Path, kind: type[OwnerProcess] | type[EdgeProcess]) -> None:
    process, stop = kind(settings(tmp_path)), asyncio.Event()
    asyncio.get_running_loop().call_later(0.5, stop.set)
    assert not await asyncio.wait_for(_started(process, stop), 30)
    assert await others() == []
    assert nobody_holds(tmp_path)


async def test_a_store_that_gives_no_answer_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """It leads slots that another owner could take, and has ten minutes for that: nothing can be handed over without
    the store, so nothing is waited for."""
    keys, store = Keys("/test"), MemoryStore()
    other = Put(keys.member("owner", "o2"), Member("o2", "owner", "127.0.0.1:1", "boot").encode())
    store.commit([], [other])
    short = settings(tmp_path)
    cluster = replace(short.cluster, replicas=1, min_in_sync=1)
    process = OwnerProcess(replace(short, cluster=cluster, edge=replace(short.edge, drain_timeout_s=600.0)))
    await process.metadata.close()
    process.keys, process.metadata = keys, MemoryMetadata(store, timeout_s=600.0)
    process.table = SlotTable(process.metadata, keys)
    await process.start()
    await eventually(lambda: len(process.lifecycle.led()) == 128)
    store.stop()
    await asyncio.wait_for(process.stop(), 60)
    assert nobody_holds(tmp_path)


async def test_a_disk_without_room_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a standalone broker says it: in the log, and to who asks whether it is ready."""
    full = replace(JOURNAL, min_free_bytes=1 << 60)
    process, stop = OwnerProcess(replace(settings(tmp_path), journal=full)), asyncio.Event()
    starting = asyncio.ensure_future(_started(process, stop))
    await eventually(lambda: "disk full: " in caplog.text)
    assert "below 1,152,921,504," in process.space.details()["disk"]
    stop.set()
    assert not await asyncio.wait_for(starting, 30)
    assert nobody_holds(tmp_path)


async def test_a_component_port_in_use_leaves_nothing_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = OwnerProcess(settings(tmp_path, taken.getsockname()[1]))
        with pytest.raises(BrokerError):
            await process.start()
    assert await others() == []
    assert nobody_holds(tmp_path)


async def test_a_journal_that_somebody_holds_leaves_nothing_behind(tmp_path: Path) -> None:
    journal = Journal.open(OsFiles(), os.path.join(tmp_path, "journal"), JOURNAL)
    with pytest.raises(BrokerError):
        await OwnerProcess(settings(tmp_path)).start()
    journal.close(clean=True)
    assert await others() == []


async def test_an_error_in_what_goes_on_by_timers_ends_the_process(tmp_path: Path) -> None:
    """Else nobody would ever ask again what became of a prepared transaction."""
    process, stop = OwnerProcess(settings(tmp_path)), asyncio.Event()
    starting = asyncio.ensure_future(_started(process, stop))
    while not hasattr(process, "rpc"):  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.01)

    def broken() -> None:
        raise RuntimeError("planted")

    process._every("poll", 0.01, broken)
    assert not await asyncio.wait_for(starting, 30)
    assert "RuntimeError" in process.failed.result() and process.shard.stopped


async def test_a_stop_is_obeyed_while_the_journal_is_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is written then that would replace what has not been taken in yet."""
    steps: list[int] = []
    stop = asyncio.Event()

    def recovering(self: SlotLifecycle) -> Iterator[None]:
        for n in range(1000):
            steps.append(n)
            if n == 1:
                stop.set()
            yield

    monkeypatch.setattr(SlotLifecycle, "recovering", recovering)
    process = OwnerProcess(settings(tmp_path))
    assert not await asyncio.wait_for(_started(process, stop), 30)
    assert 2 <= len(steps) < 100 and not process.failed.done()
    assert await others() == []
    journal = Journal.open(OsFiles(), os.path.join(tmp_path, "journal"), JOURNAL)
    assert not journal.recovered.clean
    journal.close(clean=True)


async def test_what_an_owner_recovers_is_taken_in_piece_by_piece(tmp_path: Path) -> None:
    """One step of the loop for 100,000 queues was 23 s in which no probe and no SIGTERM was heard."""
    journal = Journal.open(OsFiles(), os.path.join(tmp_path, "journal"), JOURNAL)
    for n in range(40 * RECOVER_PIECE):
        journal.append(MetaRecord(7, "ids", {"next": n + 1}))
    batch = journal.seal()
    assert batch is not None
    journal.write(batch)
    journal.close(clean=True)
    process, stop = OwnerProcess(settings(tmp_path)), asyncio.Event()
    steps = 0
    told = Opening.second

    def second(self: Opening, share: float) -> None:
        nonlocal steps
        steps += 1
        told(self, share)
        if steps == 3:
            stop.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Opening, "second", second)
        assert not await asyncio.wait_for(_started(process, stop), 30)
    assert 3 <= steps < 20
    assert await others() == []
