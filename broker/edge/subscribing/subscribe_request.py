"""What a SUBSCRIBE asks for: its headers, read and checked.

Two defaults meet here: what a header says wins over the address' settings, and those over the acceptor's. Of a window
that means: `consumer-window-size` (bytes), else `activemq.prefetchSize` (bytes, or messages where the dialect or the
acceptor counts so), else `consumer_window_bytes` of the address, else the acceptor's; and
edge.consumer_window_messages of them where no header has said a window. A client with `ack:client` and
`consumer-window-size:0` may hold one message.

Rule: whatever can be refused is refused here, before the session or an owner has changed; but a temporary destination
is the session's from the moment it is read, which is why it is the last thing that is read.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.core.address import TEMPORARY, AckMode, Routing
from broker.core.commands import UNLIMITED
from broker.core.errors import Code, RefusedError
from broker.core.ids import SLOTS
from broker.core.notices import NoticeKind
from broker.core.virtual_host import split
from broker.engine.address.address_settings import plain_routing
from broker.engine.queue.selective_consumers import NO_XPATH
from broker.seams.entropy import token
from broker.selector import Predicate, compile
from broker.selector.parser import KEEP
from broker.wire.events import Frame

from .. import authorising
from ..access.client_ids import check_durable
from ..destinations.dialect import NOWHERE, Destination, check_wildcard, durable_name, not_named, whole_number, yes
from ..destinations.shown_destination import Shown
from ..destinations.temporary import BYTES, OWN, TEMPORARY_ID, THEIRS
from ..quotas.quotas import Resource
from ..session.receipts import Then
from ..session.session import Session
from ..subscriptions import consumer_rate, map_forms
from .queue_wildcards import QueueWildcard

ACK_MODES = {"auto": AckMode.AUTO, "client": AckMode.CLIENT, "client-individual": AckMode.INDIVIDUAL}
MAX_WINDOW = 1 << 53
MAX_RATE = 1_000_000_000
BY_ACCEPTOR = -2
"""A default window of an address that leaves it to the acceptor."""


class SubscribeRequest:
    """What a SUBSCRIBE asks for, checked.    asks   its selector: compiled once, while it is wanted."""

    __slots__ = (
        "ack", "address", "asks", "browse", "costly", "create", "durable", "form", "key", "messages", "more", "nbytes",
        "no_local", "numbered", "pattern", "priority", "queue", "queues", "rate", "ready", "room", "routing",
        "selector", "shown", "slots", "wide", "wildcard",
    )  # fmt: skip

    def __init__(self, session: Session, frame: Frame, named: Destination | None = None) -> None:
        """named: one of a composite destination. Raises RefusedError."""
        headers = frame.headers
        settings = session.edge.settings.edge
        self.key = key = headers.get("id", headers["destination"])
        if key in session.subscriptions:
            raise RefusedError(
                Code.DUPLICATE_SUBSCRIPTION, f"id:{key[:100]} is in use; UNSUBSCRIBE first or choose another id"
            )
        if len(session.subscriptions) >= settings.max_subscriptions:
            raise RefusedError(
                Code.SUBSCRIPTION_LIMIT, f"{settings.max_subscriptions} subscriptions are open (max_subscriptions)"
            )
        target = named or self._target(session, headers)
        plain = plain_routing(session.edge.match(target.address))
        self.wildcard = check_wildcard(target, session.entrance.dialect, plain)
        self.ack = ACK_MODES[headers.get("ack", "auto")]
        self.address = target.address
        self.queue, self.routing = target.queue, Routing.MULTICAST if self.wildcard else target.routing
        durable = durable_name(headers)
        self.durable = target.durable
        if durable is not None and target.queue is None and target.routing is not Routing.ANYCAST:
            self.queue, self.routing, self.durable = owned_name(session, durable, "own"), Routing.MULTICAST, True
        read = Destination(self.address, self.routing, self.queue, self.durable)
        session.entrance.dialect.check_subscribe(headers, read)
        stream = session.entrance.dialect.stream(headers, read, session.edge.clock.wall_ms)
        self.numbered = stream is not None
        """Its messages tell where they stand in their queue."""
        self.form = session.entrance.dialect.form(headers)
        self.queues = authorising.attached(self.address, self.routing, self.queue)
        self.slots = EVERYWHERE if self.wildcard else session.edge.routes.slots(target.address)
        self.messages, self.nbytes, most = _window(session, headers, self.ack, self.address)
        self.room = min(_room(session, len(session.subscriptions) + 1), most)
        if self.form is not None:
            self.room = min(self.room, map_forms.ROOM)
        self.rate = whole_number(headers, "consumer-max-rate", -1, MAX_RATE) or -1
        if self.rate > 0:
            self.room = consumer_rate.room(self.rate, self.room)
        self.asks = _selector(session, headers.get("selector") if stream is None else stream or None)
        self.selector = None if self.asks is None else self.asks.text
        self.no_local = yes(headers, "no-local" if "no-local" in headers else "activemq.noLocal")
        self.browse = yes(headers, "browser")
        # Who waits for tokens begins without room, and is given it part by part.
        paced = session.edge.rates is not None and session.edge.rates.paces(session)
        self.wide = self.wildcard and not (self.durable or self.browse or paced)
        self.costly = self.wildcard and not (self.wide and session.edge.port.shares_wildcards)
        if self.costly:
            _check_wildcards(session, settings.max_wildcard_subscriptions)
        self.priority = _priority(headers)
        self.create = authorising.subscribing(session, self) and target.create
        self.ready: Then | None = None
        self.pattern = ""
        """It is a wildcard of queues."""
        self.shown = Shown(target.shown, keep=True) if target.shown else None
        if target is NOWHERE:
            if session.entrance.dialect.shows_temporaries:
                self.shown = Shown(headers["destination"], keep=False)
            # Last, because it is ours from here on.
            known = session.temporaries.known(headers["destination"])
            self.address, self.ready = session.temporaries.subscribed(headers["destination"])
            if not known:
                session.tell_temporary(NoticeKind.TEMPORARY_ADDED, headers["destination"], self.address)
            self.slots = session.edge.routes.slots(self.address)
        elif self.routing is Routing.ANYCAST and session.entrance.dialect.is_wildcard(self.address):
            self._of_queues(session, frame)
        self.more = [SubscribeRequest(session, frame, other) for other in target.more]
        if (self.more or named) and (self.durable or self.wildcard or self.browse or self.pattern or target is NOWHERE):
            raise RefusedError(
                Code.BAD_DESTINATION,
                f"'{headers['destination'][:100]}': durable subscriptions, wildcards, browsers and temporary "
                "destinations are subscribed to one by one",
            )

    def _of_queues(self, session: Session, frame: Frame) -> None:
        """It consumes what is called so (queue_wildcards.py), from an address of its own. Raises RefusedError."""
        if self.browse or not session.edge.queue_wildcards.served:
            told = "are browsed one by one" if self.browse else "by a wildcard are not served here"
            raise RefusedError(Code.BAD_DESTINATION, f"'{frame.headers['destination'][:100]}': queues {told}")
        _check_wildcards(session, session.edge.settings.edge.max_wildcard_subscriptions)
        self.pattern, self.create = self.address, True
        self.address = session.host.address(TEMPORARY + token(BYTES))
        self.routing, self.queues = Routing.MULTICAST, (None,)
        self.slots = session.edge.routes.slots(self.address)

    def _target(self, session: Session, headers: Mapping[str, str]) -> Destination:
        """What it names. Raises RefusedError."""
        destination, dialect = headers["destination"], session.entrance.dialect
        if destination.startswith(THEIRS):
            raise RefusedError(
                Code.BAD_DESTINATION, f"'{destination[:100]}' is read by whom it was made for; others can send to it"
            )
        if not destination.startswith(OWN):
            check_key(session, self.key)
            return dialect.subscribed(headers)
        if not (dialect.names_temporaries or self.key == destination):
            raise not_named(destination, "SUBSCRIBE")
        if durable_name(headers) is not None:
            raise RefusedError(
                Code.BAD_DESTINATION, f"'{destination[:100]}' goes with its connection: it cannot be durable"
            )
        return NOWHERE

    def within_quotas(self, session: Session) -> None:
        """Becomes what edge.quotas leaves of it: a smaller window, queues that have to be there. Raises
        RefusedError(QUOTA)."""
        if (usage := session.usage) is None:
            return
        together = (self, *self.more)
        if authorising.always_new(session, self):
            usage.check_queue()
        elif not usage.creates(any([each.create for each in together]), self.durable):
            for each in together:
                each.create = False
        usage.check(Resource.SUBSCRIPTIONS, SLOTS if self.wide else sum(len(each.slots) for each in together))
        if self.ack is not AckMode.AUTO and not self.browse:
            default = session.edge.settings.edge.consumer_window_messages
            self.messages = usage.window(self.key, self.messages, default)

    @property
    def operation(self) -> str:
        """What its user must be allowed to do (config.permissions)."""
        return "browse" if self.browse else "consume"


def _check_wildcards(session: Session, most: int) -> None:
    """Raises RefusedError(SUBSCRIPTION_LIMIT): such a wildcard has a part in every slot, or for every queue."""
    if (
        sum(
            [
                sub.spread
                or isinstance(sub.split, QueueWildcard)
                or (sub.wide and not session.edge.port.shares_wildcards)
                for sub in session.subscriptions.values()
            ]
        )
        >= most
    ):
        raise RefusedError(
            Code.SUBSCRIPTION_LIMIT,
            f"{most} wildcards are subscribed to on this connection (max_wildcard_subscriptions); a wider one, like "
            "a.# for a.b.* and a.c.*, is one",
        )


EVERYWHERE = tuple(range(SLOTS))


PRIORITIES = ("consumer-priority", "activemq.priority", "x-priority")
"""Names of one thing (ours and Artemis', Classic's, RabbitMQ's), in order of precedence."""


def _priority(headers: dict[str, str]) -> int:
    """Higher ones get messages first. Raises RefusedError(BAD_HEADER)."""
    for name in PRIORITIES:
        if (number := whole_number(headers, name, -(1 << 31), (1 << 31) - 1)) is not None:
            return number
    return 0


def _selector(session: Session, text: str | None) -> Predicate | None:
    """The selector as its acceptor wants it read; what its text says itself comes later and counts.

    Raises RefusedError(BAD_SELECTOR)."""
    if text is None:
        return None
    found = compile(KEEP + text if session.acceptor.selector_coercion == "strict" else text)
    if found.xpath and not session.edge.settings.engine.xpath:
        raise RefusedError(Code.BAD_SELECTOR, NO_XPATH)
    return found


def _room(session: Session, number: int) -> int:
    """Bytes under way to a connection's subscription `number`. The later ones get less: the sum of all up to 10,000
    stays below max_outbox_bytes, so that only who does not read is a slow consumer."""
    settings, rates = session.edge.settings.edge, session.edge.rates
    most = settings.consumer_room_bytes
    if rates is not None:
        most = rates.room(session, most, number)
    return max(min(most, settings.max_outbox_bytes // (16 * number)), 1)


def _window(session: Session, headers: dict[str, str], ack: AckMode, address: str) -> tuple[int, int, int]:
    """(messages, bytes) the consumer may hold unacknowledged, and the bytes that may be under way to it. A window of 0
    bytes means one message at a time. Nothing is unacknowledged in auto mode: there a window bounds what is under
    way."""
    settings = session.edge.settings.edge
    messages = whole_number(headers, "prefetch-count", 0, MAX_WINDOW) or 0
    nbytes = whole_number(headers, "consumer-window-size", -1, MAX_WINDOW)
    if nbytes is None:
        nbytes = whole_number(headers, "activemq.prefetchSize", -1, MAX_WINDOW)
        unit = "messages" if session.entrance.dialect.prefetches_messages else session.acceptor.prefetch_unit
        if nbytes is not None and nbytes >= 0 and unit == "messages":
            messages, nbytes = messages or max(nbytes, 1), -1
    if ack is AckMode.AUTO:
        return UNLIMITED, UNLIMITED, UNLIMITED if nbytes is None or nbytes < 0 else max(nbytes, 1)
    given = nbytes is not None
    if nbytes is None:
        nbytes = session.edge.match(address).consumer_window_bytes
        if nbytes == BY_ACCEPTOR:
            nbytes = session.acceptor.consumer_window_bytes
    if not messages:
        default = settings.consumer_window_messages
        # -1 is unlimited, whoever says it. What is still -2 here has no window but the default in messages.
        messages = UNLIMITED if given or nbytes == -1 or default < 0 else default
    if nbytes == 0:
        return 1, UNLIMITED, UNLIMITED
    return messages, UNLIMITED if nbytes < 0 else nbytes, UNLIMITED


def owned_name(session: Session, durable: str, verb: str) -> str:
    """Name of the queue of this client's durable subscription. Raises RefusedError(CLIENT_ID_REQUIRED | BAD_HEADER)."""
    if not session.client_id:
        raise RefusedError(
            Code.CLIENT_ID_REQUIRED, f"set client-id on CONNECT to {verb} the subscription '{durable[:100]}'"
        )
    name = f"{session.client_id}.{durable}"
    if "::" in name:
        # The queues of subscribers that are there now have such names: nobody else may come upon them.
        raise RefusedError(Code.BAD_HEADER, f"'{name[:100]}' holds `::`; take another client-id or subscription name")
    auth, host = session.edge.auth, session.host
    if auth.has_users:
        queue = split(name).local
        check_durable(session.acceptor.client_ids, session.login, queue, lambda user: auth.knows(host.inside(user)))
    return name


def check_key(session: Session, key: str) -> None:
    """Raises RefusedError(BAD_HEADER) for that of a reply-to, where only a reply-to makes such a subscription: it ends
    with its connection."""
    if key.startswith(OWN) and not session.entrance.dialect.names_temporaries:
        raise RefusedError(Code.BAD_HEADER, f"id:{key[:100]} is that of a reply-to, it is not for others", TEMPORARY_ID)
