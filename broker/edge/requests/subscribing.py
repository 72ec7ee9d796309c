"""SUBSCRIBE and UNSUBSCRIBE: one consumer in every slot that has a part of the destination.

Most destinations have one slot. A split address has one part per partition, a wildcard one in every slot of the
broker. The client's window and the room of its socket are divided among the parts, so that together they are what it
asked for: messages exactly (fan.Order sees to windows that are not divided), bytes up to one message per part more.

Rule: a request to several slots is several requests to the owners, of which the last carries the receipt: answers
leave in order, so it comes when all have answered. Whatever part is refused, the connection's ERROR ends them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from broker.core.address import TEMPORARY, AckMode, Routing
from broker.core.commands import UNLIMITED, Subscribe, SubscribeAll, Unsubscribe, UnsubscribeAll
from broker.core.errors import Code, RefusedError
from broker.core.ids import SLOTS
from broker.core.notices import NoticeKind
from broker.core.virtual_host import split
from broker.engine.address.address_settings import plain_routing
from broker.engine.queue.choosy_consumers import LONG, NO_XPATH
from broker.seams.entropy import token
from broker.selector import Predicate, compile
from broker.selector.parser import KEEP
from broker.wire.events import Frame

from ..access.client_ids import check_durable
from ..destinations.asking import ask
from ..destinations.dialect import NOWHERE, Destination, check_wildcard, durable_name, not_named, whole_number, yes
from ..destinations.directory import Done, conflict
from ..destinations.shown_destination import Shown
from ..destinations.temporary import BYTES, OWN, TEMPORARY_ID, THEIRS
from ..quotas.quotas import Resource
from ..session.receipts import Then
from ..session.session import Session
from ..subscriptions import consumer_rate, map_forms
from ..subscriptions.consumer_rate import Tempo
from ..subscriptions.map_forms import MapForms
from ..subscriptions.split_subscription import SharedOrder, SplitSubscription, order_for, share
from ..subscriptions.stream_offsets import StreamOffsets
from ..subscriptions.subscription import HostedSubscription, ShownSubscription, SlotSubscription
from ..subscriptions.wildcard_subscription import STANDING, WildcardSubscription, block
from . import authorising
from .queue_wildcards import MOST, QueueWildcard

ACK_MODES = {"auto": AckMode.AUTO, "client": AckMode.CLIENT, "client-individual": AckMode.INDIVIDUAL}
MAX_WINDOW = 1 << 53
MAX_RATE = 1_000_000_000
BY_ACCEPTOR = -2
"""A default window of an address that leaves it to the acceptor."""
SMALL_WINDOW = 100
"""Messages: a window up to that size is not divided among the parts of a split address."""


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
                or isinstance(sub.fan, QueueWildcard)
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
BUSY_PARTS = 16
"""Parts of a wildcard that are taken to be busy at a time: each may have so much of the room under way."""


_WHOLE_TURN = 1000
"""More than one session may begin in a turn (inbound.BEGUN): a selector of 1,000 words."""


def subscribe(session: Session, frame: Frame) -> None:
    """SUBSCRIBE: a consumer in each slot of the destination."""
    dialect = session.entrance.dialect
    dialect.options(frame.headers)
    if (stream := dialect.from_end(frame.headers)) is None:
        _subscribe(session, frame)
    else:
        session.edge.stream_ends.ask(session, frame, stream, partial(_subscribe, session, frame))


def _subscribe(session: Session, frame: Frame) -> None:
    wish = SubscribeRequest(session, frame)
    _begin(session, frame, wish)
    session.intake.begins(1 if wish.selector is None else 2 if len(wish.selector) <= LONG else _WHOLE_TURN)


def _begin(session: Session, frame: Frame, wish: SubscribeRequest) -> None:
    name = wish.queue
    if not wish.durable or name is None:
        _attach(session, frame, wish)
        return
    names = session.edge.directory.names

    if (home := session.entrance.dialect.homes.elsewhere(name, wish.address)) is not None:
        raise conflict(name, home)

    def question(done: Done) -> None:
        names.claim(name, wish.address, done)

    ask(session, frame.receipt, question, partial(_attach, session, frame, wish))


def subscribe_reply(session: Session, name: str) -> None:
    """The subscription of a temporary queue that a reply-to names and nobody has subscribed to: in the mode auto, with
    the name as id. Raises RefusedError."""
    subscribe(session, Frame("SUBSCRIBE", {"id": name, "destination": name}, b"", None))


def _counted(session: Session, wish: SubscribeRequest) -> None:
    """Raises RefusedError(QUOTA)."""
    usage = session.usage
    if usage is not None:
        wishes = (wish, *wish.more)
        if authorising.always_new(session, wish):
            usage.check_queue()
        elif not usage.creates(any([each.create for each in wishes]), wish.durable):
            for each in wishes:
                each.create = False
        usage.check(Resource.SUBSCRIPTIONS, SLOTS if wish.wide else sum(len(each.slots) for each in (wish, *wish.more)))
        if wish.ack is not AckMode.AUTO and not wish.browse:
            default = session.edge.settings.edge.consumer_window_messages
            wish.messages = usage.window(wish.key, wish.messages, default)


def _attach(session: Session, frame: Frame, wish: SubscribeRequest) -> None:
    _counted(session, wish)
    if wish.pattern:
        _attach_to_queues(session, frame, wish)
        return
    if len(wish.slots) == 1 and not wish.more:
        sub = _part(session, frame, wish, wish.slots[0], wish.room)
        if wish.rate > 0:
            Tempo(wish.rate, session.outbox, session.edge.clock.monotonic()).join(sub)
        _fronted(wish, sub)
        session.add_subscription(wish.key, sub)
        if wish.ready is None:
            seq = session.answers.ask_one(frame.receipt)
        else:
            seq = session.answers.ask([] if frame.receipt is None else [frame.receipt], wish.ready)
        command = _command(session, wish, sub, sub.consumer, seq, wish.messages, wish.nbytes, wish.room)
        session.intake.batch.append(command)
        session.tell(NoticeKind.CONSUMER_CREATED, sub)
        return
    if wish.wide:
        _attach_everywhere(session, frame, wish)
        return
    if wish.costly:
        session.intake.breathe()
    places = [(each, slot) for each in (wish, *wish.more) for slot in each.slots]
    parts = len(places)
    room, messages, nbytes = share(wish.room, parts), share(wish.messages, parts), share(wish.nbytes, parts)
    if wish.wildcard:
        # Its queues are its own: what waits here for the client to acknowledge is kept from nobody.
        room, messages = share(wish.room, BUSY_PARTS), wish.messages
    elif wish.ack is AckMode.CLIENT or wish.messages <= SMALL_WINDOW:
        # Its client may wait for a whole window before it acknowledges, and all of it may lie in one part.
        messages = wish.messages
    fan, order = SplitSubscription(), order_for(session, wish.ack, wish.messages, messages * parts)
    seqs = session.answers.ask_parts(None if frame.receipt is None else [frame.receipt], parts)
    pace = Tempo(wish.rate, order or session.outbox, session.edge.clock.monotonic()) if wish.rate > 0 else None
    for (each, slot), seq in zip(places, seqs, strict=True):
        sub = _part(session, frame, each, slot, room)
        fan.join(sub)
        if order is not None:
            sub.counted(order, False)
        if pace is not None:
            pace.join(sub)
        _fronted(wish, sub)
        session.add_subscription(wish.key, sub)
        session.intake.batch.append(_command(session, each, sub, sub.consumer, seq, messages, nbytes, room))
    session.tell(NoticeKind.CONSUMER_CREATED, sub)


def _fronted(wish: SubscribeRequest, sub: SlotSubscription) -> None:
    """What is shown of each message, before anybody counts it."""
    if wish.numbered:
        StreamOffsets(sub.sink).join(sub)
    if wish.form is not None:
        MapForms(sub.sink, wish.form).join(sub)


def _attach_to_queues(session: Session, frame: Frame, wish: SubscribeRequest) -> None:
    """The part of a wildcard of queues that stands for all."""
    room = share(wish.room, BUSY_PARTS)
    sub = _part(session, frame, wish, wish.slots[0], room)
    if (order := order_for(session, wish.ack, wish.messages, wish.messages * MOST, SharedOrder)) is not None:
        sub.counted(order, False)
    if wish.rate > 0:
        Tempo(wish.rate, sub.sink, session.edge.clock.monotonic()).join(sub)
    _fronted(wish, sub)
    session.add_subscription(wish.key, sub)
    seq = session.answers.ask_one(frame.receipt)
    nbytes = share(wish.nbytes, BUSY_PARTS)
    session.intake.batch.append(_command(session, wish, sub, sub.consumer, seq, wish.messages, nbytes, room))
    session.edge.queue_wildcards.add(QueueWildcard(session, wish.key, wish.pattern, sub))
    session.tell(NoticeKind.CONSUMER_CREATED, sub)


def _attach_everywhere(session: Session, frame: Frame, wish: SubscribeRequest) -> None:
    """A wildcard whose queues are made with their first message, and so are its parts."""
    # Its queues are its own: what waits here for the client to acknowledge is kept from nobody.
    room = share(wish.room, BUSY_PARTS)
    first = session.edge.next_block()
    sub = _part(session, frame, wish, STANDING, room, first + STANDING)
    if (order := order_for(session, wish.ack, wish.messages, wish.messages * SLOTS)) is not None:
        sub.counted(order, False)
    fan = session.edge.wildcards[block(first)] = WildcardSubscription(sub, first)
    if wish.rate > 0:
        Tempo(wish.rate, sub.sink, session.edge.clock.monotonic()).join(sub)
    _fronted(wish, sub)
    session.add_subscription(wish.key, sub)
    seq = _asked_everywhere(session, frame.receipt)
    nbytes = share(wish.nbytes, SLOTS)
    session.intake.batch.append(SubscribeAll(_command(session, wish, sub, fan.first, seq, wish.messages, nbytes, room)))
    session.tell(NoticeKind.CONSUMER_CREATED, sub)


def _asked_everywhere(session: Session, receipt: bytes | None) -> int:
    """Number of a request to every slot. Where it is one to each, one of a connection is under way at a time: all that
    others send would stand behind 200 of them."""
    if session.edge.port.shares_wildcards:
        return session.answers.ask_one(receipt)
    return session.answers.ask([] if receipt is None else [receipt], session.intake.rest())


def _part(
    session: Session, frame: Frame, wish: SubscribeRequest, slot: int, room: int, consumer: int = 0
) -> SlotSubscription:
    headers = frame.headers
    consumer = consumer or session.edge.next_consumer()
    kind = SlotSubscription if wish.shown is None else ShownSubscription
    if session.host.name:
        kind = HostedSubscription
    sub = kind(
        session, consumer, slot, wish.address, headers.get("id"), session.raw(headers.get("id", "")), wish.ack,
        session.edge.handle(consumer), room, session.raw(headers["destination"]), wish.operation, wish.queues,
    )  # fmt: skip
    if yes(headers, "message-slot"):
        sub.tell_slot()
    if isinstance(sub, HostedSubscription):
        sub.begins(wish.shown)
    elif isinstance(sub, ShownSubscription) and wish.shown is not None:
        sub.shows(wish.shown)
    return sub


def _command(
    session: Session,
    wish: SubscribeRequest,
    sub: SlotSubscription,
    consumer: int,
    seq: int,
    messages: int,
    nbytes: int,
    room: int,
) -> Subscribe:
    rates = session.edge.rates
    if rates is not None and not rates.begins(sub, room):
        room = 0
    slot = 0 if wish.wide else sub.slot
    command = Subscribe(
        slot, session.id, seq, consumer, wish.address, wish.routing, wish.ack,
        queue=wish.queue, durable=wish.durable, selector=wish.selector,
        credit_messages=messages, credit_bytes=nbytes, room=room,
        overhead=sub.overhead, browse=wish.browse, priority=wish.priority, no_local=wish.no_local,
        create=wish.create,
    )  # fmt: skip
    if not (wish.wildcard or wish.browse):
        sub.asks(command)
    return command


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


def unsubscribe(session: Session, frame: Frame) -> None:
    """UNSUBSCRIBE by id, or (1.0) by destination. With a durable name it deletes its queue, also one that
    nobody consumes here: its destination, or the name alone, says where it is."""
    headers = frame.headers
    session.entrance.dialect.options(headers)
    durable = durable_name(headers)
    key = headers.get("id", headers.get("destination", ""))
    check_key(session, key)
    sub = session.subscriptions.get(key)
    if sub is None and durable is None and "id" not in headers:
        key, sub = _by_destination(session, key)
    queue = None if durable is None else owned_name(session, durable, "delete")
    if durable is None and session.entrance.dialect.deletes(headers):
        queue, key, sub = _durable_by_id(session, headers, key, sub)
    if sub is not None:
        _unsubscribe(session, frame, queue, sub.address, key)
    elif queue is None:
        raise RefusedError(Code.NO_SUCH_SUBSCRIPTION, f"'{key[:100]}' is not subscribed on this connection")
    elif "destination" in headers:
        _unsubscribe(session, frame, queue, session.entrance.dialect.subscribed(headers).address)
    else:
        _by_name(session, frame, queue)


def _durable_by_id(
    session: Session, headers: Mapping[str, str], key: str, sub: SlotSubscription | None
) -> tuple[str | None, str, SlotSubscription | None]:
    """The queue that its id and destination name; the destination is that of the subscription, if it is open."""
    destination = headers.get("destination")
    if sub is not None:
        queue = sub.queues[0]
        return (None if queue == sub.address else queue), key, sub
    if destination is None:
        raise RefusedError(
            Code.NO_SUCH_SUBSCRIPTION,
            f"'{key[:100]}' is not subscribed on this connection; add its destination to delete its durable queue",
        )
    return session.entrance.dialect.subscribed(headers).queue, key, None


def _by_name(session: Session, frame: Frame, queue: str) -> None:
    """Of a durable subscription, its name is enough: it belongs to one address."""
    found: list[str] = []

    def question(done: Done) -> None:
        session.edge.directory.names.find(queue, found.append, done)

    ask(session, frame.receipt, question, lambda: _unsubscribe(session, frame, queue, found[0]))


def _unsubscribe(session: Session, frame: Frame, queue: str | None, address: str, key: str | None = None) -> None:
    """Ends the subscription `key` of this connection (None: it has none), and deletes the durable one of this queue."""
    if queue is not None:
        authorising.deleting(session, address, queue)
    if key is not None:
        sub = session.subscriptions[key]
        if isinstance(sub.fan, WildcardSubscription):
            first = sub.fan.first
            session.remove_subscription(key, sub)
            seq = _asked_everywhere(session, frame.receipt if queue is None else None)
            session.intake.batch.append(UnsubscribeAll(session.id, seq, first, address))
            if queue is None:
                return
            key = None
    if key is not None:
        parts = session.remove_subscription(key, sub)
        session.outbox.consumed(parts)
        ends = [(part.slot, part.consumer) for part in parts]
    else:
        wildcard = session.entrance.dialect.is_wildcard(address)
        ends = [(slot, 0) for slot in (EVERYWHERE if wildcard else session.edge.routes.slots(address))]
    if len(ends) == SLOTS:
        session.intake.breathe()
    receipts = None if frame.receipt is None else [frame.receipt]
    seqs = (
        session.answers.ask_parts(receipts, len(ends))
        if queue is None
        else _deleting(session, queue, address, receipts, len(ends))
    )
    for (slot, consumer), seq in zip(ends, seqs, strict=True):
        session.intake.batch.append(Unsubscribe(slot, session.id, seq, consumer, address, queue))


def _by_destination(session: Session, destination: str) -> tuple[str, SlotSubscription | None]:
    """What a 1.0 client may name by destination although its SUBSCRIBE had an id; the first one of several."""
    raw = session.raw(destination)
    return next(
        ((key, sub) for key, sub in session.subscriptions.items() if sub.destination == raw), (destination, None)
    )


def _deleting(session: Session, queue: str, address: str, receipts: list[bytes] | None, parts: int) -> Sequence[int]:
    """Numbers of the requests that delete a durable subscription. When all have answered, its name is free for another
    address; the receipt comes after that, or who reads it and subscribes elsewhere might be refused."""
    ask = session.answers.ask
    seqs = [*(ask([]) for _ in range(parts - 1)), ask([], lambda: release())]
    released = ask(receipts or [])

    def answered(answer: RefusedError | None) -> None:
        if answer is None:
            session.done(released)
        else:
            session.refused(released, answer.code, answer.detail)
        session.outbox.flush()  # nobody else does, when the answer came from afar

    def release() -> None:
        session.deleted(seqs)
        session.edge.directory.names.release(queue, address, answered)

    session.deletes(seqs, queue, address)
    return seqs
