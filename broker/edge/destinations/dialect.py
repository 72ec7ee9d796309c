"""What destinations and SEND/SUBSCRIBE headers mean.

With the default prefixes `/queue/x` is the anycast side of address x, `/topic/x` its multicast side, plain `x` what
the address settings say; `address::queue` names one queue. Anything else that begins with "/" is refused: a typo must
not become a queue. An acceptor may have other prefixes, hence a dialect of its own.

Rule: names in, address-model nouns out; pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Self

from broker.config.ports import prefixes
from broker.core.address import RECURRING, TEMPORARY, Routing
from broker.core.errors import Code, RefusedError
from broker.core.management import MANAGEMENT
from broker.core.notices import NOTIFICATIONS
from broker.core.strict_numbers import integer
from broker.core.virtual_host import DEFAULT, HOST, VirtualHost, split
from broker.engine.address.address_settings import is_pattern
from broker.engine.publishing.recurrence import Recurrence
from broker.wire.rules import DURABLE_NAMES

from .foreign_headers import check_address, check_destination, check_send, check_subscribe
from .temporary import THEIRS, Private, address_of, private_of

FAR_FUTURE = 1 << 53
"""Largest epoch millisecond accepted: what a JavaScript client can still count to."""
MAX_COPIES = 256
"""Destinations that one SEND may have: one transaction."""
MAX_DESTINATION = 1024
"""Characters; keeps one destination from filling a page of the log's snapshot."""


MAX_WORDS = 64
"""Of a wildcard with `#` in the middle: comparing two of them is in steps of the product of their words."""


class Destination(NamedTuple):
    """A destination in the broker's own terms."""

    address: str
    routing: Routing
    queue: str | None
    durable: bool = False
    """Of SUBSCRIBE: `queue` is a subscription that outlives its consumers."""
    create: bool = True
    """May it be made on demand."""
    more: tuple[Destination, ...] = ()
    """Of a composite destination: all but the first."""
    shown: str = ""
    """What MESSAGE says for it, in place of what its sender wrote; empty: just that."""


NOWHERE = Destination("", Routing.MULTICAST, None)
"""Of a SEND to a temporary destination, until its connection says which one that is."""


def not_named(destination: str, command: str) -> RefusedError:
    """A temporary destination where the dialect has none."""
    return RefusedError(
        Code.BAD_DESTINATION,
        f"'{destination[:100]}' is not a valid destination for '{command}'; name it in a reply-to header, and send to "
        "what the message's own reply-to says",
    )


class Homes:
    """Whose a queue is that the settings name (`engine.queues`), for destinations that do not say: `::queue`."""

    __slots__ = ("_addresses",)

    def __init__(self) -> None:
        self._addresses: dict[str, str] = {}

    def learn(self, queues: Mapping[str, Mapping[str, Any]]) -> None:
        """The table of the settings."""
        self._addresses = {name: table.get("address") or name for name, table in queues.items()}

    def of(self, queue: str) -> str:
        """Any other queue is that of the address of its name."""
        return self._addresses.get(queue, queue)

    def elsewhere(self, queue: str, address: str) -> str | None:
        """The address to which the settings bind the queue, if it is not this one."""
        home = self._addresses.get(queue, address)
        return None if home == address else home


class Dialect:
    """What the names of one acceptor mean. This one is Artemis', and what the other dialects are made of (dialects/).

    host        whose names they are.
    prefixes    the longest first, so that the first match is the longest.
    delimiter   between the words of an address (engine.wildcard_delimiter).
    public      the kind of a temporary destination → what its opaque name begins with where others are told it.
    names_temporaries   may SEND and SUBSCRIBE name temporary destinations of their connection; else reply-to alone.
    shows_temporaries   a MESSAGE from one has the name by which its connection knows it, not what others see."""

    __slots__ = ("delimiter", "homes", "host", "notifies", "prefixes")
    name = "artemis"
    read: tuple[str, ...] = ()
    """Headers of SEND, beside send_route.READ, that decide its route; all of them are in layouts.SIGNIFICANT."""
    lines: bytes = b""
    """Header lines of every MESSAGE that is delivered for the first time."""
    texts: Mapping[Code, str] = {}
    """See text()."""
    server: str = ""
    """What `server` of CONNECTED begins with, for clients that look for a broker's name to choose what they may do."""
    full_v10 = False
    """CONNECTED of STOMP 1.0 has version, heart-beat and server, whatever the acceptor says."""
    rejects = False
    """NACK means the dead letter address at once."""
    prefetches_messages = False
    """activemq.prefetchSize counts messages, whatever the acceptor says."""
    public: Mapping[str, str] = {"/temp-queue/": "/reply-queue/", "/temp-topic/": "/reply-topic/"}
    names_temporaries = True
    shows_temporaries = False
    queue_wildcards = False
    """May SUBSCRIBE name queues by a wildcard."""
    manages = True
    """Are messages to core.management.MANAGEMENT requests."""

    host: VirtualHost

    def __init__(self, prefixes: tuple[tuple[str, Routing], ...], delimiter: str, homes: Homes) -> None:
        self.prefixes = prefixes
        self.delimiter = delimiter
        self.homes = homes
        self.host = DEFAULT
        self.notifies = False

    def serves(self, host: VirtualHost, notifies: bool = False) -> None:
        """Its names are those of this virtual host. notifies: what happens to clients is told (edge.notifications)."""
        self.host = host
        self.notifies = notifies

    @classmethod
    def of(cls, anycast: str, multicast: str, delimiter: str = ".", homes: Homes | None = None) -> Self:
        """From the comma lists of the settings."""
        found = [(prefix, Routing.ANYCAST) for prefix in prefixes(anycast)]
        found += [(prefix, Routing.MULTICAST) for prefix in prefixes(multicast)]
        return cls(tuple(sorted(found, key=lambda pair: (-len(pair[0]), pair[0]))), delimiter, homes or Homes())

    @property
    def key(self) -> tuple[object, ...]:
        """Dialects with the same one mean the same by all names."""
        return self.name, self.prefixes, self.delimiter, self.host.name

    def text(self, code: Code, about: str) -> str | None:
        """`message` of an ERROR, where its clients know another one than ours. about: RefusedError.about."""
        return self.texts.get(code)

    def check_send(self, headers: Mapping[str, str]) -> None:
        """Raises RefusedError for a SEND that asks for what is not here."""
        check_send(headers)

    def check_subscribe(self, headers: Mapping[str, str], target: Destination) -> None:
        """The same for a SUBSCRIBE to the target."""
        check_subscribe(headers, target.routing, target.durable or target.queue is not None)

    def recurrence(self, headers: Mapping[str, str], delay: int) -> Recurrence | None:
        """When a SEND is delivered again and again; None: it is not. delay: by AMQ_SCHEDULED_DELAY. Raises
        RefusedError(BAD_HEADER)."""
        return None

    def private(self, headers: Mapping[str, str]) -> Private | None:
        """What a SEND says that each connection must look at for itself."""
        found = private_of(headers)
        destination = headers.get("destination", "")
        if self.manages and destination.endswith(MANAGEMENT):
            prefix = destination.removesuffix(MANAGEMENT)
            if not prefix or any([prefix == known for known, _ in self.prefixes]):
                return (found or Private())._replace(manages=True)
        return found

    def durable(self, headers: Mapping[str, str]) -> bool:
        """Is a SEND to be kept on disk."""
        return yes(headers, "persistent")

    def priority(self, headers: Mapping[str, str]) -> int | None:
        """Of a SEND, 0 to 9; None: it does not say. Raises RefusedError(BAD_HEADER)."""
        return whole_number(headers, "priority", 0, 9)

    def ttl(self, headers: Mapping[str, str]) -> int:
        """Milliseconds that a SEND may live from now on; 0: it does not say. Raises RefusedError(BAD_HEADER)."""
        return whole_number(headers, "ttl", 1, FAR_FUTURE) or 0

    def options(self, headers: dict[str, str]) -> None:
        """Puts what stands behind the destination of a SUBSCRIBE or UNSUBSCRIBE among its headers, where clients write
        it there. Raises RefusedError."""

    def form(self, headers: Mapping[str, str]) -> str | None:
        """The form of maps that a SUBSCRIBE asks for (map_forms.py); None: as they were sent."""
        return None

    def stream(self, headers: Mapping[str, str], target: Destination, now: Callable[[], int]) -> str | None:
        """The selector by which a consumer reads a stream, whose messages tell where they stand in it; None: it reads
        none. now: epoch milliseconds. Raises RefusedError."""
        return None

    def from_end(self, headers: Mapping[str, str]) -> str | None:
        """The address of a stream that a SUBSCRIBE reads from its last message on; None: it reads none so. Raises
        RefusedError."""
        return None

    def begins_at(self, headers: dict[str, str], number: int) -> None:
        """That message is it: puts it among the headers."""

    def subscribed(self, headers: Mapping[str, str]) -> Destination:
        """What a SUBSCRIBE is to. Raises RefusedError."""
        return self._placed(self._subscribed(headers))

    def _told(self, destination: str) -> Destination | None:
        """Where the broker tells what happens to clients, if that is what a SUBSCRIBE names: nobody may send there."""
        name = next((destination[len(each) :] for each, routing in self.prefixes if routing is Routing.MULTICAST
                     and destination.startswith(each)), destination)  # fmt: skip
        return Destination(name, Routing.MULTICAST, None) if self.notifies and self.tells(name) else None

    def tells(self, address: str) -> bool:
        """Is it such an address, to clients of this dialect."""
        return address == NOTIFICATIONS

    def _subscribed(self, headers: Mapping[str, str]) -> Destination:
        if (told := self._told(headers["destination"])) is not None:
            return told
        return self._resolve(headers["destination"], headers.get("subscription-type"), "subscription-type")

    def deletes(self, headers: Mapping[str, str]) -> bool:
        """Is an UNSUBSCRIBE to delete what its SUBSCRIBE made durable by its id."""
        return False

    def resolve(self, destination: str, type_header: str | None, header_name: str) -> Destination:
        """What `destination` names. `type_header`: value of destination-type / subscription-type, if given.

        Raises RefusedError(BAD_DESTINATION | BAD_HEADER)."""
        return self._placed(self._resolve(destination, type_header, header_name))

    def _placed(self, target: Destination) -> Destination:
        """In the client's own virtual host, whatever it has named. Raises RefusedError(BAD_DESTINATION)."""
        address, queue = target.address, target.queue
        for name in [name for each in (target, *target.more) for name in (each.address, each.queue)]:
            if name is not None and name.startswith(HOST):
                raise RefusedError(
                    Code.BAD_DESTINATION, f"'{name[:100]}': names that begin with {HOST} are the broker's"
                )
        if not self.host.name:
            return target
        return target._replace(
            address=self.host.address(address),
            queue=None if queue is None else self.host.inside(queue),
            more=tuple([self._placed(other) for other in target.more]),
        )

    def _resolve(self, destination: str, type_header: str | None, header_name: str) -> Destination:
        """The same by the names of the client's virtual host, as its dialect has them."""
        if destination.startswith(THEIRS):
            return Destination(address_of(destination), Routing.MULTICAST, None)
        check_destination(destination)
        routing, name = Routing.UNSET, destination
        for prefix, meaning in self.prefixes:
            if destination.startswith(prefix):
                routing, name = meaning, destination[len(prefix) :]
                break
        else:
            if destination.startswith("/"):
                self._check_slash(destination)
        if type_header is not None:
            if type_header not in ("ANYCAST", "MULTICAST"):
                raise RefusedError(Code.BAD_HEADER, f"{header_name}:{type_header[:50]} must be ANYCAST or MULTICAST")
            routing = Routing[type_header]
        address, mark, queue = name.partition("::")
        address = address or (self._home(queue) if queue else "")
        if not address or (mark and not queue):
            raise RefusedError(Code.BAD_DESTINATION, f"'{destination[:100]}' names nothing: a part of it is empty")
        check_address(address, self.delimiter)
        if address.startswith(TEMPORARY):
            raise RefusedError(
                Code.BAD_DESTINATION,
                f"'{destination[:100]}': a temporary destination has only the name that reply-to gave",
            )
        if address.startswith(RECURRING):
            raise RefusedError(
                Code.BAD_DESTINATION, f"'{destination[:100]}' is the broker's own, for what is sent again and again"
            )
        if "::" in queue:
            raise RefusedError(
                Code.BAD_DESTINATION, f"'{destination[:100]}' has a second `::`; a queue is named as `address::queue`"
            )
        if len(name) > MAX_DESTINATION:
            raise RefusedError(Code.BAD_DESTINATION, f"longer than {MAX_DESTINATION} characters")
        return Destination(address, routing, queue if mark else None)

    def _home(self, queue: str) -> str:
        """The address of a queue that is named alone."""
        return split(self.homes.of(self.host.inside(queue))).local

    def is_wildcard(self, address: str) -> bool:
        """Does the name stand for several addresses."""
        return is_pattern(address, self.delimiter)

    def _check_slash(self, destination: str) -> None:
        """Where prefixes begin with a slash, a name that begins with one and has none of them is a mistake."""
        known = [prefix for prefix, _ in self.prefixes if prefix.startswith("/")]
        if known:
            raise RefusedError(
                Code.BAD_DESTINATION,
                f"'{destination[:100]}' begins with neither {' nor '.join(known)}; use one of them, or a plain name",
            )


def check_no_wildcard(target: Destination, dialect: Dialect) -> None:
    """Raises RefusedError(BAD_DESTINATION) for a SEND to a name that stands for several addresses."""
    if dialect.is_wildcard(target.address):
        raise RefusedError(
            Code.BAD_DESTINATION,
            f"'{target.address[:100]}' is a wildcard; it can be subscribed to, but a message goes to one address: "
            "name it without * and #",
        )


def check_wildcard(target: Destination, dialect: Dialect, plain: Routing) -> bool:
    """Does a SUBSCRIBE stand for several topics. plain: what a name means that does not say. Raises
    RefusedError(BAD_DESTINATION) where it may not."""
    address = target.address
    if not dialect.is_wildcard(address):
        return False
    words = address.split(dialect.delimiter)
    if "#" in words[:-1] and len(words) > MAX_WORDS:
        raise RefusedError(
            Code.BAD_DESTINATION, f"'{address[:100]}': with a # before its end a wildcard may have {MAX_WORDS} words"
        )
    if dialect.queue_wildcards and target.routing is Routing.ANYCAST and target.queue is None:
        return False
    if (target.routing or plain) is not Routing.MULTICAST or (target.queue is not None and not target.durable):
        raise RefusedError(
            Code.BAD_DESTINATION,
            f"'{address[:100]}': only topics have wildcards (/topic/{address[:100]}); consume from queues one by one",
        )
    return True


def durable_name(headers: Mapping[str, str]) -> str | None:
    """Name of the durable subscription that the frame is about, or None."""
    for name in DURABLE_NAMES:
        value = headers.get(name)
        if value:
            return value
    return None


def whole_number(headers: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    """A header as a decimal int within [low, high], or None when absent.

    Raises RefusedError(BAD_HEADER) that names header, value and range."""
    text = headers.get(name)
    if text is None:
        return None
    text = text.strip()
    found = integer(text)
    if found is None or not low <= found <= high:
        raise RefusedError(Code.BAD_HEADER, f"{name}:{text[:50]} must be a whole number from {low} to {high}")
    return found


def yes(headers: Mapping[str, str], name: str) -> bool:
    """A true/false header; absent is false.

    Raises RefusedError(BAD_HEADER) for anything else."""
    text = headers.get(name)
    if text is None:
        return False
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise RefusedError(Code.BAD_HEADER, f"{name}:{text[:50]} must be true or false")
    return lowered == "true"
