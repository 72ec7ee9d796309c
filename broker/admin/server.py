"""The admin port: /metrics, /healthz, /readyz, /api/depth and its like, an index of them, and the API.

Rule: reads, never steers: what operators change goes by the API (api/server.py). aiohttp and prometheus_client are
imported when it starts, in a thread, because that takes longer than everything else at start-up and STOMP clients need
not wait for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from broker import __version__
from broker.config.settings import AdminSettings
from broker.core.errors import ConfigError
from broker.core.ids import SLOTS
from broker.core.metrics import MetricSource
from broker.core.strict_numbers import natural
from broker.seams.clock import SystemClock
from broker.seams.loop_watchdog import Steps, portion

from . import console
from .api.access import peer_of
from .api.calls import MAX_BODY
from .scrape_token import REFUSED, ScrapeToken
from .startup_server import EarlyServer, cannot_listen
from .tls import AdminCertificate

if TYPE_CHECKING:
    from aiohttp import web

    from .api.server import Api
    from .exposition import Exposition

_log = logging.getLogger("stampede.admin")

T = TypeVar("T")

Ready = Callable[[], tuple[bool, dict[str, Any]]]
"""(ready for clients, details for people); the details must survive json.dumps."""

Depths = Callable[[str], Iterator[dict[str, Any] | None]]
"""address or pattern → one entry per queue (engine/state/depth.py), None where it has looked in vain."""
Busy = Callable[[], Iterator[dict[str, Any] | None]]
"""One entry per address that the settings name (engine/state/depth.py), None where it has looked in vain."""
LINES = 200
"""Of an answer that are written, or put together, at once."""

Check = Callable[[int], Awaitable[dict[str, Any] | None]]
"""slot → how its replicas compare (owner/replication/replica_check.py); None: this process does not lead it."""

Slots = Callable[[], dict[str, Any]]
"""What an owner says of the slots that it shall lead (owner/slots/slot_status.py)."""

Answering = Callable[["web.Request"], Awaitable["web.StreamResponse"]]

Survey = Callable[[], Iterator[None]]
"""Work of some milliseconds, in steps that leave the loop to others in between."""

_INDEX = f"""Stampede {__version__}, admin port

/metrics   numbers for Prometheus
/healthz   200 while the process is alive (also while it starts or recovers)
/readyz    200 when it takes clients, else 503 and the reason
/api/depth?match=ADDRESS   what waits in the queues of an address or pattern, here
/api/busy   of each address that the settings name: what waits, consumes, came; what slots weigh; in lines
/api/slots   of the slots that this owner shall lead: how many it serves, and why not all
/api/check?slot=NUMBER     do all replicas of a slot that is led here have the same
/console                   look and act in a browser, where this process has the API
/api/v1/openapi.json       the API for operators
"""


class AdminServer:
    """HTTP on a port of its own. `port`: the port bound, -1 while not listening (or turned off)."""

    def __init__(
        self,
        settings: AdminSettings,
        sources: Sequence[MetricSource],
        ready: Ready,
        depths: Depths | None = None,
        surveys: Sequence[Survey] = (),
        check: Check | None = None,
        slots: Slots | None = None,
        busy: Busy | None = None,
    ) -> None:
        """`depths`, `busy`: None = nothing is queued in this process. `surveys`: what sources do bit by bit before each
        scrape. `check`, `slots`: None = this process leads no slots."""
        self._settings = settings
        steps = self.steps = Steps(SystemClock())
        self._asks = steps.kind("scrape")
        self._sources = [*sources, steps]
        self._scraping = asyncio.Lock()
        """One at a time: however many ask, the loop's others wait for one."""
        self._ready = ready
        self._depths = depths
        self._surveys = surveys
        self._asking_first: list[Callable[[], Awaitable[None]]] = []
        self._slot_check = check
        self._slots = slots
        self._busy_addresses = busy
        self._exposition: Exposition | None = None
        self._runner: web.AppRunner | None = None
        self.port = -1
        self._api: Api | None = None
        self._early: EarlyServer | None = None
        self.tls_port = -1
        self._certificate: AdminCertificate | None = None
        self._token: ScrapeToken | None = None

    def add(self, source: MetricSource) -> None:
        """One more, before it starts."""
        self._sources.append(source)

    def ask_first(self, asking: Callable[[], Awaitable[None]]) -> None:
        """Other processes are asked for what a source tells, before each scrape. Before it starts."""
        self._asking_first.append(asking)

    def follow(self, early: EarlyServer | None) -> None:
        """What has answered until now, if anything: its socket is taken over. Before start()."""
        self._early = early

    def offer(self, api: Api) -> None:
        """The API for operators is answered here too. Before start()."""
        self._api = api

    async def start(self) -> None:
        """Binds the port; does nothing when it is -1. Raises ConfigError when the address cannot be bound."""
        if self._settings.port < 0:
            return
        if self._settings.tls_port >= 0:
            self._certificate = AdminCertificate(self._settings)
            self._sources.append(self._certificate)
        self._token = ScrapeToken(self._settings.token_file)
        await asyncio.to_thread(load_libraries)
        from aiohttp import web

        from .exposition import Exposition

        self._exposition = Exposition(self._sources)
        app = web.Application(client_max_size=1024 if self._api is None else MAX_BODY)
        app.add_routes(
            [
                web.get("/", self._index),
                web.get("/metrics", self._numbers(self._metrics)),
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
            ]
        )
        if self._depths is not None:
            app.add_routes([web.get("/api/depth", self._numbers(self._depth))])
        if self._busy_addresses is not None:
            app.add_routes([web.get("/api/busy", self._numbers(self._busy))])
        if self._slot_check is not None:
            app.add_routes([web.get("/api/check", self._numbers(self._check))])
        if self._slots is not None:
            app.add_routes([web.get("/api/slots", self._numbers(self._standing))])
        if self._api is not None:
            self._api.add_to(app)
            console.add_to(app)
        log = logging.getLogger("stampede.admin.http")
        log.addFilter(_no_fault_of_ours)
        runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=1.0, logger=log, handler_cancellation=True
        )
        await runner.setup()
        host, port = self._settings.host, self._settings.port
        try:
            listening = None if self._early is None else await self._early.hand_over()
            if listening is not None:
                await web.SockSite(runner, listening, backlog=64).start()
            else:
                await web.TCPSite(runner, host or None, port, backlog=64).start()
            self.port = runner.addresses[0][1]
            if self._certificate is not None:
                await self._listen_with_tls(runner, self._certificate)
        except OSError as error:
            await runner.cleanup()
            self.port = -1
            raise cannot_listen(self._settings, error) from None
        except ConfigError:
            await runner.cleanup()
            self.port = -1
            raise
        self._runner = runner
        self._token.follow(asyncio.get_running_loop())

    def _numbers(self, answer: Answering) -> Answering:
        """For machines that may read them (scrape_token.py)."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            assert self._token is not None
            if self._token.admits(peer_of(request), request.headers.get("Authorization", "")):
                return await answer(request)
            refused = _answer(401, REFUSED, "text/plain; charset=utf-8")
            refused.headers["WWW-Authenticate"] = 'Bearer realm="stampede"'
            return refused

        return guarded

    async def _listen_with_tls(self, runner: web.AppRunner, certificate: AdminCertificate) -> None:
        from aiohttp import web

        host, port = self._settings.tls_host, self._settings.tls_port
        try:
            await web.TCPSite(runner, host or None, port, backlog=64, ssl_context=certificate.context).start()
        except OSError as error:
            raise ConfigError(
                f"The admin port cannot listen with TLS on {host or '*'}:{port}: {error.strerror or error}. "
                "Change admin.tls_host or admin.tls_port (-1 turns it off)."
            ) from None
        self.tls_port = runner.addresses[-1][1]
        certificate.follow(asyncio.get_running_loop())

    async def stop(self) -> None:
        """Closes the port; open scrapes get a second to finish. May be called twice."""
        runner, self._runner, self.port = self._runner, None, -1
        if self._api is not None:
            self._api.stop()
        for followed in (self._certificate, self._token):
            if followed is not None:
                followed.close()
        if runner is not None:
            await runner.cleanup()

    async def _index(self, _request: web.Request) -> web.Response:
        return _answer(200, _INDEX.encode(), "text/plain; charset=utf-8")

    async def _metrics(self, request: web.Request) -> web.Response:
        assert self._exposition is not None  # requests come after start()
        accept = request.headers.get("Accept", "")
        async with self._scraping:
            for asking in self._asking_first:
                await asking()
            for survey in self._surveys:
                async for _ in self._in_portions(survey(), "/metrics"):
                    pass
            async for _ in self._in_portions(self._exposition.gather(), "/metrics"):
                pass
            page: list[tuple[bytes, str]] = []
            process = await asyncio.to_thread(self._exposition.process)
            rendering = _collected(self._exposition.rendering(accept, process), page.append)
            async for _ in self._in_portions(rendering, "/metrics"):
                pass
        return _answer(200, *page[0])

    async def _in_portions(self, work: Iterator[object], asked: str) -> AsyncIterator[None]:
        """Turns of the loop between portions of it, by the clock: a piece takes some µs, or a hundred where no cache
        holds what it looks at. asked: for what, as the log names it."""
        asks, now = self._asks, self._asks.now
        since, more = now(), True
        while more:
            began = asks.begin()
            try:
                portion(work, now, since)
            except StopIteration:
                more = False
            if asks.took(began):
                asks.tell(f"{asked} of the admin port")
            await asyncio.sleep(0)
            yield

    async def _healthz(self, _request: web.Request) -> web.Response:
        return _answer(200, b"alive\n", "text/plain; charset=utf-8")

    async def _readyz(self, _request: web.Request) -> web.Response:
        ready, details = self._ready()
        return _json(200 if ready else 503, {"ready": ready, **details})

    async def _depth(self, request: web.Request) -> web.Response:
        assert self._depths is not None
        match = request.query.get("match", "")
        if not match or len(match) > 1024:
            return _answer(400, b"add ?match= with the name of an address, or a pattern\n", "text/plain; charset=utf-8")
        # A row is written when it is found: in a thread json would hold the loop for as long as all of them take.
        rows: list[bytes] = []
        lots: list[bytes] = []
        found = _collected(self._depths(match), lambda entry: rows.append(_text(entry)[:-1]))
        async for _ in self._in_portions(found, "/api/depth"):
            if len(rows) >= LINES:
                lots.append(b", ".join(rows))
                rows.clear()
        body = b", ".join([*lots, *([b", ".join(rows)] if rows else [])])
        return _answer(200, b'{"queues": [%b]}\n' % body, "application/json")

    async def _busy(self, request: web.Request) -> web.StreamResponse:
        """As it is read, in lines, so that nobody holds the whole of it."""
        from aiohttp import web

        assert self._busy_addresses is not None
        answer = web.StreamResponse(headers=_HEADERS | {"Content-Type": "application/x-ndjson"})
        await answer.prepare(request)
        lines: list[bytes] = []
        found = _collected(self._busy_addresses(), lambda entry: lines.append(_text(entry)))
        async for _ in self._in_portions(found, "/api/busy"):
            if len(lines) >= LINES:
                await answer.write(b"".join(lines))
                lines.clear()
        await answer.write(b"".join(lines) + _text({"end": True}))
        await answer.write_eof()
        return answer

    async def _standing(self, _request: web.Request) -> web.Response:
        assert self._slots is not None
        return _json(200, self._slots())

    async def _check(self, request: web.Request) -> web.Response:
        assert self._slot_check is not None
        slot = natural(request.query.get("slot", ""), 3)
        if slot is None or slot >= SLOTS:
            return _answer(400, b"add ?slot= with a number from 0 to 255\n", "text/plain; charset=utf-8")
        found = await self._slot_check(slot)
        return _json(200, found) if found is not None else _json(404, {"error": f"slot {slot} is not led here"})


def _no_fault_of_ours(record: logging.LogRecord) -> bool:
    """aiohttp logs a stack trace for bytes that are not HTTP, which anybody may send: they get one line."""
    from aiohttp.http_exceptions import HttpProcessingError

    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, HttpProcessingError):
        return True
    _log.info("%s: %s", record.getMessage(), " ".join(error.message.split())[:200])
    return False


def load_libraries() -> None:
    """What the admin port needs, some tenths of a second of CPU: for processes that may take their time before others
    wait for them."""
    import aiohttp.web  # noqa: F401

    from . import exposition  # noqa: F401


_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def _collected(entries: Iterator[T | None], collect: Callable[[T], object]) -> Iterator[None]:
    """What is not None goes to `collect`; a step for each, None too."""
    for entry in entries:
        if entry is not None:
            collect(entry)
        yield


def _json(status: int, value: dict[str, Any]) -> web.Response:
    return _answer(status, _text(value), "application/json")


def _text(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()


def _answer(status: int, body: bytes, content_type: str) -> web.Response:
    from aiohttp import web

    return web.Response(status=status, body=body, headers={"Content-Type": content_type, **_HEADERS})
