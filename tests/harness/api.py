"""A standalone broker in this loop, and its API as a client sees it.

Rule: what an operator could send; answers are checked against the OpenAPI document that the broker serves.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import ClientSession

from broker.app.process.process import within
from broker.app.standalone import Standalone
from broker.config.load import SettingsSource
from broker.config.settings import AdminSettings, EdgeSettings, EngineSettings, JournalSettings, Settings, WireSettings
from broker.seams.files import open_file_limit

from .schemas import Checked


class Api:
    """`port`: STOMP."""

    def __init__(self, broker: Standalone, http: ClientSession, checked: Checked) -> None:
        self.broker = broker
        self.http = http
        self.checked = checked

    @property
    def url(self) -> str:
        return f"stomp://127.0.0.1:{self.broker.listeners.ports['tcp']}"

    async def raw(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """Status and document."""
        async with self.http.request(method, f"/api/v1{path}", **more) as answer:
            body = await answer.json(content_type=None)
            self.checked.answer(method, path, answer.status, answer.content_type, body)
            return answer.status, body

    async def get(self, path: str, **query: Any) -> Any:
        status, body = await self.raw("GET", path, params={name: str(value) for name, value in query.items()})
        assert status == 200, body
        return body

    async def call(self, method: str, path: str, status: int = 200, **body: Any) -> Any:
        found, told = await self.raw(method, path, json=body)
        assert found == status, told
        return told


def settings_of(folder: Path, **parts: Any) -> Settings:
    """Small files, free ports."""
    edge = {"host": "127.0.0.1", "port": 0, "ws_port": -1, "drain_timeout_s": 2.0, **parts.get("edge", {})}
    return Settings(
        data=str(folder),
        edge=EdgeSettings(**edge),
        engine=EngineSettings(**parts.get("engine", {})),
        wire=WireSettings(**parts.get("wire", {})),
        journal=JournalSettings(segment_bytes=1024 * 1024, min_free_bytes=0),
        admin=AdminSettings(port=0, **parts.get("admin", {})),
        acceptors=parts.get("acceptors", {}),
    )


def login(name: str, passcode: str) -> dict[str, str]:
    """Headers of who logs in."""
    return {"Authorization": "Basic " + b64encode(f"{name}:{passcode}".encode()).decode()}


@asynccontextmanager
async def running(folder: Path, source: SettingsSource | None = None, **parts: Any) -> AsyncIterator[Api]:
    """A broker that lives as long as the block. source: its settings, in place of `parts`."""
    broker = Standalone(
        within(open_file_limit(), source.read()) if source is not None else settings_of(folder, **parts), source
    )
    await broker.start()
    try:
        await broker.start_admin()
        async with ClientSession(f"http://127.0.0.1:{broker.admin.port}") as http:
            async with http.get("/api/v1/openapi.json", headers=parts.get("login", {})) as answer:
                document = await answer.json()
            yield Api(broker, http, Checked(document))
    finally:
        await broker.stop()
