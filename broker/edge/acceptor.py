"""An entrance: what all connections of one acceptor share, whatever socket they have.

Rule: made once per acceptor, at start; nothing here is looked up per message. Entrances with the same prefixes share
what is remembered of header blocks and routes. Must not know sockets (listener.py opens them) nor sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from broker.config.acceptor import AcceptorSettings
from broker.config.addressing import AddressSettings
from broker.config.ports import OF_EDGE, prefixes
from broker.config.settings import WireSettings
from broker.wire.memo import Memo
from broker.wire.rules import Leniency

from .dialect import Dialect, Homes
from .dialects import Match, choose
from .login_places import Strangers
from .send_route import RouteCache


class Entrance:
    """One acceptor at work.

    name    of the acceptor; the ports of [edge] are tcp, tls, ws and wss.
    wire    bounds of the parser for its connections.
    leniency   what its clients may do against the rules of STOMP.
    hosts   that CONNECT may name; none: any.
    open    connections that came in by it.
    strangers   those of them that have not logged in; None: it has no limit of its own."""

    __slots__ = ("dialect", "hosts", "leniency", "memo", "name", "open", "routes", "settings", "strangers", "wire")

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
        self.open = 0
        self.strangers = Strangers() if settings.connections_allowed >= 0 else None

    def came(self) -> None:
        """One more connection."""
        self.open += 1

    def went(self) -> None:
        """One less."""
        self.open -= 1

    @property
    def full(self) -> str:
        """Why the connection that has just come in is one too many; empty: it is not."""
        most = self.settings.connections_allowed
        if most < 0 or self.open <= most:
            return ""
        return f"{most} are open (acceptors.{self.name}.connections_allowed)"


class Entrances:
    """All of an edge, by name. `partitions`, `sending`: see RouteCache. `delimiter`: between the words of addresses.
    `match`: the settings of an address. `exchanges`: edge.exchanges.

    homes   of queues that the settings name."""

    def __init__(
        self,
        acceptors: Mapping[str, AcceptorSettings],
        wire: WireSettings,
        partitions: Callable[[str], int],
        sending: Callable[[str], int],
        delimiter: str = ".",
        match: Match = lambda address: AddressSettings(),
        exchanges: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.homes = Homes()
        self._shared: dict[tuple[object, ...], tuple[Memo, RouteCache]] = {}
        self._by_name: dict[str, Entrance] = {}
        for name, settings in acceptors.items():
            dialect = choose(settings, delimiter, self.homes, match, exchanges or {})
            if dialect.key not in self._shared:
                self._shared[dialect.key] = Memo(wire.memo_entries), RouteCache(partitions, dialect, sending)
            own = replace(wire, large_body_bytes=settings.large_body_bytes)
            self._by_name[name] = Entrance(name, settings, own, dialect, *self._shared[dialect.key])

    def __getitem__(self, name: str) -> Entrance:
        return self._by_name[name]

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
