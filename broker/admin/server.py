"""The admin port: /metrics, /healthz, /readyz and an index of them.

Rule: reads, never steers. aiohttp and prometheus_client are imported when it starts, in a thread, because that
takes longer than everything else at start-up and STOMP clients need not wait for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from broker import __version__
from broker.config.settings import AdminSettings
from broker.core.errors import ConfigError
from broker.core.metrics import MetricSource

if TYPE_CHECKING:
    from aiohttp import web

    from .exposition import Exposition

Ready = Callable[[], tuple[bool, dict[str, Any]]]
"""(ready for clients, details for people); the details must survive json.dumps."""

_INDEX = f"""Stampede {__version__}, admin port

/metrics   numbers for Prometheus
/healthz   200 while the process is alive (also while it starts or recovers)
/readyz    200 when it takes clients, else 503 and the reason
"""


class AdminServer:
    """HTTP on a port of its own. `port`: the port bound, -1 while not listening (or turned off)."""

    def __init__(self, settings: AdminSettings, sources: Sequence[MetricSource], ready: Ready) -> None:
        self._settings = settings
        self._sources = sources
        self._ready = ready
        self._exposition: Exposition | None = None
        self._runner: web.AppRunner | None = None
        self.port = -1

    async def start(self) -> None:
        """Binds the port; does nothing when it is -1. Raises ConfigError when the address cannot be bound."""
        if self._settings.port < 0:
            return
        await asyncio.to_thread(_import)
        from aiohttp import web

        from .exposition import Exposition

        self._exposition = Exposition(self._sources)
        app = web.Application(client_max_size=1024)
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/metrics", self._metrics),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
            ]
        )
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        host, port = self._settings.host, self._settings.port
        try:
            await web.TCPSite(runner, host or None, port, backlog=64).start()
        except OSError as error:
            await runner.cleanup()
            raise ConfigError(
                f"The admin port cannot listen on {host or '*'}:{port}: {error.strerror or error}. "
                "Change admin.host or admin.port (-1 turns it off)."
            ) from None
        self._runner = runner
        self.port = runner.addresses[0][1]

    async def stop(self) -> None:
        """Closes the port; open scrapes get a second to finish. May be called twice."""
        runner, self._runner, self.port = self._runner, None, -1
        if runner is not None:
            await runner.cleanup()

    async def _index(self, _request: web.Request) -> web.Response:
        return _answer(200, _INDEX.encode(), "text/plain; charset=utf-8")

    async def _metrics(self, request: web.Request) -> web.Response:
        assert self._exposition is not None  # requests come after start()
        body, content_type = self._exposition.render(request.headers.get("Accept", ""))
        return _answer(200, body, content_type)

    async def _healthz(self, _request: web.Request) -> web.Response:
        return _answer(200, b"alive\n", "text/plain; charset=utf-8")

    async def _readyz(self, _request: web.Request) -> web.Response:
        ready, details = self._ready()
        body = json.dumps({"ready": ready, **details}, ensure_ascii=False) + "\n"
        return _answer(200 if ready else 503, body.encode(), "application/json")


def _import() -> None:
    import aiohttp.web  # noqa: F401

    from . import exposition  # noqa: F401


def _answer(status: int, body: bytes, content_type: str) -> web.Response:
    from aiohttp import web

    headers = {"Content-Type": content_type, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return web.Response(status=status, body=body, headers=headers)
