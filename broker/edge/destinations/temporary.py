"""Temporary destinations: names of one connection, whose addresses nobody can guess and nobody else can read.

  client        SUBSCRIBE /temp-queue/x, or only SEND with reply-to:/temp-queue/x (then it is subscribed to for it)
  its address   $temp.<128 random bits>: a topic with the connection's subscription as its only queue, in the slot that
                the name gives. So the reply takes the way of any message, over edges and owners and fail-overs, and
                the queue goes with its connection
  others see    reply-to:/reply-queue/<the same bits>, to which anybody who was told may send, and nobody subscribe

Rule: a message that asks for an answer leaves when the owner has the subscription, never before: the answer may come
by another owner. Names are bounded by max_subscriptions. Must not know owners; a reply that finds nobody is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from broker.core.address import TEMPORARY
from broker.core.errors import Code, RefusedError
from broker.core.ids import slot_of
from broker.core.virtual_host import DEFAULT, VirtualHost
from broker.seams.entropy import token
from broker.wire.events import Head

from .zone_affinity import ZoneAffinity

QUEUE: Final = "/temp-queue/"
TOPIC: Final = "/temp-topic/"
OWN: Final = (QUEUE, TOPIC)
"""What begins so is the name of a connection's own temporary destination."""
THEIRS: Final = ("/reply-queue/", "/reply-topic/", "/remote-temp-queue/", "/remote-temp-topic/")
"""… and so what others know it by: RabbitMQ's word, one like it, and Classic's."""
BYTES: Final = 16
"""Of chance in an address."""
DRAWS: Final = 16
"""Of three zones, one address in 600 lies in another one than its edge then."""
TEMPORARY_ID: Final = "id of a temporary destination"
"""RefusedError.about, where a frame may not have it."""
_LINE = b"reply-to:"


class Private(NamedTuple):
    """What a SEND says that each connection must look at for itself.

    own, reply   names of its temporary destinations, in destination and reply-to.
    user         whose login it must be.
    manages      it is a management request: carried out, not queued."""

    own: str | None = None
    reply: str | None = None
    user: str | None = None
    manages: bool = False


def private_of(headers: Mapping[str, str]) -> Private | None:
    """Of the headers of a SEND; None: all its names are everybody's."""
    destination, reply = headers.get("destination", ""), headers.get("reply-to", "")
    own = destination if destination.startswith(OWN) else None
    back = reply if reply.startswith(OWN) else None
    return Private(own, back) if own or back else None


def address_of(destination: str) -> str:
    """Of a name by which others know it. Raises RefusedError(BAD_DESTINATION)."""
    opaque = destination[destination.index("/", 1) + 1 :]
    if len(opaque) != 2 * BYTES or not opaque.isalnum():
        raise RefusedError(
            Code.BAD_DESTINATION, f"'{destination[:100]}' is no name that a reply-to header of this broker has given"
        )
    return TEMPORARY + opaque


class _Entry:
    """One destination. ready: its owner has a subscription to it; then: waits for that. opaque: of its address."""

    __slots__ = ("opaque", "ready", "subscriptions", "then")

    def __init__(self, opaque: str) -> None:
        self.opaque = opaque
        self.ready = False
        self.subscriptions = 0
        self.then: Callable[[], None] | None = None


class Temporaries:
    """Those of one session, by the names it has for them.

    public   Dialect.public.    most   how many there may be.    host   whose the session is.    near   slots that are
    preferred: since nobody knows the names before, each may lie in one of them."""

    __slots__ = ("_entries", "_front", "_last", "_most", "_names", "_near", "_public")

    def __init__(
        self, public: Mapping[str, str], most: int, host: VirtualHost = DEFAULT, near: ZoneAffinity | None = None
    ) -> None:
        self._near = near or ZoneAffinity()
        self._front = host.address(TEMPORARY)
        self._public = public
        self._most = most
        self._entries: dict[str, _Entry] = {}
        self._names: dict[str, str] = {}
        """By address."""
        self._last: tuple[Head, str, Head] | None = None

    def subscribed(self, name: str) -> tuple[str, Callable[[], None]]:
        """One more subscription to it: the address, and what is to be called when its owner has it. Raises
        RefusedError."""
        entry = self._entries.get(name)
        if entry is None:
            if len(name) in (len(QUEUE), len(TOPIC)) or "," in name:
                raise RefusedError(
                    Code.BAD_DESTINATION, f"'{name[:100]}': a temporary destination has a name, without a comma"
                )
            if len(self._entries) >= self._most:
                raise RefusedError(Code.SUBSCRIPTION_LIMIT, f"{self._most} temporary destinations (max_subscriptions)")
            entry = self._entries[name] = _Entry(self._opaque())
            self._names[self._front + entry.opaque] = name
        elif name.startswith(QUEUE):
            raise RefusedError(
                Code.DUPLICATE_SUBSCRIPTION,
                f"'{name[:100]}' has its subscription on this connection: a temporary queue has one; one that a "
                "reply-to names first is subscribed to with that name as id",
            )
        entry.subscriptions += 1
        found = entry

        def ready() -> None:
            found.ready = True
            then, found.then = found.then, None
            if then is not None:
                then()

        return self._front + entry.opaque, ready

    def _opaque(self) -> str:
        """For an address of our own zone, if a few draws give one; each is as good as any other."""
        found = token(BYTES)
        for _ in range(DRAWS if self._near.slots else 0):
            if slot_of(self._front + found) in self._near.slots:
                break
            found = token(BYTES)
        return found

    def unsubscribed(self, address: str) -> str | None:
        """A subscription to this address has ended: with the last one the name is free, and returned."""
        name = self._names.get(address)
        if name is not None:
            entry = self._entries[name]
            entry.subscriptions -= 1
            if not entry.subscriptions:
                del self._entries[name], self._names[address]
                return name
        return None

    def all(self) -> list[tuple[str, str]]:
        """Names and addresses."""
        return [(name, address) for address, name in self._names.items()]

    def known(self, name: str) -> bool:
        """Does the connection have it."""
        return name in self._entries

    def when_ready(self, name: str, then: Callable[[], None]) -> bool:
        """Calls back when its owner has the subscription. False: it has it."""
        entry = self._entries[name]
        if entry.ready:
            return False
        entry.then = then
        return True

    def address(self, name: str) -> str:
        """For a SEND to it. Raises RefusedError(NO_SUCH_DESTINATION)."""
        entry = self._entries.get(name)
        if entry is None:
            raise RefusedError(
                Code.NO_SUCH_DESTINATION,
                f"'{name[:100]}' is a temporary destination of this connection and nobody is there yet; SUBSCRIBE to "
                "it first",
            )
        return self._front + entry.opaque

    def head(self, head: Head, name: str) -> Head:
        """The head with the name that others know it by in place of `name`. Its records: record()."""
        last = self._last
        if last is not None and last[0] is head and last[1] == name:
            return last[2]
        other = Head(self.record(head.lines, name), head.headers, head.flags, head.whole)
        self._last = (head, name, other)
        return other

    def record(self, text: bytes, name: str) -> bytes:
        """Header lines, alone or with the body behind them: their first reply-to is the public name. Unchanged when
        they have none."""
        start = 0 if text.startswith(_LINE) else text.find(b"\n" + _LINE) + 1
        if not text.startswith(_LINE, start) or -1 < text.find(b"\n\n", 0, start) < start:
            return text
        kind = QUEUE if name.startswith(QUEUE) else TOPIC
        public = self._public[kind] + self._entries[name].opaque
        return b"%b%b%b%b" % (text[:start], _LINE, public.encode(), text[text.index(b"\n", start) :])
