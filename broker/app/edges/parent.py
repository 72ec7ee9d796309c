"""The parent of edge processes, put together: it owns all slots, and has an edge of its own for bridges and operators.

Rule: only wiring, and the answers of all processes as one. Whatever one process does without edges it does with them,
or refuses by name (worker_settings.py).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from broker.admin.api.ports import Answer, Missing, Question
from broker.config.settings import Settings
from broker.core.client_id_holders import ALLOW
from broker.core.errors import RefusedError
from broker.core.ids import SLOTS
from broker.core.management import ManagementRequest
from broker.core.message import Blob
from broker.core.metrics import Histogram, Metric
from broker.edge.access.listener import Listeners
from broker.edge.destinations.directory import Directory, LocalClientIds, LocalNames
from broker.edge.edge import Edge
from broker.edge.quotas.meters import LocalTokens
from broker.edge.transport.channel import number_connections
from broker.journal.journal import Journal
from broker.link.owner_port import Rotten, broken_disk
from broker.link.owner_side.link_server import LinkServer
from broker.owner.bodies.bodies import FileBodyReader, FileBodyWriter
from broker.owner.bodies.held_bodies import HeldBodies
from broker.owner.commit.io_thread import Io
from broker.owner.shard.shard import Shard
from broker.seams.clock import Clock, Later, Schedule

from .registry import PARENT, IdRegistry, ProcessClientIds, Registry
from .supervisor import Supervisor
from .worker_settings import SOCKET, changed, on_one_machine, settings_for

EPOCH: Final = 1


class _Listener:
    """The shard's."""

    def __init__(self, server: LinkServer, stopped: Callable[[str], None]) -> None:
        self.on_effects = server.on_effects
        self.on_relief = server.on_relief
        self.on_stopped = stopped


class EdgeProcesses:
    """See the head of this file. directory, tokens: for the parent's own edge."""

    own_name = ""

    def __init__(
        self, count: int, memory: int, settings: Callable[[], Settings], clock: Clock, names: LocalNames,
        fail: Callable[[str], None],
    ) -> None:  # fmt: skip
        """memory: bytes for messages in each of them. settings: those in use now. fail: called when it cannot go on."""
        self.count = count
        self._memory = memory
        self._settings = settings
        self._clock = clock
        self._fail = fail
        number_connections(PARENT, count + 1)
        policy = settings().edge.client_id_in_use
        ids = IdRegistry(policy, self._lost_id)
        self._own_ids = ProcessClientIds(
            policy, lambda *claim: claim[2](ids.claim(PARENT, *claim[:2])), partial(ids.release, PARENT)
        )
        self.tokens = LocalTokens(clock)
        self.directory = Directory(self._own_ids if policy != ALLOW else LocalClientIds(policy), names)
        self._registry = Registry(ids, names, self.tokens)
        self.server: LinkServer
        self._edge: Edge
        self._crew: Supervisor
        self._gathered: list[Metric] = []

    def own(
        self, shard: Shard, journal: Journal, edge: Edge, schedule: Schedule, later: Later, bodies: Io, read: Io
    ) -> None:
        """What they ask, that shard does. edge: the parent's own."""
        blobs = journal.blobs

        def new_body(slot: int, on_drain: Callable[[], None]) -> FileBodyWriter:
            return FileBodyWriter(blobs, bodies, on_drain, broken_disk)

        def open_body(slot: int, blob: Blob, offset: int = 0) -> FileBodyReader:
            return FileBodyReader(blobs, bodies, blob, Rotten, offset)

        def published(slot: int, dedup: tuple[int, int]) -> bool:
            engine = shard.engines.get(slot)
            return engine is not None and engine.duplicate(dedup)

        settings = on_one_machine(self._settings())
        self.server = LinkServer(
            settings, shard.submit, self._clock, schedule, later, new_body, open_body,
            HeldBodies(shard.engines, journal, read).find, published, flat=True,
        )  # fmt: skip
        self._edge = edge
        self.server.share(edge)
        shard.listen(_Listener(self.server, self._stopped))
        for slot in range(SLOTS):
            self.server.serve(slot, EPOCH)
        path = os.path.abspath(os.path.join(settings.data, SOCKET))
        self._crew = Supervisor(
            self.server, self._registry, self._clock, path, self._settings_of, self._managed, self._fail
        )

    async def start(self, listeners: Listeners) -> None:
        """Returns when all serve. Raises ConfigError."""
        await self._crew.start(await listeners.reserve(self.count))

    async def stop(self) -> None:
        """Each finishes what is in flight."""
        await self._crew.stop(self._settings().edge.drain_timeout_s)
        self.server.close()

    async def change(self, before: Settings, after: Settings) -> None:
        """Returns when all use what is other now."""
        await self._crew.change(changed(before, after))

    async def heed_users(self) -> None:
        """The users file has changed: returns when all know it."""
        await self._crew.heed_users()

    # ── quotas of what owners keep ─────────────────────────────────────────────────────────────────

    async def counted_users(self) -> list[str]:
        """Of all processes (admin/management/kept_quotas.py)."""
        return [user for users in (await self._crew.ask_all("counted")).values() for user in users]

    def keeps(self, kept: Mapping[str, Sequence[int]]) -> None:
        """What is kept now, for all processes."""
        self._crew.tell_all("kept", dict(kept))

    # ── the API ────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, question: Question) -> tuple[list[Answer], list[Missing]]:
        """Of connections: admin/api/ports.ElsewherePort."""
        answers = await self._crew.ask_all("clients", dict(question))
        silent = [
            Missing(f"edge-{process}", "it has not answered")
            for process in range(1, self.count + 1)
            if process not in answers
        ]
        return list(answers.values()), silent

    def answered_by(self, _view: object) -> None:
        """Nobody else asks the parent."""

    # ── told to people ─────────────────────────────────────────────────────────────────────────────

    def details(self) -> dict[str, str]:
        """For /readyz."""
        silent = "".join(
            f"; edge process {number} has not answered for {seconds:g} s"
            for number, seconds in self._crew.slow().items()
        )
        return {"edge processes": f"{self._crew.serving()} of {self.count}{silent}"}

    @property
    def serving(self) -> bool:
        """Is there one that clients can come to."""
        return self._crew.serving() > 0

    async def gather(self) -> None:
        """Asks all of them, for metrics()."""
        answers = await self._crew.ask_all("metrics")
        self._gathered = [
            Metric(
                name, kind, help, [({**labels, "process": f"edge-{process}"}, _value(value)) for labels, value in rows]
            )
            for process, families in sorted(answers.items())
            for name, kind, help, rows in families
        ]

    def metrics(self) -> Iterable[Metric]:
        yield Metric("stomp_edge_processes", "gauge", "Edge processes of this broker that serve clients.",
                     [({}, float(self._crew.serving()))])  # fmt: skip
        yield Metric("stomp_edge_process_restarts_total", "counter",
                     "Edge processes that ended, or stood still and were ended, and were started anew.",
                     [({}, float(self._crew.restarts))])  # fmt: skip
        slow = self._crew.slow()
        yield Metric("stomp_edge_process_silence_seconds", "gauge",
                     "How long an edge process has not answered; 0: it does. After 10 s it is replaced.",
                     [({"process": f"edge-{n}"}, slow.get(n, 0.0)) for n in range(1, self.count + 1)])  # fmt: skip
        yield from self.server.metrics()
        yield from self._gathered

    # ── inside ─────────────────────────────────────────────────────────────────────────────────────

    def _stopped(self, why: str) -> None:
        """The owner has: clients hear it at once."""
        self._crew.stopped(why)
        self.server.on_stopped(why)

    async def _managed(self, told: Any) -> None:
        """Messages that ask for management, as an edge process has got them. Raises RefusedError."""
        done: asyncio.Future[RefusedError | None] = asyncio.get_running_loop().create_future()
        assert self._edge.management is not None
        self._edge.management(msgspec.convert(told, list[ManagementRequest]), done.set_result)
        if (error := await done) is not None:
            raise error

    def _settings_of(self, number: int) -> Settings:
        return settings_for(self._settings(), number, self.count, self._memory)

    def _lost_id(self, process: int, client_id: str, connection: int) -> None:
        if process == PARENT:
            self._own_ids.lost(client_id, connection)
        else:
            self._crew.lost_id(process, client_id, connection)


def _value(value: Any) -> Any:
    """A histogram comes as a list, with examples by bucket."""
    return msgspec.convert(value, Histogram) if isinstance(value, list) else value
