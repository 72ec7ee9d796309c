"""`stampede serve`: edge and owner in one process, one data folder, nothing else needed.

Rule: only wiring and life cycle. Start: recover, listen, say so. SIGTERM: stop accepting, answer what is in
flight, tell clients, close the journal cleanly.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from broker import __version__
from broker.admin.api.new_partitions import NewPartitions
from broker.admin.api.server import LocalOwners
from broker.admin.server import AdminServer
from broker.admin.startup_server import EarlyServer
from broker.bridge.bridges import Bridges
from broker.config.changes import tables_of, with_tables
from broker.config.load import SettingsSource
from broker.config.permissions import groups_of
from broker.config.settings import Settings
from broker.core.errors import ConfigError
from broker.edge.access.auth import make_authenticator, users_file
from broker.edge.access.external_logins import ExternalLogins
from broker.edge.access.listener import Listeners, listen_host
from broker.edge.destinations.directory import Directory, LocalClientIds, LocalNames
from broker.edge.edge import Edge
from broker.edge.transport.timers import TimerWheel
from broker.engine.engine import Engine
from broker.journal.journal import Journal
from broker.link.codec.codec import number_at_edge
from broker.link.local_port import LocalOwner
from broker.owner.commit.io_thread import IoThread
from broker.owner.shard.shard import Shard
from broker.owner.shard.views import Views
from broker.seams.clock import SteadyClock, SystemClock
from broker.seams.entropy import token
from broker.seams.files import OsFiles
from broker.seams.loop_watchdog import Steps

from .edges.parent import EdgeProcesses
from .edges.worker_settings import memory_shares, refuse_more_partitions, refuse_undivided
from .live.administration import ThisNode, api
from .live.bridging import inside_of
from .live.live import LiveSettings
from .live.live_tokens import LiveTokens
from .live.live_users import LiveUsers
from .process import process
from .process.alarm import Alarm
from .process.disk_space import LOOK_S, SpaceWatch
from .process.garbage import uncollected
from .process.graceful_stop import drained
from .process.journal_opening import Opening
from .process.memory_bounds import fitted, memory_of
from .process.processes import processes_of, serving
from .process.traces import traces

if TYPE_CHECKING:
    from broker.admin.log.log_reads import LogReads

log = logging.getLogger("stampede")

MAINTAIN_S = 1.0
"""How often the journal may free space when nothing forces it to."""
MORE_S = 0.005
"""Between two steps of it, of which each takes some 3 ms."""


class Standalone:
    """One broker in this process and loop. Usable as a library: start(), ports, stop()."""

    def __init__(self, settings: Settings, source: SettingsSource | None = None) -> None:
        """source: where the settings come from, to be read again. Raises ConfigError."""
        self.live = LiveSettings(settings, source)
        self._tokens = LiveTokens(settings.data)
        settings = self.live.settings
        self._several = processes_of(settings)
        shares = (settings.memory.limit_bytes, 0)
        if self._several:
            refuse_undivided(settings, self._several)
            shares = memory_shares(settings, self._several)
            self.live.forbid(refuse_more_partitions)
        self.memory = memory_of(replace(settings, memory=replace(settings.memory, limit_bytes=shares[0])))
        self._memory_each = shares[1]
        self._names = LocalNames()
        self.processes: EdgeProcesses | None = None
        settings = self.settings = fitted(settings, self.memory.limit)
        self.loop = asyncio.get_running_loop()
        self.clock = SystemClock()
        self._tracing = traces(settings, "broker", socket.gethostname(), self.clock)
        self.failed: asyncio.Future[str] = self.loop.create_future()
        self._threads = [IoThread(self.loop, name) for name in ("journal", "page-in", "bodies", "prepare")]
        self._steady = SteadyClock(self.clock.wall, self.clock.ticks)
        self._alarm = Alarm(self.loop, self._steady.wall_ms)
        self._maintain: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._ready = False
        self.reads: LogReads | None = None

    async def start(self) -> None:
        """Recovers and listens, or leaves nothing behind. Raises BrokerError with a text for people."""
        settings = self.settings
        commit, page_in, bodies, prepare = self._threads
        self.auth = make_authenticator(settings)
        try:
            self._outside = ExternalLogins(
                settings, self.clock, lambda: self.edge.reconsider(), lambda: self.edge.marks()
            )
        except BaseException:
            self.auth.close()
            raise
        opening = Opening()
        early = self._early = EarlyServer(
            settings.admin, lambda: self.readiness() if self._ready else (False, opening.state())
        )
        try:
            await early.start()
            folder = os.path.join(settings.data, "journal")
            self.journal = await opening.open(partial(Journal.open, OsFiles(), folder, settings.journal, alone=True))
        except BaseException:
            self.auth.close()
            self._outside.close()
            await early.stop()
            raise
        self.journal.mind_backups()
        for id in self.journal.blobs.missing:
            log.error("large body %s is missing: its message cannot be delivered", self.journal.blobs.path(id))
        self.shard = Shard(
            settings, self.journal, self.clock, commit, page_in, prepare, self.loop.call_soon, self._alarm.set,
            self.loop.call_later, memory=self.memory, steady=self._steady,
        )  # fmt: skip
        self.beats = TimerWheel(self.loop)
        self.port = LocalOwner(self.shard, bodies)
        self._make_edge(bodies, page_in)
        self.shard.blame.names_by(self.edge.who)
        self.edge.known_outside(self._outside)
        self._outside.start()
        try:
            with uncollected():
                for _ in self.shard.recovering():
                    opening.second(self.journal.recovered.read)
                    await asyncio.sleep(0)
        except BaseException:
            self.journal.close(clean=False)
            self.auth.close()
            self._outside.close()
            await early.stop()
            raise
        for engine in self.shard.engines.values():
            self._names.learn(engine.subscriptions())
        host = listen_host(settings.edge, self.auth.has_users)
        self.listeners = Listeners(self.edge, settings, self.loop, host, self.auth.has_users)
        self.bridges = Bridges(inside_of(self.edge))
        self._make_admin()
        try:
            await self._listen()
            if settings.log_reads.port >= 0:
                await self._start_reads()
        except BaseException:
            await self._close()
            raise
        self.space = SpaceWatch(self.journal, prepare)
        self._look_at_space()
        self._ready = True
        self.bridges.configure(settings.bridges)
        self.bridges.start()
        self._maintain_soon(MAINTAIN_S)

    def _make_edge(self, bodies: IoThread, page_in: IoThread) -> None:
        """Of all clients, or where they have processes of their own, of bridges and operators."""
        settings, names, tokens = self.settings, self._names, None
        directory = Directory(LocalClientIds(settings.edge.client_id_in_use), names)
        if self._several:
            self.processes = EdgeProcesses(
                self._several, self._memory_each, lambda: self.settings, self.clock, names, self._fail
            )
            directory, tokens = self.processes.directory, self.processes.tokens
        tracing, traced = self._tracing, None
        if tracing is not None:
            traced = tracing.port(self.port, tracing.owner(self.shard))
        self.edge = Edge(
            settings, traced or self.port, self.clock, self.beats, self.auth, token(4), directory, tokens, self.memory
        )
        if tracing is not None and traced is not None:
            tracing.edge(self.edge, traced)
        if self.processes is not None:
            self.processes.own(
                self.shard, self.journal, self.edge, self.loop.call_soon, self.loop.call_later, bodies, page_in
            )

    async def _listen(self) -> None:
        """Here, or in processes of their own."""
        if self.processes is None:
            await self.listeners.start()
            return
        if grown := self._grown_meanwhile():
            raise ConfigError(
                f"{min(grown)[:200]} has more partitions than its durable subscriptions know: start once without "
                "edge.processes (--edges), until messages follow."
            )
        await self.processes.start(self.listeners)

    def _make_admin(self) -> None:
        """Numbers, health, and the API for operators."""
        settings = self.settings
        self.admin = AdminServer(
            settings.admin,
            [self.edge, self.shard, self.listeners, self.memory, self.bridges],
            self.readiness,
            self.shard.depths,
            [self.shard.survey],
        )
        if self._tracing is not None:
            self.admin.add(self._tracing)
        if self.processes is not None:
            self.admin.add(self.processes)
            self.admin.ask_first(self.processes.gather)
        self.admin.follow(self._early)
        node = ThisNode(
            "standalone", "standalone", lambda: self.settings, self.readiness, lambda: self.auth.has_users,
            self.memory, self.live,
        )  # fmt: skip
        number = number_at_edge if self._several else int
        views = LocalOwners(Views(self.shard, self.clock, number, later=self.loop.call_later).answer)
        offered = api(
            node,
            self.admin,
            settings,
            views,
            self.edge,
            self.listeners,
            self.auth,
            self.port.submit,
            self.live,
            tokens=self._tokens,
            elsewhere=self.processes,
            apart=self.processes,
        )
        self.admin.offer(offered)
        self._newcomers = NewPartitions(views, offered.desk, self._names.address_of)
        self.edge.grow_with(self._newcomers, self._grown_meanwhile())
        self.live.use(
            self._apply, LiveUsers(users_file(settings), self._heed_users, groups_of(settings.admin.administrators))
        )

    def _grown_meanwhile(self) -> dict[str, int]:
        """Addresses that were given partitions while the broker did not run: how many all their durable subscriptions
        have."""
        match = self.edge.match
        if max(match.values("partitions")) == 1:
            return {}
        there = Counter(entry for engine in self.shard.engines.values() for entry in engine.subscriptions().items())
        grown: dict[str, int] = {}
        for (_, address), slots in there.items():
            if slots < match(address).partitions and not match.is_pattern(address):
                grown[address] = min(slots, grown.get(address, slots))
        return grown

    def _look_at_space(self) -> None:
        self.space.look()
        self._looking = self.loop.call_later(LOOK_S, self._look_at_space)

    async def _start_reads(self) -> None:
        # Imported here: gRPC takes a while to load, and memory, that a broker without readers need not spend.
        from .live.reading import local

        host = self.settings.log_reads.host or listen_host(self.settings.edge, self.auth.has_users)
        self.reads = local(self.settings, self.shard, self.journal, self.auth, self.edge.rights, self.clock)
        await self.reads.start(host)
        self.admin.add(self.reads)

    async def _heed_users(self) -> None:
        self.edge.heed(self.auth)
        if self.processes is not None:
            await self.processes.heed_users()

    async def _apply(self, settings: Settings) -> None:
        """Entries of settings have changed: returns when they are in use, and in the log."""
        before, now = self.settings, with_tables(self.settings, tables_of(settings))
        engine, permissions = now.engine, now.edge.permissions
        if engine != before.engine:
            used = asyncio.Event()
            self.shard.configure(engine, used.set)
            await self._unless_failed(used)
            self.edge.configure(engine)
        if permissions != before.edge.permissions:
            self.edge.permit(permissions)
        if now.edge.quotas != before.edge.quotas:
            self.edge.limit(now.edge.quotas)
        if now.bridges != before.bridges:
            self.bridges.configure(now.bridges)
        if (slot := next(iter(self.shard.engines), None)) is not None:
            done = asyncio.Event()
            self.shard.in_turn(slot, lambda _engine, _turn: self.shard.durable(done.set))
            await self._unless_failed(done)
        self.settings = now
        if self.processes is not None:
            await self.processes.change(before, now)

    async def _unless_failed(self, event: asyncio.Event) -> None:
        """Until it is set, or the broker cannot go on."""
        waiting = asyncio.ensure_future(event.wait())
        await asyncio.wait((waiting, self.failed), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()

    def hang_up(self) -> None:
        """SIGHUP: settings are read again."""
        self._reloading = self.loop.create_task(self.live.hang_up())

    async def start_admin(self) -> None:
        """After the STOMP ports, because its libraries take a while to load."""
        await self.admin.start()

    async def stop(self) -> None:
        """Finishes what is in flight, within drain_timeout_s."""
        self._ready = False
        await self.bridges.stop()
        self.listeners.stop_accepting()
        if self.processes is not None:
            await self.processes.stop()
        await drained(self.edge, self.settings.edge.drain_timeout_s)
        await self._close()
        if self.shard.stopped and not self.failed.done():
            self.failed.set_result(self.shard.stopped)

    async def _close(self) -> None:
        """Ends everything but the clients' connections. What is under way is committed first: a journal that was
        closed cleanly calls nothing redelivered."""
        self._alarm.stop()
        self._newcomers.stop()
        for timer in (self._maintain, self._looking):
            if timer is not None:
                timer.cancel()
        self.auth.close()
        self._outside.close()
        idle = asyncio.Event()
        self.shard.when_idle(idle.set)
        try:
            await asyncio.wait_for(idle.wait(), self.settings.edge.drain_timeout_s)
        except TimeoutError:
            log.warning("stopping with a commit under way; the journal will be recovered at the next start")
        if self.processes is not None:
            await self.processes.stop()
        self.beats.stop()
        if self.reads is not None:
            await self.reads.stop()
        await self.listeners.close()
        await self._early.stop()
        await self.admin.stop()
        if self._tracing is not None:
            await asyncio.to_thread(self._tracing.stop)
        for thread in self._threads:
            await asyncio.to_thread(thread.stop)
        self.journal.close(clean=not self.shard.stopped and idle.is_set())

    def readiness(self) -> tuple[bool, dict[str, str]]:
        """As /readyz has it."""
        if self.shard.stopped:
            return False, {"owner": self.shard.stopped}
        if not self._ready:
            return False, {"owner": "starting or stopping"}
        details = {"owner": "ok", **self.space.details(), **self.memory.details()}
        if self.processes is None:
            return True, details
        return self.processes.serving, {**details, **self.processes.details()}

    def _fail(self, why: str) -> None:
        if not self.failed.done():
            self.failed.set_result(why)

    def _maintain_soon(self, after: float) -> None:
        self._maintain = self.loop.call_later(after, self._maintain_step)

    def _maintain_step(self) -> None:
        more = self.shard.maintain()
        if self.shard.stopped and not self.failed.done():
            self.failed.set_result(self.shard.stopped)
        self._maintain_soon(MORE_S if more else MAINTAIN_S)

    def watched(self) -> list[Steps]:
        """Turns: there are none without reads."""
        return [self.shard.steps]

    def engines(self) -> list[Engine]:
        return self.shard.every_engine()

    def banner(self) -> list[str]:
        """Where it listens and where the data is."""
        lines = [f"Stampede {__version__}"]
        lines += self.listeners.banner()
        lines += process.console(self.settings.admin)
        if self.reads is not None:
            lines.append(f"  log (read API)         port {self.reads.port}")
        lines.append(f"  data                   {os.path.abspath(self.settings.data)}")
        if not self.auth.has_users:
            lines.append(
                "  no users yet: only this machine can connect (stampede user add NAME opens it to the network)"
            )
        return lines


def run(settings: Settings, source: SettingsSource) -> int:
    """Runs a standalone broker until SIGTERM or SIGINT; the exit status."""
    return process.run(lambda fitting: Standalone(fitting, source), settings, serving)
