"""An entrance: what all connections of one acceptor share, whatever socket they have.

Rule: made once per acceptor, at start; nothing here is looked up per message. Entrances with the same prefixes share
what is remembered of header blocks and routes. Must not know sockets (listener.py opens them) nor sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace

from broker.config.acceptor import AcceptorSettings
from broker.config.addressing import AddressSettings
from broker.config.ports import OF_EDGE, prefixes
from broker.config.settings import EdgeSettings, WireSettings
from broker.config.virtual_hosts import VirtualHostSettings
from broker.core.errors import Code, RefusedError
from broker.core.virtual_host import DEFAULT, VirtualHost
from broker.wire.memo import Memo
from broker.wire.rules import Leniency

from ..destinations.dialect import Dialect, Homes
from ..destinations.dialects import Match, choose
from ..destinations.send_route import RouteCache
from ..destinations.zone_affinity import ZoneAffinity
from .login_places import Strangers


class Count:
    """Connections.    most   -1: no limit."""

    __slots__ = ("most", "open")

    def __init__(self, most: int = -1) -> None:
        self.open = 0
        self.most = most

    def came(self) -> None:
        """One more."""
        self.open += 1

    def went(self) -> None:
        """One less."""
        self.open -= 1

    @property
    def full(self) -> bool:
        """One more would be too many."""
        return -1 < self.most <= self.open


class Entrance:
    """One acceptor at work, for the clients of one virtual host (before CONNECT, of that of the acceptor).

    name    of the acceptor; the ports of [edge] are tcp, tls, ws and wss.
    wire    bounds of the parser for its connections.
    leniency   what its clients may do against the rules of STOMP.
    hosts   that CONNECT may name; none: any.
    ways    how its clients prove who they are, in order (proving.py).
    members   connections of the virtual host that have logged in, by whatever acceptor.
    strangers   those of them that have not logged in; None: it has no limit of its own."""

    __slots__ = (
        "_came", "dialect", "hosts", "leniency", "members", "memo", "name", "routes", "settings", "strangers", "ways",
        "wire",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        settings: AcceptorSettings,
        wire: WireSettings,
        dialect: Dialect,
        memo: Memo,
        routes: RouteCache,
    ) -> None:
        self.name = name
        self.settings = settings
        self.wire = wire
        self.dialect = dialect
        self.memo = memo
        self.routes = routes
        self.leniency = Leniency(
            settings.subscribe_without_id, settings.nack_v10, settings.implicit_connect and bool(settings.default_user)
        )
        self.hosts = frozenset(prefixes(settings.virtual_hosts))
        self._came = Count(settings.connections_allowed)
        self.ways = prefixes(settings.login_by) or ("passcode",)
        self.members = Count()
        self.strangers = Strangers() if settings.connections_allowed >= 0 else None

    def to(
        self, dialect: Dialect, memo: Memo, routes: RouteCache, members: Count, ways: tuple[str, ...] = ()
    ) -> Entrance:
        """The same for the clients of another virtual host. ways: none: those of the acceptor."""
        other = copy(self)
        other.ways = ways or self.ways
        other.dialect, other.memo, other.routes, other.members = dialect, memo, routes, members
        return other

    @property
    def open(self) -> int:
        """Connections that came in by it."""
        return self._came.open

    def came(self) -> None:
        """One more connection."""
        self._came.came()

    def went(self) -> None:
        """One less."""
        self._came.went()

    @property
    def full(self) -> str:
        """Why the connection that has just come in is one too many; empty: it is not."""
        most = self.settings.connections_allowed
        if most < 0 or self.open <= most:
            return ""
        return f"{most} are open (acceptors.{self.name}.connections_allowed)"


class Entrances:
    """All of an edge, by name. `partitions`, `sending`: see RouteCache. `near`: which slots are
    preferred. `delimiter`: between the words of addresses.
    `match`: the settings of an address. `edge`: what it says of exchanges and virtual hosts.

    homes   of queues that the settings name."""

    def __init__(
        self,
        acceptors: Mapping[str, AcceptorSettings],
        wire: WireSettings,
        partitions: Callable[[str], int],
        sending: Callable[[str], int],
        delimiter: str = ".",
        match: Match = lambda address: AddressSettings(),
        edge: EdgeSettings | None = None,
        near: ZoneAffinity | None = None,
    ) -> None:
        edge = edge or EdgeSettings()
        self.homes = Homes()
        self._hosts: dict[str, str] = {}
        """What clients may call a virtual host → its name."""
        self._by_host: dict[tuple[str, str], Entrance] = {}
        self._refuses = edge.unknown_hosts == "refuse"
        members = {"": Count()}
        ways: dict[str, tuple[str, ...]] = {}
        self._hosts.update(dict.fromkeys([name.lower() for name in prefixes(edge.default_host_names)], ""))
        for host, table in edge.virtual_hosts.items():
            said = VirtualHostSettings(**table)
            members[host] = Count(said.max_connections)
            ways[host] = prefixes(said.login_by)
            self._hosts.update({name.lower(): host for name in (host, *prefixes(said.names))})
        self._shared: dict[tuple[object, ...], tuple[Memo, RouteCache]] = {}
        self._by_name: dict[str, Entrance] = {}
        for name, settings in acceptors.items():
            own = replace(wire, large_body_bytes=settings.large_body_bytes)
            for host, count in members.items():
                of = VirtualHost(host, delimiter) if host else DEFAULT
                dialect = choose(settings, delimiter, self.homes, match, edge.exchanges, of, edge.notifications)
                if dialect.key not in self._shared:
                    self._shared[dialect.key] = Memo(wire.memo_entries), RouteCache(partitions, dialect, sending, near)
                memo, routes = self._shared[dialect.key]
                if not host:
                    self._by_name[name] = Entrance(name, settings, own, dialect, memo, routes)
                self._by_host[name, host] = self._by_name[name].to(dialect, memo, routes, count, ways.get(host, ()))

    def __getitem__(self, name: str) -> Entrance:
        return self._by_name[name]

    def to_host(self, entrance: Entrance, asked: str | None, sni: str = "") -> Entrance:
        """By which a client of that acceptor goes on. asked: its `host` header. sni: the name in its TLS handshake.
        Raises RefusedError(UNKNOWN_HOST)."""
        host = entrance.settings.virtual_host
        if not host:
            names = [name.lower() for name in (asked, sni) if name]
            known = next((self._hosts[name] for name in names if name in self._hosts), None)
            if known is None and names and self._refuses:
                raise unknown_host(asked or sni)
            host = known or ""
        return self._by_host[entrance.name, host]

    @property
    def routes(self) -> RouteCache:
        """Of the ports of [edge]: for questions that no prefix has to do with."""
        return self._by_name[next(iter(OF_EDGE))].routes

    @property
    def paced(self) -> bool:
        """Has one of them a rate for single connections."""
        return any(entrance.settings.max_producer_rate >= 0 for entrance in self._by_name.values())

    def follow(self) -> None:
        """Messages for some addresses may go elsewhere now."""
        for _, routes in self._shared.values():
            routes.follow()


def unknown_host(name: str) -> RefusedError:
    """In RabbitMQ's words."""
    return RefusedError(Code.UNKNOWN_HOST, f"Virtual host '{name[:100]}' access denied")
