"""One edge process of a broker: speaks STOMP on sockets that the parent has bound, and asks the parent for all else.

Rule: only wiring and life cycle; keeps nothing that has to last. SIGTERM: as an edge of a cluster. When the parent has
ended there is nobody left who could answer a client: this process ends at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from broker.config.changes import with_tables
from broker.config.settings import Settings
from broker.core.ids import SLOTS
from broker.core.memory import NEVER, Memory
from broker.core.metrics import Metric
from broker.edge.access.auth import FileAuthenticator, make_authenticator
from broker.edge.access.external_logins import ExternalLogins
from broker.edge.access.listener import Listeners, listen_host
from broker.edge.connection_views import Clients
from broker.edge.destinations.directory import AskedNames, Directory, LocalClientIds
from broker.edge.edge import Edge
from broker.edge.transport.channel import number_connections
from broker.edge.transport.timers import TimerWheel
from broker.link.bodies.body_spool import BodySpool
from broker.link.edge_side.cluster_port import ClusterPort
from broker.owner.commit.io_thread import IoThread
from broker.rpc.framed import FramedDialer
from broker.seams.clock import SystemClock
from broker.seams.entropy import number, token
from broker.seams.files import temporary_file
from broker.seams.loop_watchdog import Steps
from broker.seams.memory import growth
from broker.seams.read_turns import UNHURRIED, in_portions
from broker.seams.stream import Ended

from ..process import process
from ..process.graceful_stop import drained
from ..process.logs import set_up
from ..process.memory_bounds import fitted
from .control_stream import TALK_SERVICE, ControlStream, Parted
from .parent_services import ParentNames, ParentTokens, client_ids, manage
from .registry import ProcessClientIds
from .worker_settings import Entry, WorkerStart, with_changed

log = logging.getLogger("stampede.edge")

EPOCH: Final = 1
"""The parent leads all slots as long as it lives, and this process does not outlive it."""
OWNER: Final = "owner"
LAST_WORDS_S: Final = 1.0


class EdgeWorker:
    """See the head of this file."""

    def __init__(self, start: WorkerStart, last_words: Callable[[], None]) -> None:
        """last_words: writes what is still to be logged."""
        self._last_words = last_words
        self._start = start
        limit = start.settings.memory.limit_bytes
        self.settings: Settings = fitted(start.settings, limit if limit > 0 else NEVER)
        self.loop = asyncio.get_running_loop()
        self.clock = SystemClock()
        self.failed: asyncio.Future[str] = self.loop.create_future()
        self.memory = Memory(limit, growth()) if limit > 0 else Memory()
        self._talk = ControlStream(self._asked, self._parted)
        self._dialer = FramedDialer(self.loop)
        self._io = IoThread(self.loop, "bodies")
        self._stopping = False
        self._entries: list[Entry] = []
        """Of settings, that are others as soon as all are here."""
        self.edge: Edge | None = None
        self._clients: Clients | None = None
        self._ids: ProcessClientIds | None = None

    async def start(self) -> None:
        """Asks the parent, and listens. Raises BrokerError."""
        start, settings = self._start, self.settings
        # Of all processes together: an operator names a connection by its number.
        number_connections(start.number, start.count + 1)
        self._talk.begin(self._dialer.dial(start.path, TALK_SERVICE, self._talk))
        try:
            tables = await self._talk.ask("hello", start.version)
        except Parted:
            self._end()
        if tables is not None:
            settings = self.settings = with_tables(settings, tables)
        self._make(settings)
        assert self.edge is not None
        for slot in range(SLOTS):
            self.port.route(slot, EPOCH, OWNER, start.path)
        await self.listeners.start()
        self._talk.tell("serving", None)

    def _make(self, settings: Settings) -> None:
        start = self._start
        policy = settings.edge.client_id_in_use
        self._ids = client_ids(self._talk, policy)
        self._asked_names = AskedNames(ParentNames(self._talk))
        directory = Directory(self._ids or LocalClientIds(policy), self._asked_names)
        self.beats = TimerWheel(self.loop)
        most = settings.cluster.kept_body_bytes
        keeper = BodySpool(self._io, partial(temporary_file, settings.data), most) if most else None
        self.port = ClusterPort(
            settings, self._dialer, self.clock, self.loop.call_soon, self.loop.call_later, settings.cluster.id,
            start.boot, number(63), keeper=keeper, flat=True,
        )  # fmt: skip
        self.auth: FileAuthenticator = make_authenticator(settings)
        edge = self.edge = Edge(
            settings, self.port, self.clock, self.beats, self.auth, token(4), directory, ParentTokens(self._talk),
            self.memory,
        )  # fmt: skip
        self._outside = ExternalLogins(settings, self.clock, edge.reconsider, edge.marks)
        edge.known_outside(self._outside)
        edge.quotas.shared_by(start.count, start.number - 1)
        edge.managed_by(partial(manage, self._talk))
        self._outside.start()
        sockets = {name: [_adopted(fd) for fd in fds] for name, fds in start.sockets.items()}
        host = listen_host(settings.edge, self.auth.has_users)
        self.listeners = Listeners(edge, settings, self.loop, host, self.auth.has_users, sockets)
        self._clients = Clients(edge, self.listeners.rows)

    async def start_admin(self) -> None:
        """The parent answers for all."""

    def hang_up(self) -> None:
        """SIGHUP is for the parent, who says what has changed."""

    async def stop(self) -> None:
        """Finishes what is in flight, within drain_timeout_s."""
        self._stopping = True
        assert self.edge is not None
        self.listeners.stop_accepting()
        await drained(self.edge, self.settings.edge.drain_timeout_s)
        self.auth.close()
        self._outside.close()
        self.beats.stop()
        await self.listeners.close()
        self.port.close()
        self._io.stop()
        await self._asked_names.close()
        self._talk.close("it has ended")
        await self._dialer.close()

    def watched(self) -> list[Steps]:
        """The edge's."""
        return [] if self.edge is None else [self.edge.steps]

    def engines(self) -> tuple[()]:
        return ()

    def banner(self) -> list[str]:
        """The parent has one."""
        return []

    # ── asked and told by the parent ───────────────────────────────────────────────────────────────

    async def _asked(self, kind: str, about: Any) -> Any:
        edge = self.edge
        if kind == "entries":
            self._entries += about
        elif kind == "change":
            entries, self._entries = self._entries, []
            self._change(entries)
        elif edge is None:
            return None  # it is about to begin with what is so now
        elif kind == "users":
            edge.heed(self.auth)
        elif kind == "lost_id" and self._ids is not None:
            self._ids.lost(*about)
        elif kind == "stopped":
            edge.on_stopped(about)
        elif kind == "counted":
            return edge.quotas.counted_users()
        elif kind == "kept":
            await in_portions(edge.quotas.keeps(about), self.clock.monotonic)
        elif kind == "metrics":
            return [(each.name, each.kind, each.help, each.samples) for each in self._metrics(edge)]
        elif kind == "clients":
            return await self._answer(about)
        return None

    def _change(self, entries: Sequence[Entry]) -> None:
        now = self.settings = with_changed(self.settings, entries)
        tables = {table for table, _, _ in entries}
        if self.edge is None:
            return
        if any(table.startswith("engine.") for table in tables):
            self.edge.configure(now.engine)
        if "edge.quotas" in tables:
            self.edge.limit(now.edge.quotas)
        if "edge.permissions" in tables:
            self.edge.permit(now.edge.permissions)

    def _metrics(self, edge: Edge) -> list[Metric]:
        sources = (edge, self.port, self.listeners, self.memory)
        return [metric for source in sources for metric in source.metrics()]

    async def _answer(self, question: Any) -> Any:
        """Of an operator about connections, with turns of the loop in between."""
        assert self._clients is not None
        work = self._clients.answer(question)
        since = None if UNHURRIED in question else self.clock.monotonic()
        return await in_portions(work, self.clock.monotonic, since)

    def _parted(self, why: Ended) -> None:
        if not self._stopping:
            self._end()

    def _end(self) -> None:
        """The parent is no more, and whatever a client still asks nobody will do."""
        log.critical("the owner of this edge process has ended, and so does this process")
        written = threading.Thread(target=self._last_words, daemon=True)
        written.start()
        written.join(LAST_WORDS_S)  # who reads the log may have ended, too
        os._exit(1)


def _adopted(fd: int) -> socket.socket:
    sock = socket.socket(fileno=fd)
    sock.setblocking(False)
    return sock


def main() -> int:
    """An edge process, by what stands on its standard input."""
    start = msgspec.json.decode(sys.stdin.buffer.read(), type=WorkerStart)
    stop_logging = set_up(start.settings.log)
    try:
        return process.run(lambda _: EdgeWorker(start, stop_logging), start.settings)
    finally:
        stop_logging()


if __name__ == "__main__":
    raise SystemExit(main())
