"""Frames that are not SEND or plain ACK: one function per command.

The wire has checked that the frame is legal (required headers, known ack mode, order); here it meets the
connection's state. Rule: a function either adds to session.batch and asks for an answer, or raises
RefusedError; the session turns that into an ERROR and closes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.config.settings import EdgeSettings
from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import UNLIMITED, Barrier, Hold, Settle, Subscribe, Transact, Unsubscribe
from broker.core.errors import Code, RefusedError
from broker.core.ids import slot_of
from broker.wire.events import Frame
from broker.wire.versions import Version

from .dialect import durable_name, resolve, whole_number, yes
from .subscription import Subscription

if TYPE_CHECKING:
    from .session import Session

ACK_MODES = {"auto": AckMode.AUTO, "client": AckMode.CLIENT, "client-individual": AckMode.INDIVIDUAL}
MAX_WINDOW = 1 << 53
MAX_DELAY_MS = 366 * 24 * 3600 * 1000


def subscribe(session: Session, frame: Frame) -> None:
    """SUBSCRIBE: one consumer in the slot that owns the address."""
    headers = frame.headers
    settings = session.edge.settings.edge
    key = headers.get("id", headers["destination"])
    if key in session.subscriptions:
        raise RefusedError(
            Code.DUPLICATE_SUBSCRIPTION, f"id:{key[:100]} is in use; UNSUBSCRIBE first or choose another id"
        )
    if len(session.subscriptions) >= settings.max_subscriptions:
        raise RefusedError(
            Code.SUBSCRIPTION_LIMIT, f"{settings.max_subscriptions} subscriptions are open (max_subscriptions)"
        )
    target = resolve(headers["destination"], headers.get("subscription-type"), "subscription-type")
    ack = ACK_MODES[headers.get("ack", "auto")]
    durable = durable_name(headers)
    queue, routing = target.queue, target.routing
    if durable is not None and queue is None and routing is not Routing.ANYCAST:
        if not session.client_id:
            raise RefusedError(
                Code.CLIENT_ID_REQUIRED, f"set client-id on CONNECT to own the subscription '{durable[:100]}'"
            )
        queue, routing = f"{session.client_id}.{durable}", Routing.MULTICAST
    else:
        durable = None
    slot = slot_of(target.address)
    consumer = session.edge.next_consumer()
    room = _room(settings, len(session.subscriptions) + 1)
    sub = Subscription(
        session, consumer, slot, target.address, headers.get("id"), session.raw(headers.get("id", "")), ack,
        session.edge.handle(consumer), room, session.raw(headers["destination"]),
    )  # fmt: skip
    messages, nbytes = _window(session, headers, ack)
    browse = yes(headers, "browser")
    priority = whole_number(headers, "consumer-priority", -(1 << 31), (1 << 31) - 1) or 0
    session.add_subscription(key, sub)
    session.batch.append(
        Subscribe(
            slot, session.id, session.ask(frame.receipt), consumer, target.address, routing, ack,
            queue=queue, durable=durable is not None, selector=headers.get("selector"),
            credit_messages=messages, credit_bytes=nbytes, room=room,
            overhead=sub.overhead, browse=browse, priority=priority,
        )
    )  # fmt: skip


def _room(settings: EdgeSettings, number: int) -> int:
    """Bytes under way to a connection's subscription `number`. The later ones get less: the sum of all up to 10,000
    stays below max_outbox_bytes, so that only who does not read is a slow consumer."""
    return max(min(settings.consumer_room_bytes, settings.max_outbox_bytes // (16 * number)), 1)


def _window(session: Session, headers: dict[str, str], ack: AckMode) -> tuple[int, int]:
    """(messages, bytes) the consumer may hold unacknowledged. 0 bytes means one message at a time."""
    settings = session.edge.settings.edge
    messages = whole_number(headers, "prefetch-count", 0, MAX_WINDOW) or 0
    nbytes = whole_number(headers, "consumer-window-size", -1, MAX_WINDOW)
    if nbytes is None:
        nbytes = whole_number(headers, "activemq.prefetchSize", -1, MAX_WINDOW)
    if ack is AckMode.AUTO:
        return UNLIMITED, UNLIMITED
    if not messages:
        default = settings.consumer_window_messages
        messages = UNLIMITED if nbytes is not None or default < 0 else default
    if nbytes is None:
        nbytes = settings.consumer_window_bytes
    if nbytes == 0:
        return 1, UNLIMITED
    return messages, UNLIMITED if nbytes < 0 else nbytes


def unsubscribe(session: Session, frame: Frame) -> None:
    """UNSUBSCRIBE by id, or (1.0) by destination; with a durable name it deletes the subscription's queue."""
    headers = frame.headers
    durable = durable_name(headers)
    key = headers.get("id", headers.get("destination", ""))
    sub = session.subscriptions.get(key)
    if sub is None and durable is None:
        raise RefusedError(Code.NO_SUCH_SUBSCRIPTION, f"'{key[:100]}' is not subscribed on this connection")
    queue = None
    if durable is not None:
        if not session.client_id:
            raise RefusedError(
                Code.CLIENT_ID_REQUIRED, f"set client-id on CONNECT to delete the subscription '{durable[:100]}'"
            )
        queue = f"{session.client_id}.{durable}"
    if sub is not None:
        session.remove_subscription(key, sub)
        slot, consumer, address = sub.slot, sub.consumer, sub.address
    else:
        destination = headers.get("destination")
        if destination is None:
            raise RefusedError(
                Code.NO_SUCH_SUBSCRIPTION,
                f"'{key[:100]}' is not subscribed on this connection; "
                "name its destination to delete a durable subscription that nobody consumes",
            )
        address = resolve(destination, None, "subscription-type").address
        slot, consumer = slot_of(address), 0
    session.batch.append(Unsubscribe(slot, session.id, session.ask(frame.receipt), consumer, address, queue))


def ack(session: Session, frame: Frame) -> None:
    """ACK with more than an id: a transaction, usually."""
    _settle(session, frame, Outcome.ACK)


def nack(session: Session, frame: Frame) -> None:
    """NACK: retry by the address settings; `requeue:false` dead-letters at once; `delay` in ms overrides."""
    reject = "requeue" in frame.headers and not yes(frame.headers, "requeue")
    _settle(session, frame, Outcome.REJECT if reject else Outcome.NACK)


def _settle(session: Session, frame: Frame, outcome: Outcome) -> None:
    headers = frame.headers
    id = headers["id"] if session.version is Version.V12 else headers["message-id"]
    sub, number = session.delivery(session.raw(id), headers.get("subscription"))
    delay = whole_number(headers, "delay", 0, MAX_DELAY_MS)
    settle = Settle(sub.slot, session.id, 0, sub.consumer, [number], outcome, -1 if delay is None else delay)
    name = headers.get("transaction")
    if name is None:
        settle.seq = session.ask(frame.receipt)
        session.batch.append(settle)
        return
    session.transactions.add(name, settle, 1, 0)
    session.batch.append(Hold(sub.slot, session.id, session.ask(frame.receipt), sub.consumer, [number]))


def begin(session: Session, frame: Frame) -> None:
    session.transactions.begin(frame.headers["transaction"])
    if frame.receipt is not None:
        session.answer_now([frame.receipt])


def commit(session: Session, frame: Frame) -> None:
    transaction = session.transactions.end(frame.headers["transaction"])
    if not transaction.parts:
        if frame.receipt is not None:
            session.answer_now([frame.receipt])
        return
    slot = transaction.parts[0].slot
    session.batch.append(Transact(slot, session.id, session.ask(frame.receipt), transaction.parts))


def abort(session: Session, frame: Frame) -> None:
    transaction = session.transactions.end(frame.headers["transaction"])
    session.batch.extend(transaction.returns(session.id))
    if frame.receipt is not None:
        session.answer_now([frame.receipt])


def disconnect(session: Session, frame: Frame) -> None:
    """DISCONNECT: its receipt comes when everything before it is answered and durable, receipt or not (C56, C61):
    it is how clients make sure of what they sent without asking each time."""
    if frame.receipt is None:
        session.leave([])
        return
    for slot in session.slots():
        session.batch.append(Barrier(slot, session.id, session.answers.ask([])))
    session.leave([frame.receipt])


CONTROL: dict[str, Callable[[Session, Frame], None]] = {
    "SUBSCRIBE": subscribe,
    "UNSUBSCRIBE": unsubscribe,
    "ACK": ack,
    "NACK": nack,
    "BEGIN": begin,
    "COMMIT": commit,
    "ABORT": abort,
    "DISCONNECT": disconnect,
}
