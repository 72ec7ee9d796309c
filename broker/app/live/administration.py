"""The API for operators, wired: who may, what there is, and this process itself.

Rule: only wiring; what the API does is admin/api's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker import __version__
from broker.admin.api.audit import ProcessAnswers
from broker.admin.api.ports import ConfigPort, ElsewherePort, May, Owners, TokensPort, TopologyPort
from broker.admin.api.server import Api
from broker.admin.desk.desk import Desk
from broker.admin.management.destination_watch import DestinationWatch
from broker.admin.management.kept_quotas import Apart, KeptQuotas
from broker.admin.management.management import MessageManagement
from broker.admin.management.notifications import Notifications
from broker.admin.management.queue_names import KnownQueues
from broker.admin.server import AdminServer
from broker.config.catalogue import leaves
from broker.config.describe import shown
from broker.config.settings import Settings
from broker.core.commands import Command
from broker.core.errors import Code, RefusedError
from broker.core.memory import Memory
from broker.core.message import Run
from broker.core.virtual_host import HOST, VirtualHost, split
from broker.edge.access.auth import Authenticator, refusal
from broker.edge.access.client_ids import fronts
from broker.edge.access.listener import Listeners
from broker.edge.connection_views import Clients
from broker.edge.edge import Edge
from broker.edge.rights.permissions import Permissions
from broker.edge.session.compressing import Inflating, length_of
from broker.edge.transport.channel import next_connection_id
from broker.engine.address.address_settings import Matcher
from broker.link.owner_port import BodyReader
from broker.seams.clock import SystemClock

from .live import LiveSettings, rows
from .reading import peer_as_channel


class Users:
    """As for STOMP (admin/api/ports.LoginsPort). permissions: those of now."""

    def __init__(self, auth: Authenticator, permissions: Callable[[], Permissions]) -> None:
        self._auth = auth
        self._permissions = permissions

    @property
    def has_users(self) -> bool:
        return self._auth.has_users

    async def login(self, login: str, passcode: str, peer: str) -> str:
        if login.startswith(HOST):
            raise RefusedError(Code.LOGIN_FAILED, refusal(login))  # users of virtual hosts are clients alone
        principal = self._auth.try_now(login, passcode, peer)
        if principal is None:
            principal = await self._auth.authenticate(login, passcode, peer_as_channel(peer))
        return principal.name

    def groups(self, user: str) -> Sequence[str]:
        return self._auth.groups(user)

    def knows(self, user: str) -> bool:
        return self._auth.knows(user)

    def manages(self, groups: Sequence[str]) -> May:
        return self._permissions().table("manage", tuple(groups))

    def rights(self, groups: Sequence[str], address: str, queue: str | None) -> list[dict[str, Any]] | None:
        rights = self._permissions().rights(tuple(groups))
        if rights is None:
            return None
        return [
            {"operation": operation, "allowed": allowed, "entry": match, "groups": sorted(named)}
            for operation, allowed, match, named in rights.explained(address, queue)
        ]


class ThisNode:
    """admin/api/ports.ProcessPort. ready: as /readyz has it."""

    def __init__(
        self,
        role: str,
        id: str,
        settings: Callable[[], Settings],
        ready: Callable[[], tuple[bool, dict[str, Any]]],
        has_users: Callable[[], bool],
        memory: Memory,
        live: LiveSettings | None = None,
    ) -> None:
        self._role = role
        self._id = id
        self._settings = settings
        self._ready = ready
        self._has_users = has_users
        self._memory = memory
        self._live = live
        self._started = SystemClock().wall_ms()

    def about(self) -> dict[str, Any]:
        ready, state = self._ready()
        memory = {"limit": self._memory.limit, "queues": self._memory.queues, "connections": self._memory.sessions}
        return {
            "id": self._id,
            "role": self._role,
            "version": __version__,
            "started": self._started,
            "ready": ready,
            "state": state,
            "users": self._has_users(),
            "memory": memory,
        }

    def settings(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name, value, source, restart in rows(self._settings(), self._live):
            leaf = leaves()[name]
            text = value if leaf.kind is dict else shown(leaf, value).strip('"')
            default = leaf.default if leaf.kind is dict else shown(leaf, leaf.default).strip('"')
            found.append(
                {
                    "name": name, "value": text, "unit": leaf.unit, "default": default, "help": leaf.help,
                    "why": leaf.why, "source": source, "restart": restart,
                }
            )  # fmt: skip
        return found

    def dead_letter_addresses(self) -> list[str]:
        match = Matcher(self._settings().engine)
        return sorted({*match.values("dead_letter_address"), *match.values("expiry_address")} - {""})


def api(
    node: ThisNode,
    admin: AdminServer,
    settings: Settings,
    owners: Owners,
    edge: Edge,
    listeners: Listeners,
    auth: Authenticator,
    submit: Callable[[list[Command]], bool],
    config: ConfigPort | None = None,
    topology: TopologyPort | None = None,
    tokens: TokensPort | None = None,
    elsewhere: ElsewherePort | None = None,
    apart: Apart | None = None,
) -> Api:
    """The API of this process. submit: commands to the owners, as its edge gives them.
    config: what can be changed while it runs, if that is this process's affair.    topology: of its cluster.
    tokens: of machines, if it keeps some.    elsewhere: connections of other processes of this broker.
    apart: those that count for its quotas."""
    desk = Desk(submit, next_connection_id, edge.next_consumer)
    edge.give_others_to(desk.on_effect)
    name = elsewhere.own_name if elsewhere is not None else ""
    clients = ProcessAnswers(Clients(edge, listeners.rows, name), name)

    def open_body(slot: int, run: Run) -> tuple[BodyReader, int]:
        assert run.blob is not None
        reader, length = edge.port.read_body(slot, run.blob), length_of(run)
        return reader if length == run.blob.length else Inflating(reader, edge.beats), length

    if elsewhere is not None:
        elsewhere.answered_by(clients.answer)
    made = Api(
        settings.admin,
        owners,
        clients,
        Users(auth, lambda: edge.permissions),
        node,
        admin.steps.kind("api"),
        settings.engine.wildcard_delimiter,
        desk,
        SystemClock(),
        open_body,
        config,
        topology,
        tokens,
        elsewhere,
    )
    edge.managed_by(MessageManagement(made.gate, made.routes(), desk).manage)
    queues = KnownQueues(owners, settings.engine.wildcard_delimiter)
    edge.queue_wildcards.found_by(queues.find)
    edge.stream_ends.found_by(queues.find_end)
    kept = KeptQuotas(owners, edge.quotas, SystemClock(), lambda user: _fronts(settings, user), apart)
    kept.start()
    made.ends(kept.stop)
    if settings.edge.notifications:
        told = Notifications(desk, node.about()["id"], SystemClock().wall_ms)
        edge.notified_by(told.notify)
        delimiter = settings.engine.wildcard_delimiter
        told.watch(DestinationWatch(owners, SystemClock(), delimiter, told.notify, lambda: edge.quotas.first))
        admin.add(told)
    return made


def _fronts(settings: Settings, user: str) -> list[str]:
    """What names of durable subscriptions of a user begin with, on any port."""
    host, local = split(user)
    inside = VirtualHost(host, settings.engine.wildcard_delimiter).inside
    patterns = {settings.edge.client_ids, *(port.get("client_ids", "") for port in settings.acceptors.values())}
    return [inside(front) for each in sorted(patterns - {""}) for front in fronts(each, local)]
