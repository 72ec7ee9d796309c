"""Owners and edges on simulated hosts: the production processes, wiring and all, over simulated seams.

Rule: nothing of the product is replaced but what talks to the system: files, threads, clocks, randomness, sockets and
etcd. Of an edge the STOMP side is left out: virtual clients use its port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from random import Random
from typing import Any
from unittest.mock import Mock, patch

from broker.app.edge import EdgeProcess
from broker.app.member import ClusterProcess
from broker.app.owner import OwnerProcess
from broker.config.settings import (
    AddressSettings,
    AdminSettings,
    ClusterSettings,
    EdgeSettings,
    EngineSettings,
    EtcdSettings,
    JournalSettings,
    MemorySettings,
    Settings,
)
from broker.core.errors import BrokerError
from broker.link.bodies.body_spool import BodySpool
from broker.link.edge_side.cluster_port import ClusterPort
from broker.seams.entropy import number, token
from tests.sim.cluster_checkers import DEAD, MOST
from tests.sim.cluster_world import Host, SimDialer, World, everywhere
from tests.sim.virtual_loop import HERE

FOLDER = "/data/journal"
PREFIX = "/sim"
SLOTS = 4
"""Fewer than the product has: each costs records, streams and epochs, and clients use few addresses."""

LEISURELY = (
    "broker.link.edge_side.auto_marks.MARK_S",
    "broker.owner.transactions.coordinator.RETRY_S",
    "broker.app.owner.RETRY_S",
)
"""What takes a second in the product. Safety phases are hardly longer: a shorter one lets more of it happen in them,
and histories end sooner."""

PIECES = {
    "broker.link.bodies.body_spool.SPILL": 400, "broker.link.bodies.body_spool.PIECE": 250,
    "broker.link.bodies.edge_bodies.CHUNK": 200, "broker.link.bodies.owner_bodies.CHUNK": 200,
    "broker.link.bodies.edge_bodies.WINDOW": 500,
    "broker.owner.replication.catchup.CHUNK_BYTES": 200, "broker.owner.replication.catchup.BODY_WINDOW": 500,
    "broker.owner.bodies.body_transfer.PIECE": 200, "broker.owner.bodies.body_transfer.WINDOW": 500,
}  # fmt: skip
"""Of large bodies, and how much of one is under way: so small that those of a few hundred bytes have several."""


class Dialer(SimDialer):
    async def close(self) -> None:
        """Streams end with the process."""

    def revoked(self) -> str:
        return ""  # there are no certificates


class Server:
    """rpc.server.GrpcServer."""

    def __init__(self, host: Host, acceptor: Any) -> None:
        self._host = host
        self._acceptor = acceptor

    async def start(self) -> int:
        self._host.listen(self._acceptor)
        return 61700

    async def stop(self) -> None:
        self._host.world.network.unlisten(self._host.address)


class Admin:
    """admin.server.AdminServer: nobody looks."""

    def follow(self, early: None) -> None: ...
    async def start(self) -> None: ...
    async def stop(self) -> None: ...


def seams(world: World, stack: ExitStack, slots: int = SLOTS) -> None:
    """Puts the simulated seams under production code. What is made belongs to the host whose code makes it."""

    def here() -> Host:
        return world.hosts[HERE.get().name]

    entropy = Random(world.seed)
    replaced: dict[str, Callable[..., Any]] = {
        "broker.app.member.SystemClock": lambda: here().clock(),
        "broker.app.member.EtcdMetadata": lambda settings, clock, watches: here().metadata(settings.timeout_s),
        "broker.app.member.GrpcDialer": lambda settings, loop, **_: Dialer(world.network, HERE.get()),
        "broker.app.owner.OsFiles": lambda: here().disk,
        "broker.app.owner.IoThread": lambda loop, name: here().io(),
        "broker.app.owner.GrpcServer": lambda settings, acceptor, *_: Server(here(), acceptor),
        "broker.app.owner.AdminServer": lambda *_: Admin(),
        "broker.app.owner.SpaceWatch": lambda *_: Mock(),  # disks have no size here, and it says no more than that
        "broker.app.owner.collect_rarely": lambda: None,  # one collector for all: what it froze would never be freed
    }
    for name, replacement in replaced.items():
        stack.enter_context(patch(name, replacement))
    stack.enter_context(everywhere(token, lambda nbytes: f"{entropy.getrandbits(8 * nbytes):0{2 * nbytes}x}"))
    stack.enter_context(everywhere(number, lambda bits: entropy.getrandbits(bits - 1) + 1))
    stack.enter_context(everywhere("SLOTS", slots))
    hurry = world.random.choice((0.2, 0.2, 1.0))
    for constant in LEISURELY:
        stack.enter_context(patch(constant, hurry))


def small_pieces(stack: ExitStack) -> None:
    for name, nbytes in PIECES.items():
        stack.enter_context(patch(name, nbytes))


def diverts_of(diverted: dict[str, str]) -> dict[str, dict[str, str]]:
    """`engine.diverts` for what is sent to an address and copied to another."""
    return {f"from {a}": {"address": a, "forward": to, "routing": "ANYCAST"} for a, to in diverted.items()}


def settings_of(random: Random, diverted: dict[str, str], kept: int) -> Settings:
    """Of all processes of a history, with these diverts; tiny bounds in half of them, so that rare paths are common."""
    pick = random.choice
    tiny = random.random() < 0.5
    address = AddressSettings(
        max_delivery_attempts=pick((-1, MOST)),
        redelivery_delay_ms=pick((0, 0, 50)),
        dead_letter_address=DEAD,
        record_deliveries=tiny,
    )
    promise = pick((100, 250))
    ping = round(promise * pick((0.4, 0.8)))
    diverts = diverts_of(diverted)
    memory, page, mark = (300, 200, 2) if tiny else (pick((2000, 1 << 20)), 1000, pick((4, 16_384)))
    return Settings(
        data="/data",
        edge=EdgeSettings(drain_timeout_s=1.0),
        admin=AdminSettings(port=-1),  # a virtual loop has no sockets; the port that comes early is not simulated
        memory=MemorySettings(limit_bytes=-1),  # what this machine has is nobody's affair here
        engine=EngineSettings(memory, page, mark, address, {DEAD: {"max_delivery_attempts": -1}}, diverts=diverts),
        journal=JournalSettings(
            segment_bytes=32_768 if tiny else 65_536, min_free_bytes=0,
            max_inflight_bytes=pick((2000, 1 << 20)), compact_below=pick((0.25, 0.5)),
        ),
        cluster=ClusterSettings(
            lease_s=2.0, ping_ms=ping, dead_after_ms=max(pick((200, 500)), round(2.5 * ping)), promise_ms=promise,
            tail_bytes=pick((0, 1000, 1 << 20)), seed_bytes_per_s=pick((20_000, 50_000_000)),
            batch_bytes=pick((300, 256 * 1024)),
            # Of what is drawn already: one draw more would make another history of every seed that is kept as a test.
            linger_ms=20 if promise == 100 else 0,
            edge_pending_bytes=pick((3000, 16 << 20)),
            edge_grace_s=pick((1.0, 5.0)), unavailable_after_s=120.0, replace_after_s=60.0,
            kept_body_bytes=kept,
        ),
        etcd=EtcdSettings(prefix=PREFIX, timeout_s=0.5),
    )  # fmt: skip


class Life:
    """A life of a production process on a host: starts it, and tells the host when it has ended by itself."""

    def __init__(self, host: Host, process: ClusterProcess) -> None:
        self.host = host
        self.process = process
        self.started = False
        process.failed.add_done_callback(lambda failed: host.exit(failed.result()))
        assert host.place
        self._starting = host.place.spawn(self._start())

    async def _start(self) -> None:
        try:
            await self.process.start()
        except BrokerError as error:
            self.host.exit(f"{type(error).__name__}: {error}")
        else:
            self.started = True

    async def stop(self) -> None:
        """As broker/app/process/process.py: a SIGTERM to one that is on its way ends the start, and that is all."""
        if self.started:
            return await self.process.stop()
        self._starting.cancel()
        with suppress(asyncio.CancelledError):
            await self._starting


class OwnerLife(Life):
    process: OwnerProcess

    def __init__(self, settings: Settings, host: Host) -> None:
        super().__init__(host, OwnerProcess(settings))

    @property
    def journal(self) -> Any:
        return self.process.journal


class Unnamed:
    """seams.files.temporary_file."""

    def __init__(self) -> None:
        self._data = bytearray()

    def pread(self, n: int, offset: int) -> bytes:
        return bytes(self._data[offset : offset + n])

    def pwrite(self, data: bytes, offset: int) -> int:
        self._data[offset : offset + len(data)] = data
        return len(data)

    def close(self) -> None:
        self._data.clear()


class Edge(EdgeProcess):
    """The cluster's side of an edge. `serve(port)` is called once clients may come."""

    def __init__(self, settings: Settings, serve: Callable[[ClusterPort], object], host: Host) -> None:
        super().__init__(settings)
        self._host = host
        self._serve = serve

    async def start(self) -> None:
        loop, most = self.loop, self.settings.cluster.kept_body_bytes
        self.keeper = BodySpool(self._host.io(), Unnamed, most) if most else None  # type: ignore[arg-type]
        self.port = ClusterPort(
            self.settings, self.dialer, self.clock, loop.call_soon, loop.call_later, self.id, self.boot, number(63),
            keeper=self.keeper,
        )  # fmt: skip
        self.table.listen(self._on_slot)
        await self.join("", "")
        self.membership.listen(self._on_members)
        self._on_members()
        # Where leaders go is decided by what edges say they reach.
        self._reporting = loop.create_task(self._report())
        self._serve(self.port)

    async def stop(self) -> None:
        assert self._reporting is not None
        self._reporting.cancel()
        self.port.close()
        await self.leave()


class EdgeLife(Life):
    process: Edge

    def __init__(self, settings: Settings, attach: Callable[[Host, ClusterPort], object], host: Host) -> None:
        super().__init__(host, Edge(settings, lambda port: attach(host, port), host))
