"""What owners and edges have in common: a name, the metadata store, who is alive, who leads what, live settings.

Rule: the store may be away at any time; what was known stays in use. Nothing here is called per message.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace

from broker.cluster.applied import AppliedNote
from broker.cluster.config import ConfigWatch, Tables, UserEntry
from broker.cluster.identity import is_known_disk
from broker.cluster.keys import Keys
from broker.cluster.membership import Membership
from broker.cluster.slots import SlotTable
from broker.config.settings import EngineSettings, Settings
from broker.core.errors import BrokerError, ConfigError
from broker.core.metrics import Metric
from broker.core.slots import Member
from broker.metadata.etcd import EtcdMetadata
from broker.metadata.port import Metadata
from broker.rpc.dialer import GrpcDialer
from broker.seams.clock import SystemClock
from broker.seams.entropy import token
from broker.seams.loop_watchdog import Steps

from .process.memory_bounds import fitted, memory_of
from .process.traces import traces

log = logging.getLogger("stampede.cluster")


class ClusterProcess:
    """Base of OwnerProcess and EdgeProcess.

    failed   gets the reason when this process cannot go on."""

    kind = ""

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigError."""
        if settings.edge.processes != "0":
            raise ConfigError("edge.processes is for `stampede serve`: leave it out, a cluster has more edges instead.")
        name = settings.cluster.id or socket.gethostname()
        self.memory = memory_of(settings)
        settings = fitted(settings, self.memory.limit)
        self.settings = replace(settings, cluster=replace(settings.cluster, id=name))
        self.id = name
        self.boot = token(8)
        self.loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[str] = self.loop.create_future()
        self.clock = SystemClock()
        self.tracing = traces(settings, self.kind, name, self.clock)
        self.keys = Keys(settings.etcd.prefix)
        self.steps = Steps(self.clock)
        self.metadata: Metadata = EtcdMetadata(settings.etcd, self.clock, self.steps.kind("watch"))
        self.messages = self.steps.kind("message")
        """What comes from other components: commands, effects, replicas' records."""
        self.dialer = GrpcDialer(settings.cluster, self.loop, steps=self.messages)
        self.table = SlotTable(self.metadata, self.keys)
        self.membership: Membership
        self.joined = False
        """`membership`, `config` and what follows them are there."""
        self.config: ConfigWatch
        self._applied: AppliedNote

    async def join(self, address: str, admin: str, disk: str = "", reads: str = "") -> None:
        """Registers, and follows slots, members and settings. Raises BrokerError."""
        settings = self.settings
        me = Member(self.id, self.kind, address, self.boot, disk, settings.cluster.zone, admin, reads=reads)
        self.membership = Membership(
            self.metadata, self.keys, settings.cluster, me, self.clock,
            on_lost=self.on_lost, on_registered=self.on_registered, on_refused=self.on_refused,
            barred=self.barred,
        )  # fmt: skip
        self._applied = AppliedNote(self.metadata, self.keys, self.membership)
        self.config = ConfigWatch(
            self.metadata, self.keys, settings.engine,
            on_engine_settings=self.on_engine_settings, on_users=self.on_users, on_applied=self._applied.note,
            permissions=settings.edge.permissions, on_permissions=self.on_permissions,
            bridges=settings.bridges, on_bridges=self.on_bridges, quotas=settings.edge.quotas, on_quotas=self.on_quotas,
        )  # fmt: skip
        self.joined = True
        await self.config.start()
        # Who has another disk than before follows nothing until it has struck itself out: else it is counted on, and
        # then struck out with what it has been given since.
        known = self.kind != "owner" or await is_known_disk(self.metadata, self.keys, me)
        if known:
            await self.table.start()
        await self.membership.start()
        if not known:
            await self.table.start()
        self._applied.start()

    def metrics(self) -> Iterable[Metric]:
        yield Metric("stomp_etcd_rewound", "gauge", "1 when etcd has lost data that it had told this process: restart "
                     "no owner, restore a snapshot.", [({}, int(bool(self.metadata.rewound)))])  # fmt: skip
        yield from self.steps.metrics()

    async def leave(self) -> None:
        """The opposite. What was never begun does not mind."""
        if self.joined:
            await self._applied.stop()
            await self.membership.withdraw()
            await self.config.stop()
            await self.table.stop()
        await self.dialer.close()
        await self.metadata.close()
        if self.tracing is not None:
            await asyncio.to_thread(self.tracing.stop)

    def hang_up(self) -> None:
        """SIGHUP."""
        log.warning("SIGHUP does nothing: live settings of a cluster are in etcd (stampede cluster settings set …)")

    def fail(self, why: str) -> None:
        if not self.failed.done():
            self.failed.set_result(why)

    # ── told by the cluster ────────────────────────────────────────────────────────────────────────

    async def on_lost(self, why: str) -> None:
        """We were declared dead; back when nothing is done in our name any more."""
        log.warning("declared dead: %s", why)

    def on_registered(self) -> None:
        """We are a member (again)."""

    def barred(self) -> str:
        """Why this process may not be a member now; "": it may. Its peers refuse one whose certificate is revoked: an
        owner would be handed slots that it can serve nobody, an edge has its part of quotas and clients that it can
        serve nothing."""
        return self.dialer.revoked()

    def on_refused(self, error: BrokerError) -> None:
        log.critical("%s", error)
        self.fail(str(error))

    def on_engine_settings(self, settings: EngineSettings) -> None:
        """Other settings of addresses."""

    def on_permissions(self, permissions: Tables) -> None:
        """Others may do what they may do."""

    def on_bridges(self, bridges: Tables) -> None:
        """Other bridges to other brokers."""

    def on_quotas(self, quotas: Tables) -> None:
        """Other limits of users, virtual hosts and addresses of clients."""

    def on_users(self, users: Mapping[str, UserEntry]) -> None:
        """Other users."""


def advertised(settings: Settings, port: int) -> str:
    """host:port at which other components reach this one."""
    cluster = settings.cluster
    if cluster.advertise:
        return cluster.advertise
    return f"{_bracketed(cluster.host)}:{port}"


def advertised_admin(settings: Settings) -> str:
    """host:port at which others reach this process's admin port, "" = it has none with a known number."""
    admin = settings.admin
    if admin.port <= 0:
        return ""
    if admin.host not in ("", "0.0.0.0", "::"):
        return f"{_bracketed(admin.host)}:{admin.port}"
    host = settings.cluster.advertise.rpartition(":")[0] or socket.gethostname()
    return f"{host}:{admin.port}"


def advertised_reads(settings: Settings, port: int) -> str:
    """host:port at which others reach this process's read API, "" = it has none."""
    if port <= 0:
        return ""
    host = settings.log_reads.host
    if host in ("", "0.0.0.0", "::"):
        host = settings.cluster.advertise.rpartition(":")[0] or settings.cluster.host
    return f"{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    """As it stands in front of a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and host[0] != "[" else host
