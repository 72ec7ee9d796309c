"""`stampede owner`: leads and follows slots, keeps their journal.

Rule: only wiring and life cycle. Ready: registered, and every slot whose replica this is, is in sync here (so that a
rolling restart waits). SIGTERM: hand all slots over, then stop; what cannot be handed over in time fails over.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from broker import __version__
from broker.admin.server import AdminServer, load_libraries
from broker.admin.startup_server import EarlyServer
from broker.app.member import ClusterProcess, advertised, advertised_admin, advertised_reads
from broker.app.process.journal_opening import Opening
from broker.cluster.config import Tables, UserEntry
from broker.cluster.controller import Controller
from broker.cluster.quarantine import Throw, note
from broker.cluster.suspicion import REPEAT_S, Suspicions
from broker.config.settings import EngineSettings, Settings
from broker.core.commands import Command
from broker.core.errors import BrokerError
from broker.core.message import Blob
from broker.core.metrics import MetricSource
from broker.core.slots import SlotRecord
from broker.engine.engine import Engine
from broker.journal.journal import Journal
from broker.journal.log.format import PREFERRED
from broker.journal.tools.restore import refuse_restored
from broker.link.codec.codec import number_at_edge
from broker.link.edge_side.cluster_port import ClusterPort
from broker.link.owner_port import Rotten, broken_disk
from broker.link.owner_side.link_server import LinkServer
from broker.owner.bodies.bodies import FileBodyReader, FileBodyWriter
from broker.owner.bodies.held_bodies import HeldBodies
from broker.owner.commit.io_thread import IoThread
from broker.owner.replication.following.follower import FollowerHome, Followers
from broker.owner.replication.leader import LeaderHome, Leaders
from broker.owner.replication.peer import Identity
from broker.owner.replication.replica_check import Inspector, SlotCheck
from broker.owner.shard.fault_attribution import NOBODY
from broker.owner.shard.shard import Shard
from broker.owner.shard.small_state import Keeper
from broker.owner.shard.views import Views, busy_addresses
from broker.owner.slots.slot_lifecycle import SlotLifecycle
from broker.owner.slots.slot_status import SlotStatus
from broker.owner.slots.standby import Standby
from broker.owner.transactions.coordinator import RETRY_S, Coordinator
from broker.rpc.server import GrpcServer
from broker.seams.clock import SteadyClock
from broker.seams.entropy import number
from broker.seams.files import OsFiles
from broker.seams.loop_watchdog import Steps
from broker.seams.stream import EDGE_SERVICE, Stream, StreamEnd

from .process.alarm import Alarm
from .process.disk_space import LOOK_S as SPACE_S
from .process.disk_space import SpaceWatch
from .process.garbage import collect_rarely, uncollected

if TYPE_CHECKING:
    from .live.reading import OwnerReads

log = logging.getLogger("stampede.owner")

ALONE_S = 1.0
"""When all owners end at once: for commits under way. The followers that have to confirm them may be gone already."""
LOOK_S = 0.02
STATUS_S = 0.5
"""How exactly it is known since when a slot is not served."""
MAINTAIN_S = 1.0
"""How often the journal may free space when nothing forces it to."""
MORE_S = 0.005
"""Between two steps of it, of which each takes some 3 ms."""


class _Listener:
    """The shard's: edges hear what it does, and when it has failed the process ends at once."""

    def __init__(self, server: LinkServer, failed: Callable[[str], None]) -> None:
        self.on_effects = server.on_effects
        self.on_relief = server.on_relief
        self._server = server
        self._failed = failed

    def on_stopped(self, why: str) -> None:
        self._server.on_stopped(why)
        self._failed(why)


class Begun(IntEnum):
    """How far the start has come: what an end has to take back. Each includes those before it."""

    NOTHING = 0
    LISTENING = 1
    """`rpc` is there: components may connect."""
    SUSPECTING = 2
    """`suspicions`, hence `membership`, too."""
    CONTROLLING = 3
    """`controller`, too."""
    SERVING = 4
    """`admin`, too."""


class OwnerProcess(ClusterProcess):
    """One owner in this process and loop."""

    kind = "owner"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        names = ("journal", "page-in", "bodies", "prepare", "seeds")
        self._threads = [IoThread(self.loop, name) for name in names]
        self._steady = SteadyClock(self.clock.wall, self.clock.ticks)
        self._alarm = Alarm(self.loop, self._steady.wall_ms)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._edges: dict[str, str] = {}
        self._ready = False
        self._closing = False
        self._begun = Begun.NOTHING
        self._noting: asyncio.Task[None] | None = None
        self.reads: OwnerReads | None = None

    # ── start ──────────────────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Recovers, joins and serves, or leaves nothing behind. Raises BrokerError."""
        settings = self.settings
        folder = os.path.join(settings.data, "journal")
        opening = Opening()
        early = self._early = EarlyServer(
            settings.admin, lambda: self._readiness() if self._ready else (False, self._starting(opening))
        )
        try:
            await early.start()
            if settings.admin.port >= 0:
                await asyncio.to_thread(load_libraries)
            refuse_restored(OsFiles(), folder)
            self.journal = await opening.open(
                partial(Journal.open, OsFiles(), folder, settings.journal, settings.cluster.tail_bytes)
            )
            self.journal.mind_backups()
        except BaseException:
            await early.stop()
            await self.leave()
            raise
        self._make()
        try:
            await self._recover(opening)
        except asyncio.CancelledError:
            self.shard.give_up("asked to stop before the journal was read")
            await self._close()
            raise
        except BaseException as error:
            self.shard.fail(f"the journal cannot be used: {error}")  # nothing is written any more
            await self._close()
            raise
        # From the registration on every receipt may wait for this process: what stops its loop comes before.
        collect_rarely()
        try:
            self.rpc = GrpcServer(settings.cluster, self, self.messages)
            self._begun = Begun.LISTENING
            port = await self.rpc.start()
            reads = await self._start_reads()
            self.space = SpaceWatch(self.journal, self._threads[3])
            self.space.look()
            self._every("space", SPACE_S, self.space.look)
            self._every("maintain", MAINTAIN_S, self._maintain)
            self._every("slot status", STATUS_S, self.slot_status.look)
            self._every("poll", RETRY_S, self.coordinator.poll)
            admin = advertised_admin(settings)
            await self.join(advertised(settings, port), admin, self.journal.disk_id, advertised_reads(settings, reads))
            if self.reads is not None:
                self.reads.joined(self.membership)
            self.membership.listen(self._on_members)
            self._on_members()
            self.suspicions = Suspicions(self.metadata, self.keys, self.membership, self.table, self.clock)
            self._begun = Begun.SUSPECTING
            await self.suspicions.start()
            self._every("suspect", REPEAT_S, self._suspect)
            self.controller = Controller(
                self.metadata, self.keys, settings.cluster, self.membership, self.table, self.clock,
                self.steps.kind("plan"),
            )  # fmt: skip
            self._begun = Begun.CONTROLLING
            await self.controller.start()
        except BaseException:
            await self._close()
            raise
        self._make_admin(early)
        self._ready = True

    def _make_admin(self, early: EarlyServer) -> None:
        """What is told and asked at the admin port, which `early` has kept until now."""
        led: list[MetricSource] = [self.shard, self.server, self.port, self.leaders, self.followers, self.controller]
        self.admin = AdminServer(
            self.settings.admin, [*led, self.config, self, self.memory], self._readiness,
            self.shard.depths,
            [self.shard.survey],
            self._check,
            self.slot_status.told,
            partial(busy_addresses, self.shard),
        )  # fmt: skip
        self._begun = Begun.SERVING
        if self.reads is not None:
            self.admin.add(self.reads.service)
        if self.tracing is not None:
            self.admin.add(self.tracing)
        self.admin.follow(early)

    async def _start_reads(self) -> int:
        """The port of the read API; -1: it is off."""
        if self.settings.log_reads.port < 0:
            return -1
        from .live.reading import OwnerReads  # not needed else: it brings what edges are made of

        self.reads = OwnerReads(self.settings, self.shard, self.journal, self.leaders, self.followers, self.table)
        return await self.reads.start()

    def _make(self) -> None:
        """The objects, and who knows whom."""
        settings, loop = self.settings, self.loop
        commit, page_in, bodies, prepare, seeds = self._threads
        identity = Identity(settings.etcd.prefix, self.id, self.boot, PREFERRED)
        self.leaders = Leaders(identity, settings.cluster, self.journal, self.dialer, self.clock, self._later, seeds)
        self.shard = Shard(
            settings, self.journal, self.clock, commit, page_in, prepare, loop.call_soon, self._alarm.set,
            self._later, self.leaders, self.memory, self._steady,
        )  # fmt: skip
        self.followers = Followers(identity, self.journal, self.clock, self._later, bodies, settings.cluster)
        blobs = self.journal.blobs

        def new_body(slot: int, on_drain: Callable[[], None]) -> FileBodyWriter:
            return FileBodyWriter(blobs, bodies, on_drain, broken_disk)

        def open_body(slot: int, blob: Blob, offset: int = 0) -> FileBodyReader:
            return FileBodyReader(blobs, bodies, blob, Rotten, offset)

        def published(slot: int, dedup: tuple[int, int]) -> bool:
            engine = self.shard.engines.get(slot)
            return engine is not None and engine.duplicate(dedup)

        self.server = LinkServer(
            settings, self._commands(), self.clock, loop.call_soon, self._later, new_body, open_body,
            HeldBodies(self.shard.engines, self.journal, page_in).find, published,
        )  # fmt: skip
        self.server.answers.open(self._views().answer)
        self.shard.listen(_Listener(self.server, self._on_stopped))
        self.port = ClusterPort(
            settings, self.dialer, self.clock, loop.call_soon, self._later, f"{self.id}/tx", self.boot, number(63),
            sparing=True,
        )  # fmt: skip
        self.coordinator = Coordinator(
            self.shard, self.port.submit, self.boot, self._steady.wall_ms, self._later, open_body,
            self.port.write_body,
        )  # fmt: skip
        self.port.attach(self.coordinator)
        self.lifecycle = SlotLifecycle(
            self.id, self.shard, self.journal, self.leaders, self.followers, self.server, self.table, self.coordinator,
            self.clock, seeds, self._later, settings.cluster.min_in_sync, lambda: self._edges,
        )  # fmt: skip
        self.slot_status = SlotStatus(self.lifecycle, self.leaders, self.clock)
        self.shard.is_one_of_several(self.coordinator, self._keeper)
        inspector = Inspector(self.journal, seeds, self._later, self.shard.durable)
        self.leaders.start(
            LeaderHome(
                durable=self.shard.durable,
                progress=self.shard.on_progress,
                snapshot=self.lifecycle.state_of,
                change=self.table.change,
                on_record=self.lifecycle.on_record,
                deposed=self.lifecycle.deposed,
                lost=self._lost,
                look=inspector.look,
            )
        )
        self.followers.start(
            FollowerHome(
                durable=self.shard.durable,
                new_standby=lambda slot: Standby(self.shard.new_engine(slot)),
                deposed=self.lifecycle.deposed,
                lost=self._lost,
                released=self.lifecycle.released,
                look=inspector.look,
                thrown=self.shard.thrown,
            )
        )
        self.table.listen(self._on_slot)

    def _views(self) -> Views:
        """What operators are told of the slots led here."""
        return Views(self.shard, self.clock, number_at_edge, self.server.edge_of, self._later)

    def _commands(self) -> Callable[[list[Command]], bool]:
        """What carries out what edges ask for."""
        return self.shard.submit if self.tracing is None else self.tracing.owner(self.shard)

    def _keeper(self, slot: int) -> Keeper | None:
        """Which owner keeps the small state of a slot that is not led here."""
        return self.lifecycle.keeper(slot) or self.followers.keeper(slot)

    async def _recover(self, opening: Opening) -> None:
        """Health is answered, and a stop obeyed, meanwhile."""
        with uncollected():
            for _ in self.lifecycle.recovering():
                opening.second(self.journal.recovered.read)
                await asyncio.sleep(0)

    async def start_admin(self) -> None:
        await self.admin.start()

    # ── stop ───────────────────────────────────────────────────────────────────────────────────────

    async def stop(self) -> None:
        self._ready = False
        if not self.shard.stopped and self.membership.up:
            limit, told = self.settings.edge.drain_timeout_s, False
            with suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    self.lifecycle.leave()
                    told = await self.membership.set_leaving()
                    while told and self._others_stay() and (self.lifecycle.led() or self.lifecycle.needed()):  # noqa: ASYNC110
                        await asyncio.sleep(LOOK_S)  # many records
            if not told:
                log.warning("etcd does not answer: nothing can be handed over, what is led here fails over")
            elif (left := len(self.lifecycle.led())) and self._others_stay():
                log.warning("%d slots could not be handed over within %g s; they fail over", left, limit)
        await self._close()
        if self.shard.stopped:
            self.fail(self.shard.stopped)

    def _others_stay(self) -> bool:
        """Is there an owner that slots could be handed over to. When all end at once none of them need wait."""
        if not self.joined:
            return False  # it had not joined yet
        return any(not owner.leaving for id, owner in self.membership.owners.items() if id != self.id)

    async def _close(self) -> None:
        self._closing = True
        self.lifecycle.end()
        if self._noting is not None:
            await self._noting
        self._alarm.stop()
        for timer in self._timers.values():
            timer.cancel()
        if self._begun >= Begun.CONTROLLING:
            await self.controller.stop()
        if self._begun >= Begun.SUSPECTING:
            await self.suspicions.stop()
        self.server.close()
        self.leaders.stop()
        self.followers.stop()
        idle = asyncio.Event()
        self.shard.when_idle(idle.set)
        try:
            limit = self.settings.edge.drain_timeout_s
            await asyncio.wait_for(idle.wait(), limit if self._others_stay() else min(limit, ALONE_S))
        except TimeoutError:
            log.warning("stopping with a commit under way; the journal will be recovered at the next start")
        self.port.close()
        if self.reads is not None:
            await self.reads.stop()
        await self.leave()
        if self._begun >= Begun.LISTENING:
            await self.rpc.stop()
        await self._early.stop()
        if self._begun >= Begun.SERVING:
            await self.admin.stop()
        for thread in self._threads:
            await asyncio.to_thread(thread.stop)
        self.journal.close(clean=not self.shard.stopped and idle.is_set())

    # ── time ───────────────────────────────────────────────────────────────────────────────────────

    def _later(self, seconds: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
        return self.loop.call_later(seconds, self._guarded, callback)

    def _guarded(self, callback: Callable[[], object]) -> None:
        """What goes on by timers would end in silence with the first error nobody expected: so does the process, and
        others lead what it led."""
        try:
            callback()
        except Exception as error:
            self.shard.thrown(error)

    def _every(self, name: str, seconds: float, act: Callable[[], object]) -> None:
        def again() -> None:
            more = act()
            if not self._closing:
                self._timers[name] = self._later(MORE_S if more is True else seconds, again)

        self._timers[name] = self._later(seconds, again)

    def _maintain(self) -> bool:
        return self.shard.maintain()

    # ── streams, records, members ──────────────────────────────────────────────────────────────────

    def accept(self, service: str, stream: Stream) -> StreamEnd:
        """For the component port."""
        return (self.server if service == EDGE_SERVICE else self.followers).accept(service, stream)

    def _on_slot(self, slot: int, record: SlotRecord | None) -> None:
        self._guarded(partial(self.lifecycle.on_record, slot, record))
        if record is None or not self.joined:
            return
        leader = self.membership.owners.get(record.leader)
        if leader is not None:
            self.port.route(slot, record.epoch, leader.id, leader.address)

    def _on_members(self) -> None:
        owners = self.membership.owners
        for owner in owners.values():
            if owner.id != self.id:
                self.leaders.reach(owner.id, owner.address)
        leaving = [owner.id for owner in owners.values() if owner.leaving]
        self.leaders.members(owners.keys() - leaving, leaving)
        for slot, record in self.table.records.items():
            if (leader := owners.get(record.leader)) is not None:
                self.port.route(slot, record.epoch, leader.id, leader.address)
        edges = {edge.id: edge.boot for edge in self.membership.edges.values()}
        for id, boot in self._edges.items():
            if edges.get(id) != boot:
                self.server.edge_gone(id, boot)
        self._edges = edges

    def _lost(self, owner: str, why: str) -> None:
        """A stream to (or from) a peer broke or is silent; why "": it talks again."""
        if self._begun < Begun.SUSPECTING:
            return
        member = self.membership.owners.get(owner)
        if not why:
            if not self.leaders.misses(owner):
                self.suspicions.clear(owner)
        elif member is not None:
            self.suspicions.report(owner, member.boot, member.lease, why)

    def _suspect(self) -> None:
        """An owner that was lost while none could be told (the store was away, say) is lost all the same. One that
        leads nothing stops no client."""
        leading = {record.leader for record in self.table.records.values()}
        for owner in self.membership.owners.values():
            if owner.id in leading and (missed := self.leaders.missed(owner.id)):
                self.suspicions.report(owner.id, owner.boot, owner.lease, "it is still not reached", missed)

    def _on_stopped(self, why: str) -> None:
        """The shard has failed. Before others lead what it led, the slot that is to blame has a note of it."""
        slot = self.shard.slot_at_fault
        if slot == NOBODY or not self.joined:
            self.fail(why)
            return
        led = slot in self.shard.engines
        self.lifecycle.end()
        self._noting = self.loop.create_task(self._note(slot, why, led))

    async def _note(self, slot: int, why: str, led: bool) -> None:
        try:
            await note(self.metadata, self.keys, self.table, slot, Throw(self.id, self.boot, why), led)
        finally:
            self.fail(why)

    async def on_lost(self, why: str) -> None:
        await super().on_lost(why)
        self.lifecycle.suspend()

    def on_registered(self) -> None:
        self.lifecycle.go_on()

    def on_refused(self, error: BrokerError) -> None:
        self.lifecycle.end()
        super().on_refused(error)

    def on_engine_settings(self, settings: EngineSettings) -> None:
        self.shard.configure(settings)

    def on_users(self, users: Mapping[str, UserEntry]) -> None:
        if self.reads is not None:
            self.reads.on_users(users)

    def on_permissions(self, permissions: Tables) -> None:
        if self.reads is not None:
            self.reads.on_permissions(permissions)

    async def _check(self, slot: int) -> dict[str, Any] | None:
        """Do all replicas have the same of the slot; None: it is not led here."""
        answer: asyncio.Future[SlotCheck | None] = self.loop.create_future()

        def tell(check: SlotCheck | None) -> None:
            if not answer.done():
                answer.set_result(check)

        self.leaders.check(slot, tell)
        check = await answer
        return None if check is None else check.told()

    # ── told to people ─────────────────────────────────────────────────────────────────────────────

    def _starting(self, opening: Opening) -> dict[str, str]:
        state = opening.state()
        if self._begun >= Begun.LISTENING and (why := self.barred()):
            state["cluster"] = f"not registered: {why}"
        return state

    def _readiness(self) -> tuple[bool, dict[str, str]]:
        if self.shard.stopped:
            return False, {"owner": self.shard.stopped}
        lagging = len(self.lifecycle.lagging())
        details = {
            "owner": "ok" if self._ready else "starting or stopping",
            "slots led": str(self.lifecycle.serving()),
            "replicas not in sync": str(lagging),
            **self.space.details(),
            **self.memory.details(),
        }
        if not self.membership.up:
            details["cluster"] = f"not registered: {self.barred()}".removesuffix(": ")
        if missed := self.controller.view().unreached().get(self.id):
            details["edges"] = f"cannot reach this owner: {', '.join(missed)}"
        if bad := self.config.told():
            details["configuration"] = bad
        if lost := self.metadata.rewound:
            details["etcd"] = lost  # not ready: a rolling restart must not go on into an empty store
        return self._ready and self.membership.up and not lagging and not lost, details

    def watched(self) -> list[Steps]:
        """What others tell it, and its turns."""
        return [self.steps, self.shard.steps]

    def engines(self) -> list[Engine]:
        return self.shard.every_engine()

    def banner(self) -> list[str]:
        return [
            f"Stampede {__version__} owner {self.id}",
            f"  components             {self.membership.me.address}",
            f"  cluster                {self.settings.etcd.prefix} in etcd at {self.settings.etcd.endpoints}",
            f"  data                   {os.path.abspath(self.settings.data)}",
        ]
