"""Life cycle of a standalone broker as a library: whatever goes wrong, the data folder is left in order."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.app.commands.admin_client import STARTING, AdminApi
from broker.app.process.process import within
from broker.app.standalone import Standalone
from broker.config.settings import AdminSettings, EdgeSettings, JournalSettings, Settings
from broker.core.errors import ConfigError
from broker.journal.journal import Journal
from broker.owner.shard.shard import Shard
from broker.seams.files import OsFiles


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else listens on."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def settings(folder: Path, port: int = 0, admin_port: int = -1, drain_timeout_s: float = 5.0) -> Settings:
    return Settings(
        data=str(folder),
        edge=EdgeSettings(host="127.0.0.1", port=port, ws_port=-1, drain_timeout_s=drain_timeout_s),
        journal=JournalSettings(segment_bytes=256 * 1024, min_free_bytes=0),
        admin=AdminSettings(port=admin_port),
    )


def closed_cleanly(folder: Path) -> bool:
    """Also proves that nobody holds the lock of the folder any more."""
    journal = Journal.open(OsFiles(), os.path.join(folder, "journal"), JournalSettings(segment_bytes=256 * 1024))
    clean = journal.recovered.clean
    journal.close(clean=clean)
    return clean


async def test_a_port_in_use_leaves_a_journal_that_was_closed_cleanly(tmp_path: Path, taken: int) -> None:
    with pytest.raises(ConfigError, match="in use"):
        await Standalone(settings(tmp_path, port=taken)).start()
    assert closed_cleanly(tmp_path)


async def test_a_broken_users_file_is_refused_before_the_journal_is_touched(tmp_path: Path) -> None:
    (tmp_path / "users.toml").write_text("not toml")
    with pytest.raises(ConfigError, match=r"users\.toml"):
        await Standalone(settings(tmp_path)).start()
    assert not (tmp_path / "journal").exists()


async def test_an_admin_port_in_use_is_a_config_error_before_the_journal_is_touched(tmp_path: Path, taken: int) -> None:
    with pytest.raises(ConfigError, match="admin port"):
        await Standalone(settings(tmp_path, admin_port=taken)).start()
    assert not (tmp_path / "journal").exists()


async def get(port: int, path: str) -> tuple[int, str]:
    """(status, body)"""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]


class Slow:
    """Journal.open that waits half-way until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.may = threading.Event(), threading.Event()
        self._open = Journal.open
        monkeypatch.setattr(Journal, "open", self)

    def __call__(self, *args: Any, watch: Callable[[float], None], **more: Any) -> Journal:
        def slowly(share: float) -> None:
            watch(share)
            self.reached.set()
            self.may.wait(30)
            watch(0.5)

        journal = self._open(*args, **more)
        try:
            slowly(0.5)
        except BaseException:
            journal.close(clean=True)
            raise
        return journal


async def test_the_admin_port_answers_while_the_journal_is_read_and_goes_on_without_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(monkeypatch)
    broker = Standalone(settings(tmp_path, admin_port=0))
    starting = asyncio.ensure_future(broker.start())
    await asyncio.to_thread(slow.reached.wait, 30)
    port = broker._early.port
    assert await get(port, "/healthz") == (200, "alive\n")
    status, text = await get(port, "/readyz")
    assert status == 503 and json.loads(text) == {"ready": False, "owner": "recovering, 25 %"}
    assert (await get(port, "/metrics"))[0] == 503
    slow.may.set()
    await starting
    assert (await get(port, "/healthz"))[0] == (await get(port, "/readyz"))[0] == 200
    await broker.start_admin()
    assert broker.admin.port == port
    status, text = await get(port, "/readyz")
    assert status == 200 and json.loads(text)["ready"]
    await broker.stop()


async def test_the_api_says_that_it_starts_and_commands_ask_it_again(tmp_path: Path) -> None:
    broker = Standalone(settings(tmp_path, admin_port=0))
    await broker.start()
    port = broker._early.port
    status, text = await get(port, "/api/v1/config")
    assert status == 503 and json.loads(text)["type"] == STARTING
    reader, late = await asyncio.open_connection("127.0.0.1", port)
    asking = asyncio.create_task(asyncio.to_thread(AdminApi(f"http://127.0.0.1:{port}", None).get, "/overview"))
    await asyncio.sleep(0.5)
    starting = asyncio.create_task(broker.start_admin())
    async with asyncio.timeout(30):
        while broker._early._server is not None:  # noqa: ASYNC110  # the real port is about to be made
            await asyncio.sleep(0.001)
    late.write(b"GET /api/v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 503 ")
    late.close()
    await starting
    assert (await asking)["role"] == "standalone"
    await broker.stop()


async def test_a_stop_is_obeyed_while_the_journal_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    starting = asyncio.ensure_future(Standalone(settings(tmp_path, admin_port=0)).start())
    await asyncio.to_thread(slow.reached.wait, 30)
    starting.cancel()
    asyncio.get_running_loop().call_later(0.05, slow.may.set)
    with pytest.raises(asyncio.CancelledError):
        await starting
    monkeypatch.undo()
    assert closed_cleanly(tmp_path)


async def test_a_stop_is_obeyed_while_engines_are_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    begun = asyncio.Event()

    def recovering(self: Shard) -> Iterator[None]:
        for n in range(1000):
            steps.append(n)
            begun.set()
            yield

    monkeypatch.setattr(Shard, "recovering", recovering)
    starting = asyncio.ensure_future(Standalone(settings(tmp_path, admin_port=0)).start())
    await begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert len(steps) < 100
    assert not closed_cleanly(tmp_path)


async def test_a_stopped_owner_is_idle(tmp_path: Path) -> None:
    """Its shutdown does not wait for the drain timeout."""
    broker = Standalone(settings(tmp_path, drain_timeout_s=30.0))
    await broker.start()
    broker.shard._stop("a test says so")
    await asyncio.wait_for(broker.stop(), 15)
    assert not closed_cleanly(tmp_path)


@pytest.mark.parametrize("files, asked, given", [(100_000, 20_000, 20_000), (4096, 20_000, 3584), (600, 400, 300)])
def test_connections_leave_open_files_to_the_journal(files: int, asked: int, given: int) -> None:
    asked_for = Settings(edge=EdgeSettings(max_connections=asked, host="h"))
    assert within(files, asked_for).edge == EdgeSettings(max_connections=given, host="h")
