"""The API put together: routes on the application of the admin port.

Rule: wiring only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.admin.desk.desk import Desk
from broker.config.settings import AdminSettings
from broker.seams.clock import Clock
from broker.seams.loop_watchdog import StepKindStats
from broker.seams.read_turns import UNHURRIED

from .access import Gate
from .actions import Acting
from .browsing import Browsing
from .calls import ApiOp, Call, Caller
from .cluster_map import ClusterMap
from .configuring import Configuring
from .explaining import Explaining
from .openapi import BODY, PREFIX, document
from .ports import (
    Answer,
    ClientsPort,
    ConfigPort,
    ElsewherePort,
    LoginsPort,
    Missing,
    Owners,
    ProcessPort,
    Question,
    TokensPort,
    TopologyPort,
    Work,
)
from .reading import Reading
from .streams.downloads import BodyDownloads, OpenBody
from .streams.events import Events
from .tokens import TokenHandlers

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web


class LocalOwners:
    """All slots are in this process (ports.Owners)."""

    def __init__(self, views: Callable[[Question], Work]) -> None:
        self._views = views
        self.caller: Caller | None = None

    async def ask(self, question: Question) -> tuple[list[Answer], list[Missing]]:
        assert self.caller is not None
        return [await self.caller.work(self._views(question), UNHURRIED in question)], []


class Api:
    """See the head of this file."""

    def __init__(
        self,
        settings: AdminSettings,
        owners: Owners,
        clients: ClientsPort,
        logins: LoginsPort,
        node: ProcessPort,
        steps: StepKindStats,
        delimiter: str,
        desk: Desk,
        clock: Clock,
        open_body: OpenBody,
        config: ConfigPort | None = None,
        topology: TopologyPort | None = None,
        tokens: TokensPort | None = None,
        elsewhere: ElsewherePort | None = None,
    ) -> None:
        """config: None: its settings cannot be changed here.    topology: None: it is no cluster.    elsewhere: None:
        no other process has connections of this broker."""
        self.desk = desk
        self.gate = Gate(settings, logins, tokens)
        self._caller = Caller(self.gate, steps)
        if isinstance(owners, LocalOwners):
            owners.caller = self._caller
        reading = Reading(owners, clients, node, self._caller, delimiter, elsewhere)
        self.cluster_map = ClusterMap(topology)
        browsing = Browsing(reading, desk, clock)
        self.downloads = BodyDownloads(self.gate, browsing, open_body)
        self._parts = (
            reading, browsing, Acting(reading, desk, clock),
            Configuring(config, self._caller), self.cluster_map, TokenHandlers(tokens),
            Explaining(logins, reading),
        )  # fmt: skip
        self._beside: list[Callable[[], None]] = []
        self.events = Events(self.gate, self.routes, self._caller.ask)

    def ends(self, stop: Callable[[], None]) -> None:
        """That ends with it."""
        self._beside.append(stop)

    def stop(self) -> None:
        """Ends what runs beside it; may be called twice."""
        for stop in self._beside:
            stop()

    def routes(self) -> list[ApiOp]:
        """All there are."""
        own = ApiOp("GET", "/openapi.json", "openapi", "This document.", self._document, "Document")
        return [own, *(route for part in self._parts for route in part.routes())]

    def add_to(self, app: web.Application) -> None:
        """Before it starts."""
        for route in self.routes():
            app.router.add_route(route.method, PREFIX + route.path, self._caller.serve(route))
        app.router.add_get(f"{PREFIX}/events", self._caller.stream(self.events.serve))
        app.router.add_get(f"{PREFIX}{BODY}", self._caller.stream(self.downloads.serve))
        app.on_shutdown.append(self.events.close)

    async def _document(self, _: Call) -> Any:
        return document(self.routes())
