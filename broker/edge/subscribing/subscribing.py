"""SUBSCRIBE: one consumer in every slot that has a part of the destination.

Most destinations have one slot. A split address has one part per partition, a wildcard one in every slot of the
broker. The client's window and the room of its socket are divided among the parts, so that together they are what it
asked for: messages exactly (split_subscription.Order sees to windows that are not divided), bytes up to one message
per part more.

Example: `ack:client`, a window of 1,000 messages and 100 KB, an address with 4 partitions. Each part gets 25 KB. It is
given 1,000 messages, not 250: the client may wait for a whole window before it acknowledges, and all of it may lie in
one part; Order counts the four together and keeps back what is above 1,000.

Rule: a request to several slots is several requests to the owners, of which the last carries the receipt: answers
leave in order, so it comes when all have answered. Whatever part is refused, the connection's ERROR ends them all.
"""

from __future__ import annotations

from functools import partial

from broker.core.address import AckMode
from broker.core.commands import Subscribe, SubscribeAll
from broker.core.ids import SLOTS
from broker.core.notices import NoticeKind
from broker.engine.queue.selective_consumers import LONG
from broker.wire.events import Frame

from ..destinations.asking import ask
from ..destinations.dialect import yes
from ..destinations.directory import Done, conflict
from ..session.session import Session
from ..subscriptions.consumer_rate import Tempo
from ..subscriptions.map_forms import MapForms
from ..subscriptions.split_subscription import SharedOrder, SplitSubscription, order_for, share
from ..subscriptions.stream_offsets import StreamOffsets
from ..subscriptions.subscription import HostedSubscription, ShownSubscription, SlotSubscription
from ..subscriptions.wildcard_subscription import STANDING, WildcardSubscription, block
from .queue_wildcards import MOST, QueueWildcard
from .subscribe_request import SubscribeRequest

BUSY_PARTS = 16
"""Parts of a wildcard that are taken to be busy at a time: each may have so much of the room under way."""
SMALL_WINDOW = 100
"""Messages: a window up to that size is not divided among the parts of a split address."""
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
    request = SubscribeRequest(session, frame)
    _begin(session, frame, request)
    session.inbound.begins(1 if request.selector is None else 2 if len(request.selector) <= LONG else _WHOLE_TURN)


def _begin(session: Session, frame: Frame, request: SubscribeRequest) -> None:
    name = request.queue
    if not request.durable or name is None:
        _attach(session, frame, request)
        return
    names = session.edge.directory.names

    if (home := session.entrance.dialect.homes.elsewhere(name, request.address)) is not None:
        raise conflict(name, home)

    def question(done: Done) -> None:
        names.claim(name, request.address, done)

    ask(session, frame.receipt, question, partial(_attach, session, frame, request))


def subscribe_reply(session: Session, name: str) -> None:
    """The subscription of a temporary queue that a reply-to names and nobody has subscribed to: in the mode auto, with
    the name as id. Raises RefusedError."""
    subscribe(session, Frame("SUBSCRIBE", {"id": name, "destination": name}, b"", None))


def _attach(session: Session, frame: Frame, request: SubscribeRequest) -> None:
    request.within_quotas(session)
    if request.pattern:
        _attach_to_queues(session, frame, request)
    elif len(request.slots) == 1 and not request.more:
        _attach_to_one(session, frame, request)
    elif request.wide:
        _attach_everywhere(session, frame, request)
    else:
        _attach_parts(session, frame, request)


def _attach_to_one(session: Session, frame: Frame, request: SubscribeRequest) -> None:
    """As nearly all are."""
    sub = _part(session, frame, request, request.slots[0], request.room)
    if request.rate > 0:
        Tempo(request.rate, session.outbound, session.edge.clock.monotonic()).join(sub)
    _fronted(request, sub)
    session.add_subscription(request.key, sub)
    if request.ready is None:
        seq = session.answers.ask_one(frame.receipt)
    else:
        seq = session.answers.ask([] if frame.receipt is None else [frame.receipt], request.ready)
    command = _command(session, request, sub, sub.consumer, seq, request.messages, request.nbytes, request.room)
    session.inbound.batch.append(command)
    session.tell(NoticeKind.CONSUMER_CREATED, sub)


def _attach_parts(session: Session, frame: Frame, request: SubscribeRequest) -> None:
    """One in each slot of a split or composite destination, or of a wildcard that has to have all its parts at once."""
    if request.costly:
        session.inbound.breathe()
    places = [(each, slot) for each in (request, *request.more) for slot in each.slots]
    parts = len(places)
    room, messages, nbytes = share(request.room, parts), share(request.messages, parts), share(request.nbytes, parts)
    if request.wildcard:
        # Its queues are its own: what waits here for the client to acknowledge is kept from nobody.
        room, messages = share(request.room, BUSY_PARTS), request.messages
    elif request.ack is AckMode.CLIENT or request.messages <= SMALL_WINDOW:
        # Its client may wait for a whole window before it acknowledges, and all of it may lie in one part.
        messages = request.messages
    split, order = SplitSubscription(), order_for(session, request.ack, request.messages, messages * parts)
    seqs = session.answers.ask_parts(None if frame.receipt is None else [frame.receipt], parts)
    pace = Tempo(request.rate, order or session.outbound, session.edge.clock.monotonic()) if request.rate > 0 else None
    for (each, slot), seq in zip(places, seqs, strict=True):
        sub = _part(session, frame, each, slot, room)
        split.join(sub)
        if order is not None:
            sub.counted(order, False)
        if pace is not None:
            pace.join(sub)
        _fronted(request, sub)
        session.add_subscription(request.key, sub)
        session.inbound.batch.append(_command(session, each, sub, sub.consumer, seq, messages, nbytes, room))
    session.tell(NoticeKind.CONSUMER_CREATED, sub)


def _fronted(request: SubscribeRequest, sub: SlotSubscription) -> None:
    """What is shown of each message, before the session counts it."""
    if request.numbered:
        StreamOffsets(sub.sink).join(sub)
    if request.form is not None:
        MapForms(sub.sink, request.form).join(sub)


def _attach_to_queues(session: Session, frame: Frame, request: SubscribeRequest) -> None:
    """The part of a wildcard of queues that stands for all."""
    room = share(request.room, BUSY_PARTS)
    sub = _part(session, frame, request, request.slots[0], room)
    if (order := order_for(session, request.ack, request.messages, request.messages * MOST, SharedOrder)) is not None:
        sub.counted(order, False)
    if request.rate > 0:
        Tempo(request.rate, sub.sink, session.edge.clock.monotonic()).join(sub)
    _fronted(request, sub)
    session.add_subscription(request.key, sub)
    seq = session.answers.ask_one(frame.receipt)
    nbytes = share(request.nbytes, BUSY_PARTS)
    session.inbound.batch.append(_command(session, request, sub, sub.consumer, seq, request.messages, nbytes, room))
    session.edge.queue_wildcards.add(QueueWildcard(session, request.key, request.pattern, sub))
    session.tell(NoticeKind.CONSUMER_CREATED, sub)


def _attach_everywhere(session: Session, frame: Frame, request: SubscribeRequest) -> None:
    """A wildcard whose queues are made with their first message, and so are its parts."""
    # Its queues are its own: what waits here for the client to acknowledge is kept from nobody.
    room = share(request.room, BUSY_PARTS)
    first = session.edge.next_block()
    sub = _part(session, frame, request, STANDING, room, first + STANDING)
    if (order := order_for(session, request.ack, request.messages, request.messages * SLOTS)) is not None:
        sub.counted(order, False)
    split = session.edge.wildcards[block(first)] = WildcardSubscription(sub, first)
    if request.rate > 0:
        Tempo(request.rate, sub.sink, session.edge.clock.monotonic()).join(sub)
    _fronted(request, sub)
    session.add_subscription(request.key, sub)
    seq = asked_everywhere(session, frame.receipt)
    nbytes = share(request.nbytes, SLOTS)
    command = _command(session, request, sub, split.first, seq, request.messages, nbytes, room)
    session.inbound.batch.append(SubscribeAll(command))
    session.tell(NoticeKind.CONSUMER_CREATED, sub)


def asked_everywhere(session: Session, receipt: bytes | None) -> int:
    """Number of a request to every slot. Where it is one to each, one of a connection is under way at a time: all that
    others send would stand behind 200 of them."""
    if session.edge.port.shares_wildcards:
        return session.answers.ask_one(receipt)
    return session.answers.ask([] if receipt is None else [receipt], session.inbound.rest())


def _part(
    session: Session, frame: Frame, request: SubscribeRequest, slot: int, room: int, consumer: int = 0
) -> SlotSubscription:
    headers = frame.headers
    consumer = consumer or session.edge.next_consumer()
    kind = SlotSubscription if request.shown is None else ShownSubscription
    if session.host.name:
        kind = HostedSubscription
    sub = kind(
        session, consumer, slot, request.address, headers.get("id"), session.raw(headers.get("id", "")), request.ack,
        session.edge.handle(consumer), room, session.raw(headers["destination"]), request.operation, request.queues,
    )  # fmt: skip
    if yes(headers, "message-slot"):
        sub.tell_slot()
    if isinstance(sub, HostedSubscription):
        sub.begins(request.shown)
    elif isinstance(sub, ShownSubscription) and request.shown is not None:
        sub.shows(request.shown)
    return sub


def _command(
    session: Session,
    request: SubscribeRequest,
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
    slot = 0 if request.wide else sub.slot
    command = Subscribe(
        slot, session.id, seq, consumer, request.address, request.routing, request.ack,
        queue=request.queue, durable=request.durable, selector=request.selector,
        credit_messages=messages, credit_bytes=nbytes, room=room,
        overhead=sub.overhead, browse=request.browse, priority=request.priority, no_local=request.no_local,
        create=request.create, maker="" if session.usage is None else session.usage.maker,
    )  # fmt: skip
    if not (request.wildcard or request.browse):
        sub.asks(command)
    return command
