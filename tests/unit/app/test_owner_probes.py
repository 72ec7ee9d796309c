"""An owner of a cluster answers probes while it recovers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.app.owner import OwnerProcess
from broker.app.process.process import _started
from broker.config.settings import AdminSettings
from broker.journal.journal import Journal
from tests.harness.waiting import eventually
from tests.unit.app.test_owner import nobody_holds, settings


async def asked(port: int, path: str) -> tuple[int, str]:
    """(status, body)"""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]


async def test_probes_are_answered_while_the_journal_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were refused, and a liveness probe killed the owner that recovered."""
    reached, may, opened = threading.Event(), threading.Event(), Journal.open

    def slowly(*args: Any, watch: Callable[[float], None], **more: Any) -> Journal:
        watch(0.5)
        reached.set()
        may.wait(30)
        return opened(*args, watch=watch, **more)

    monkeypatch.setattr(Journal, "open", slowly)
    process = OwnerProcess(replace(settings(tmp_path), admin=AdminSettings(host="127.0.0.1", port=0)))
    stop = asyncio.Event()
    starting = asyncio.ensure_future(_started(process, stop))
    try:
        await eventually(reached.is_set)
        port = process._early.port
        assert await asked(port, "/healthz") == (200, "alive\n")
        status, text = await asked(port, "/readyz")
        assert status == 503 and "recovering, 25 %" in text
    finally:
        may.set()
        stop.set()
    assert not await asyncio.wait_for(starting, 30)
    monkeypatch.undo()
    assert nobody_holds(tmp_path)
