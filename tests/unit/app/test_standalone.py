"""Life cycle of a standalone broker as a library: whatever goes wrong, the data folder is left in order."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.app.process import within
from broker.app.standalone import Standalone
from broker.config.settings import AdminSettings, EdgeSettings, JournalSettings, Settings
from broker.core.errors import ConfigError
from broker.journal.journal import Journal
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


async def test_an_admin_port_in_use_is_a_config_error_and_the_broker_still_stops_cleanly(
    tmp_path: Path, taken: int
) -> None:
    broker = Standalone(settings(tmp_path, admin_port=taken))
    await broker.start()
    with pytest.raises(ConfigError, match="admin port"):
        await broker.start_admin()
    await broker.stop()
    assert closed_cleanly(tmp_path)


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
