"""Where a SEND goes: everything its headers say, worked out once per header block.

Rule: a Route is shared by all frames (and connections) whose header block says the same; it holds no
message. Raises RefusedError for headers that make no sense; the session turns that into an ERROR.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from weakref import WeakSet
from zlib import crc32

from broker.core.address import RECURRING, Routing
from broker.core.errors import Code, RefusedError
from broker.core.ids import slot_of, slots_of
from broker.core.management import MANAGEMENT
from broker.core.message import DEFAULT_PRIORITY, DURABLE
from broker.engine.publishing.recurrence import Recurrence
from broker.wire.events import Head

from .dialect import FAR_FUTURE, MAX_COPIES, NOWHERE, Destination, Dialect, check_no_wildcard, not_named, whole_number
from .shown_destination import Shown
from .temporary import Private
from .zone_affinity import ZoneAffinity

MAX_ROUTES = 4096
"""Entries of the table; it is cleared when full. 4096 × about 400 B."""

READ = (
    "destination",
    "destination-type",
    "persistent",
    "priority",
    "expires",
    "ttl",
    "AMQ_SCHEDULED_DELAY",
    "AMQ_SCHEDULED_TIME",
)
"""Headers of SEND that decide the route; all of them are in wire.heads.SIGNIFICANT."""


class Split:
    """The slots of a split address, which take turns run by run, those that are near alone where there are any; a group
    of messages always goes to the same one."""

    __slots__ = ("_near", "_seen", "_turn", "_turns", "slots")

    def __init__(self, slots: tuple[int, ...], near: ZoneAffinity | None = None) -> None:
        self.slots = slots
        self._near = near or ZoneAffinity()
        self._turn, self._turns, self._seen = 0, slots, 0

    def next(self) -> int:
        """Whose turn it is."""
        if self._near.version != self._seen:
            self._turns, self._seen = self._near.among(self.slots), self._near.version
        self._turn = turn = (self._turn + 1) % len(self._turns)
        return self._turns[turn]

    def of(self, group: bytes) -> int:
        """The slot of the messages with this JMSXGroupID."""
        return self.slots[crc32(group) % len(self.slots)]


class Route:
    """Address and delivery options of a SEND. `ttl`: milliseconds from arrival, 0 = by `expires` alone.

    again    each message rests at `$scheduled.` and the address, and comes from there when it is time; None: no.
    copies   routes of which each gets the message, this one among them; none: this one alone.
    create   may the address be made on demand.
    private  it names temporary destinations, which are each connection's own: what they are stands in its session.
    due     epoch milliseconds before which it is not delivered; 0: `delay` milliseconds after it came.
    timed   any of these four is set.
    shown   what its MESSAGEs say for the destination, in place of what the frame says; None: just that.
    split   of an address with several partitions, else None; `slot` is the first of them.
    near    which slots are preferred where it does not matter."""

    __slots__ = (
        "__weakref__", "address", "again", "copies", "create", "delay", "due", "expires", "flags", "near", "priority",
        "private", "queue", "routing", "shown", "slot", "split", "timed", "ttl",
    )  # fmt: skip

    def __init__(
        self,
        slots: tuple[int, ...],
        address: str,
        routing: Routing,
        queue: str | None,
        flags: int,
        priority: int,
        expires: int,
        ttl: int,
        due: int = 0,
        delay: int = 0,
        near: ZoneAffinity | None = None,
    ) -> None:
        self.address = address
        self.routing = routing
        self.queue = queue
        self.flags = flags
        self.priority = priority
        self.expires = expires
        self.ttl = ttl
        self.due = due
        self.delay = delay
        self.timed = bool(expires or ttl or due or delay)
        self.private: Private | None = None
        self.create = True
        self.again: Recurrence | None = None
        self.copies: tuple[Route, ...] = ()
        self.shown: Shown | None = None
        self.near = near
        self.place(slots)

    def towards(self, address: str, slots: tuple[int, ...]) -> Route:
        """The same to another address."""
        other = copy(self)
        other.address = address
        other.place(slots)
        return other

    def to(self, target: Destination, slots: tuple[int, ...], again: Recurrence | None) -> Route:
        """The same to another target, and when."""
        if again is not None:
            slots = (slot_of(RECURRING + target.address),)
        other = self.towards(target.address, slots)
        other.routing, other.queue, other.create = target.routing, target.queue, target.create
        other.shown = Shown(target.shown, keep=True) if target.shown else None
        if again is not None:
            other.delay = again.delay or again.period
            other.again = again._replace(
                address=target.address, routing=target.routing, queue=target.queue, durable=bool(self.flags & DURABLE)
            )
        return other

    def place(self, slots: tuple[int, ...]) -> None:
        """Where the messages go from now on."""
        self.slot = slots[0]
        self.split = Split(slots, self.near) if len(slots) > 1 else None


class RouteCache:
    """Equal routes are one object, so that neighbours of one read can be told apart by identity.

    partitions   how many an address has.    sending   how many of them messages go to (None: to all).
    dialect      what destinations mean.    near   which slots are preferred where it does not matter."""

    __slots__ = ("_all", "_dialect", "_near", "_partitions", "_read", "_sending", "_table")

    def __init__(
        self,
        partitions: Callable[[str], int],
        dialect: Dialect,
        sending: Callable[[str], int] | None = None,
        near: ZoneAffinity | None = None,
    ) -> None:
        self._near = near
        self._partitions = partitions
        self._sending = sending or partitions
        self._dialect = dialect
        self._read = READ + dialect.read
        self._table: dict[tuple[object, ...], Route] = {}
        self._all: WeakSet[Route] = WeakSet()
        """Also those that only header blocks still refer to."""

    def of(self, head: Head) -> Route:
        """The route of a header block; also parked in head.route."""
        headers = head.headers
        self._dialect.check_send(headers)
        private = self._dialect.private(headers)
        key = (*map(headers.get, self._read), private)
        route = self._table.get(key)
        if route is None:
            route = self._make(headers, private)
            if len(self._table) >= MAX_ROUTES:
                self._table.clear()
            if route.expires == 0 and route.due == 0:
                self._table[key] = route
        # Order is promised to an address; what has a part in something larger keeps its place among all others.
        head.goes(route, None if route.private is not None or "transaction" in headers else route.address)
        return route

    def _copy(self, route: Route, targets: tuple[Destination, ...], again: Recurrence | None) -> None:
        if len(targets) > MAX_COPIES:
            raise RefusedError(Code.BAD_DESTINATION, f"{len(targets)} destinations; one SEND has {MAX_COPIES} at most")
        for target in targets:
            check_no_wildcard(target, self._dialect)
        route.copies = tuple([route.to(target, self.slots(target.address), again) for target in targets])
        route.private = route.private or Private()
        self._all.update(route.copies)

    def slots(self, address: str) -> tuple[int, ...]:
        """All slots that have a part of the address."""
        return slots_of(address, self._partitions(address))

    def targets(self, address: str) -> tuple[int, ...]:
        """The slots that messages for the address go to."""
        return slots_of(address, self._sending(address))

    def follow(self) -> None:
        """Addresses may be split otherwise now: every route in use follows."""
        for route in list(self._all):
            slots = self.targets(route.address)
            if slots != (route.split.slots if route.split else (route.slot,)):
                route.place(slots)

    def _make(self, headers: dict[str, str], private: Private | None) -> Route:
        destination = headers.get("destination")
        if destination is None:
            raise RefusedError(Code.MISSING_HEADER, "SEND needs a destination header", "destination")
        if private is not None and private.own:
            if not self._dialect.names_temporaries:
                raise not_named(destination, "SEND")
            target = NOWHERE
        elif private is not None and private.manages:
            target = Destination(MANAGEMENT, Routing.ANYCAST, None)
        else:
            target = self._dialect.resolve(destination, headers.get("destination-type"), "destination-type")
            check_no_wildcard(target, self._dialect)
        priority = self._dialect.priority(headers)
        route = Route(
            self.targets(target.address),
            target.address,
            target.routing,
            target.queue,
            DURABLE if self._dialect.durable(headers) else 0,
            DEFAULT_PRIORITY if priority is None else priority,
            whole_number(headers, "expires", 0, FAR_FUTURE) or 0,
            self._dialect.ttl(headers),
            max(whole_number(headers, "AMQ_SCHEDULED_TIME", -FAR_FUTURE, FAR_FUTURE) or 0, 0),
            max(whole_number(headers, "AMQ_SCHEDULED_DELAY", -FAR_FUTURE, FAR_FUTURE) or 0, 0),
            self._near,
        )
        route.private, route.create = private, target.create
        again = self._dialect.recurrence(headers, route.delay)
        if again is not None and not target.address:
            raise RefusedError(Code.BAD_DESTINATION, "a temporary destination gets each message once: send it again")
        if target.more or again is not None:
            self._copy(route, (target, *target.more), again)
        self._all.add(route)
        return route
