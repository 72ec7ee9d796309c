"""`stampede edge`: speaks STOMP, keeps nothing. Owners do the rest, wherever they are.

Rule: only wiring and life cycle. Ready: listening, the slot table names leaders, and nothing of the live configuration
was unreadable from the start. SIGTERM: not ready any
more, stop accepting, finish what is in flight, tell clients, close within drain_timeout_s.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from broker import __version__
from broker.admin.api.fan_out import OtherEdges, Spread
from broker.admin.api.new_partitions import NewPartitions
from broker.admin.api.server import Api
from broker.admin.server import AdminServer
from broker.bridge.bridges import Bridges
from broker.cluster.bridge_holders import BridgeHolders
from broker.cluster.config import Tables, UserEntry
from broker.cluster.config_writer import ConfigWriter
from broker.cluster.load import EVERY_S, Loads
from broker.cluster.redis.redis_shared import RedisShared
from broker.cluster.subscriptions import SubscriptionDirectory
from broker.config.permissions import groups_of
from broker.config.ports import hosts, logins_elsewhere
from broker.config.settings import EngineSettings, Settings
from broker.core.metrics import MetricSource
from broker.core.slots import SlotRecord
from broker.edge.access.auth import FileAuthenticator, TableAuthenticator, is_loopback, users_file
from broker.edge.access.external_logins import ExternalLogins
from broker.edge.access.listener import Listeners, listen_host
from broker.edge.access.users import User
from broker.edge.destinations.directory import AskedNames, Directory, LocalClientIds
from broker.edge.destinations.zone_affinity import ZoneAffinity
from broker.edge.edge import Edge
from broker.edge.transport.draining import excess
from broker.edge.transport.timers import TimerWheel
from broker.link.bodies.body_spool import BodySpool
from broker.link.edge_side.cluster_port import ClusterPort
from broker.link.edge_side.reachability import LOOK_S
from broker.owner.commit.io_thread import IoThread
from broker.seams.entropy import number, token
from broker.seams.files import fingerprint, temporary_file
from broker.seams.loop_watchdog import Steps

from .live.administration import ThisNode, api
from .live.bridging import inside_of
from .live.cluster_live import ClusterLive
from .live.cluster_tokens import ClusterTokens
from .live.cluster_users import ClusterUsers
from .member import ClusterProcess, advertised_admin
from .process import process
from .process.graceful_stop import drained
from .topology import Topology

log = logging.getLogger("stampede.edge")


class EdgeProcess(ClusterProcess):
    """One edge in this process and loop."""

    kind = "edge"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._started = self.settings
        self.auth: FileAuthenticator | TableAuthenticator | None = None
        self.edge: Edge | None = None
        self._outside: ExternalLogins | None = None
        self._ready = False
        self._serving = False
        """`listeners` and `admin` are there, and may be open."""
        self._addresses: dict[str, str] = {}
        self._zones: dict[str, str] = {}
        """Of owners, as last heard."""
        self.near = ZoneAffinity()
        self._balancing: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._loads: Loads
        self._newcomers: NewPartitions | None = None
        self.bridges: Bridges | None = None
        self._holders: BridgeHolders | None = None

    async def start(self) -> None:
        """Joins the cluster and listens, or leaves nothing behind. Raises BrokerError."""
        settings = self.settings
        self.shared = RedisShared(settings.redis, settings.edge.client_id_in_use, self.boot, self.clock, self.id) if (
            settings.redis.url
        ) else None  # fmt: skip
        self.names = SubscriptionDirectory(self.metadata, self.keys)
        client_ids = self.shared.client_ids if self.shared is not None else None
        self._asked = AskedNames(self.names)
        directory = Directory(client_ids or LocalClientIds(settings.edge.client_id_in_use), self._asked)
        self.beats = TimerWheel(self.loop)
        self._io = IoThread(self.loop, "bodies")
        most = settings.cluster.kept_body_bytes
        keeper = BodySpool(self._io, partial(temporary_file, settings.data), most) if most else None
        self.port = ClusterPort(
            settings, self.dialer, self.clock, self.loop.call_soon, self.loop.call_later, self.id, self.boot,
            number(63), keeper=keeper,
        )  # fmt: skip
        self.table.listen(self._on_slot)
        try:
            if self.shared is not None:
                await self.shared.start()
            else:
                log.info("no redis.url: client ids, rates and logins are this edge's own")
            await self.names.start()
            await self.join("", advertised_admin(settings))
            self.membership.listen(self._on_members)
            self._on_members()
            self._reporting = self.loop.create_task(self._report())
            self.auth = self._authenticator()
            tokens = self.shared.tokens if self.shared is not None else None
            port = None if self.tracing is None else self.tracing.port(self.port)
            self.edge = Edge(
                self.settings, port or self.port, self.clock, self.beats, self.auth, token(4), directory, tokens,
                self.memory, self.near,
            )  # fmt: skip
            if self.tracing is not None and port is not None:
                self.tracing.edge(self.edge, port)
            self._share_quotas()
            if self.shared is not None:
                self.shared.counts.start(self.edge.quotas, self._other_edges)
            self._outside = ExternalLogins(settings, self.clock, self.edge.reconsider, self.edge.marks)
            self.edge.known_outside(self._outside)
            self._outside.start()
            host = listen_host(settings.edge, self.auth.has_users)
            self.bridges = Bridges(inside_of(self.edge))
            self.listeners = Listeners(self.edge, settings, self.loop, host, self.auth.has_users)
            told: list[MetricSource] = [self.edge, self.port, self.listeners, self.config, self.memory, self,
                                       self.bridges]  # fmt: skip
            self.admin = AdminServer(settings.admin, told, self.readiness)
            if self.tracing is not None:
                self.admin.add(self.tracing)
            offered = self._api(self.edge, self.auth)
            self.admin.offer(offered)
            self._newcomers = NewPartitions(Spread(self.port), offered.desk, self.names.address_of)
            self.edge.grow_with(self._newcomers)
            self._serving = True
            await self.listeners.start()
            await self._start_bridges(self.bridges)
        except BaseException:
            await self._close()
            raise
        self._ready = True

    async def _start_bridges(self, bridges: Bridges) -> None:
        """One edge of the cluster runs each."""
        holders = BridgeHolders(self.metadata, self.keys, self.membership, bridges.wanted, bridges.look)
        self._holders = holders
        bridges.run_if(holders.held)
        bridges.configure(self.settings.bridges)
        await holders.start()
        bridges.start()

    def _authenticator(self) -> FileAuthenticator | TableAuthenticator:
        """Users of a file if there is one, else those of the cluster. Without any, everybody may log in as long as this
        process runs only if nobody but this machine can reach it: that is decided here, once. Where
        the host of a port lets others in, nobody gets in until there is a user."""
        settings = self.settings
        path = users_file(settings)
        logins = self.shared.logins if self.shared is not None else None
        if settings.edge.users_file or fingerprint(path) is not None:
            return FileAuthenticator(path, self.clock)
        users = users_of(self.config.users)
        # A user that cannot be read is one all the same: what is not open to everybody must not become so.
        none = not users and not self.config.unreadable("users")
        elsewhere = logins_elsewhere(settings)
        private = all(is_loopback(host) for host in hosts(settings).values())
        return TableAuthenticator(users, self.clock, open_when_empty=none and private and not elsewhere, shared=logins)

    def _api(self, edge: Edge, auth: FileAuthenticator | TableAuthenticator) -> Api:
        """For operators: the whole cluster's."""
        node = ThisNode("edge", self.id, lambda: self.settings, self.readiness, lambda: auth.has_users, self.memory)
        topology = Topology(self.metadata, self.keys, self.table, self.membership)
        writer = ConfigWriter(self.metadata, self.keys, self.config, self.membership)
        file = users_file(self.settings) if isinstance(auth, FileAuthenticator) else ""
        administrators = groups_of(self.settings.admin.administrators)
        users = ClusterUsers(lambda: self.config.users, writer, administrators, file)
        return api(
            node, self.admin, self.settings, Spread(self.port), edge, self.listeners, auth, self.port.submit,
            ClusterLive(self._started, lambda: self.settings, self.config, writer, users), topology,
            ClusterTokens(self.config, writer), OtherEdges(self.port, self.id, self._other_edges),
        )  # fmt: skip

    async def start_admin(self) -> None:
        await self.admin.start()
        assert self.edge is not None
        self._loads = Loads(self.metadata, self.keys, self.membership, self.edge.clients)
        await self._loads.start()
        self._balancing = self.loop.create_task(self._balance())

    async def _balance(self) -> None:
        """Says how many connections there are, and ends some when that is far more than other edges have."""
        settings = self.settings.edge
        while True:
            await self._loads.tell()
            await asyncio.sleep(EVERY_S)
            assert self.edge is not None
            if not self._ready or not settings.rebalance_above:
                continue
            count = self.edge.clients()
            others = [self._loads.others.get(name, 0) for name in self.membership.edges if name != self.id]
            many = excess(count, others, settings.rebalance_above, settings.rebalance_least)
            if many:
                log.info("%d connections here, %s at the others: %d are asked to move", count, others, many)
                self.edge.shedding.shed(many, settings.rebalance_rate, "connect again: other edges have more room")

    async def _report(self) -> None:
        """Tells the cluster which owners are not reached from here."""
        while True:
            await asyncio.sleep(LOOK_S)
            owners = {owner.id: owner.address for owner in self.membership.owners.values()}
            await self.membership.tell_unreached(self.port.unreached(owners))

    async def stop(self) -> None:
        self._ready = False
        if self._balancing is not None:
            self._balancing.cancel()
            await self._loads.stop()
        if self.bridges is not None:
            await self.bridges.stop()
        assert self.edge is not None
        self.listeners.stop_accepting()
        await drained(self.edge, self.settings.edge.drain_timeout_s)
        await self._close()

    async def _close(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
        if self._holders is not None:
            await self._holders.stop()
        if self.auth is not None:
            self.auth.close()
        if self._outside is not None:
            self._outside.close()
        self.beats.stop()
        if self._newcomers is not None:
            self._newcomers.stop()
        if self._serving:
            await self.listeners.close()
            await self.admin.stop()
        self.port.close()
        self._io.stop()
        await self._asked.close()
        await self.names.stop()
        await self.leave()
        if self.shared is not None:
            await self.shared.close()

    # ── the cluster ────────────────────────────────────────────────────────────────────────────────

    def _on_slot(self, slot: int, record: SlotRecord | None) -> None:
        if record is None:
            return  # nobody's plan: go on as before
        if self.settings.edge.prefer_zone:
            self.near.led(slot, bool(record.leader) and self._zone_of(record.leader) == self._started.cluster.zone)
        address = self._addresses.get(record.leader)
        if address:
            self.port.route(slot, record.epoch, record.leader, address)
        else:
            self.port.offline(slot, record.shelved)

    def _zone_of(self, owner: str) -> str | None:
        """None: unknown, as ours may be."""
        return self._zones.get(owner) or None

    def _other_edges(self) -> list[str]:
        return [name for name in self.membership.edges if name != self.id]

    def _share_quotas(self) -> None:
        if self.edge is not None:
            edges = sorted({*self.membership.edges, self.id})
            self.edge.quotas.shared_by(len(edges), edges.index(self.id))

    def _on_members(self) -> None:
        """An owner has come, gone, or listens elsewhere; or an edge has."""
        self._share_quotas()
        addresses = {owner.id: owner.address for owner in self.membership.owners.values()}
        changed = {id for id in {*addresses, *self._addresses} if addresses.get(id) != self._addresses.get(id)}
        zones = {owner.id: owner.zone for owner in self.membership.owners.values()}
        changed |= {id for id, zone in zones.items() if zone != self._zones.get(id)}
        self._zones |= zones
        own = self._started.cluster.zone
        self.port.far(frozenset([id for id, zone in self._zones.items() if own and zone and zone != own]))
        # The address of one that is gone stays: while its stream lives it serves, whatever became of its lease.
        self._addresses |= addresses
        for slot, record in self.table.records.items():
            if record.leader in changed:
                self._on_slot(slot, record)

    def on_engine_settings(self, settings: EngineSettings) -> None:
        self.settings = replace(self.settings, engine=settings)
        if self.edge is not None:
            self.edge.configure(settings)

    def on_permissions(self, permissions: Tables) -> None:
        self.settings = replace(self.settings, edge=replace(self.settings.edge, permissions=dict(permissions)))
        if self.edge is not None:
            self.edge.permit(permissions)

    def on_quotas(self, quotas: Tables) -> None:
        own = {name: dict(table) for name, table in quotas.items()}
        self.settings = replace(self.settings, edge=replace(self.settings.edge, quotas=own))
        if self.edge is not None:
            self.edge.limit(quotas)

    def on_bridges(self, bridges: Tables) -> None:
        self.settings = replace(self.settings, bridges={name: dict(table) for name, table in bridges.items()})
        if self.bridges is not None:
            self.bridges.configure(bridges)

    def on_users(self, users: Mapping[str, UserEntry]) -> None:
        if self.edge is not None and isinstance(self.auth, TableAuthenticator) and not (
            isinstance(self.auth, FileAuthenticator)
        ):  # fmt: skip
            self.edge.expel(self.auth.replace(users_of(users)))
            self.edge.authorise()

    # ── told to people ─────────────────────────────────────────────────────────────────────────────

    def readiness(self) -> tuple[bool, dict[str, str]]:
        """As /readyz has it."""
        led = sum([bool(record.leader) for record in self.table.records.values()])
        details = {"edge": "ok" if self._ready else "starting or stopping", "slots with a leader": f"{led} of 256"}
        details |= self.memory.details()
        barred = self.barred()
        if not self.membership.up:
            details["cluster"] = f"not registered: {barred}".removesuffix(": ")
        if lost := self.metadata.rewound:
            details["etcd"] = lost
        if missed := ", ".join(self.membership.me.unreached):
            details["owners"] = f"cannot be reached from here: {missed}"
        if bad := self.config.told():
            details["configuration"] = bad
        # Edges that have read what is missing here serve with it: clients are theirs until it is mended.
        # One whose certificate is revoked reaches no owner.
        return self._ready and led > 0 and not self.config.missing and not barred, details

    def watched(self) -> list[Steps]:
        """What edges do, and what owners tell them."""
        return [self.steps] if self.edge is None else [self.steps, self.edge.steps]

    def engines(self) -> tuple[()]:
        return ()

    def banner(self) -> list[str]:
        assert self.auth is not None
        lines = [f"Stampede {__version__} edge {self.id}"]
        lines += self.listeners.banner()
        lines += process.console(self.settings.admin)
        lines.append(f"  cluster                {self.settings.etcd.prefix} in etcd at {self.settings.etcd.endpoints}")
        if not self.auth.has_users:
            lines.append("  no users yet: only this machine can connect (stampede cluster users set NAME)")
        return lines


def users_of(entries: Mapping[str, UserEntry]) -> dict[str, User]:
    """The cluster's users as the edge knows users."""
    return {name: User(name, entry.hash, entry.groups, entry.previous) for name, entry in entries.items()}
