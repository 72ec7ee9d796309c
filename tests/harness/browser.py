"""A page in headless Chromium, over its DevTools protocol.

Rule: one browser, one page; what it says of itself is asked with JavaScript. Nothing is fetched from elsewhere.
"""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse

from .waiting import PATIENCE_S, until

_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--disable-dev-shm-usage", "--remote-debugging-port=0",
)  # fmt: skip


class Page:
    """`errors`: what its console has said of errors."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._loaded = False
        self.errors: list[str] = []

    async def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            told = await self._socket.receive_json(timeout=PATIENCE_S)
            if told.get("id") == self._number:
                assert "error" not in told, told
                return told["result"]
            self._heard(told)

    def _heard(self, told: dict[str, Any]) -> None:
        method = told.get("method")
        self._loaded = self._loaded or method == "Page.loadEventFired"
        if method == "Runtime.exceptionThrown" or (
            method == "Log.entryAdded" and told["params"]["entry"]["source"] != "network"
        ):
            self.errors.append(str(told["params"]))

    async def value(self, script: str) -> Any:
        """Of an expression; a promise is waited for."""
        told = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, script: str) -> Any:
        """As soon as it is true."""
        told = f"new Promise(done => {{ const t = setInterval(() => {{ const v = ({script}); "
        return await self.value(told + "if (v) { clearInterval(t); done(v); } }, 20); })")

    async def open(self, url: str) -> None:
        """Returns when it is loaded."""
        await self.call("Page.navigate", url=url)
        while not self._loaded:
            self._heard(await self._socket.receive_json(timeout=PATIENCE_S))

    async def look_like(self, width: int, height: int, theme: str) -> None:
        """theme: light, dark."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        await self.call("Emulation.setEmulatedMedia", features=features)
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def screenshot(self, *, whole: bool = True) -> bytes:
        """As PNG. whole: also what stands below the window."""
        told = await self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(told["data"])


@asynccontextmanager
async def browser(folder: Path, url: str) -> AsyncIterator[Page]:
    """Skips the test where there is no Chromium."""
    with _started(folder / "profile"):
        port = await asyncio.to_thread(_port, folder / "profile" / "DevToolsActivePort")
        async with ClientSession(f"http://127.0.0.1:{port}") as http:
            async with http.get("/json/list") as answer:
                target = next(one for one in await answer.json() if one["type"] == "page")
            async with http.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=1 << 26) as socket:
                page = Page(socket)
                for domain in ("Page", "Runtime", "Log"):
                    await page.call(f"{domain}.enable")
                await page.open(url)
                yield page


@contextmanager
def _started(profile: Path) -> Iterator[None]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed: the page is not tested in a browser")
    null = subprocess.DEVNULL
    line = [program, *_QUIET, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(line, stdin=null, stdout=null, stderr=null) as process:
        try:
            yield
        finally:
            process.kill()


def _port(file: Path) -> int:
    until(lambda: file.exists() and file.read_text().count("\n") > 0, "Chromium does not start")
    return int(file.read_text().split("\n")[0])
