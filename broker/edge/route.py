"""Where a SEND goes: everything its headers say, worked out once per header block.

Rule: a Route is shared by all frames (and connections) whose header block says the same; it holds no
message. Raises RefusedError for headers that make no sense; the session turns that into an ERROR.
"""

from __future__ import annotations

from broker.core.address import Routing
from broker.core.errors import Code, RefusedError
from broker.core.ids import slot_of
from broker.core.message import DEFAULT_PRIORITY, DURABLE
from broker.wire.events import Head

from .dialect import resolve, whole_number, yes

MAX_ROUTES = 4096
"""Entries of the table; it is cleared when full. 4096 × about 400 B."""
FAR_FUTURE = 1 << 53
"""Largest epoch millisecond accepted: what a JavaScript client can still count to."""


READ = ("destination", "destination-type", "persistent", "priority", "expires", "ttl")
"""Headers of SEND that decide the route; all of them are in wire.shape.SIGNIFICANT."""


class Route:
    """Address and delivery options of a SEND. `ttl`: milliseconds from arrival, 0 = by `expires` alone."""

    __slots__ = ("address", "expires", "flags", "priority", "queue", "routing", "slot", "ttl")

    def __init__(
        self,
        slot: int,
        address: str,
        routing: Routing,
        queue: str | None,
        flags: int,
        priority: int,
        expires: int,
        ttl: int,
    ) -> None:
        self.slot = slot
        self.address = address
        self.routing = routing
        self.queue = queue
        self.flags = flags
        self.priority = priority
        self.expires = expires
        self.ttl = ttl


class Routes:
    """Equal routes are one object, so that neighbours of one read can be told apart by identity."""

    __slots__ = ("_table",)

    def __init__(self) -> None:
        self._table: dict[tuple[object, ...], Route] = {}

    def of(self, head: Head) -> Route:
        """The route of a header block; also parked in head.route."""
        headers = head.headers
        key = tuple(map(headers.get, READ))
        route = self._table.get(key)
        if route is None:
            route = self._make(headers)
            if len(self._table) >= MAX_ROUTES:
                self._table.clear()
            if route.expires == 0:
                self._table[key] = route
        head.route = route
        return route

    @staticmethod
    def _make(headers: dict[str, str]) -> Route:
        destination = headers.get("destination")
        if destination is None:
            raise RefusedError(Code.MISSING_HEADER, "SEND needs a destination header")
        target = resolve(destination, headers.get("destination-type"), "destination-type")
        priority = whole_number(headers, "priority", 0, 9)
        return Route(
            slot_of(target.address),
            target.address,
            target.routing,
            target.queue,
            DURABLE if yes(headers, "persistent") else 0,
            DEFAULT_PRIORITY if priority is None else priority,
            whole_number(headers, "expires", 0, FAR_FUTURE) or 0,
            whole_number(headers, "ttl", 1, FAR_FUTURE) or 0,
        )
