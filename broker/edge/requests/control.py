"""Frames that are not SEND or plain ACK: one function per command.

The wire has checked that the frame is legal (required headers, known ack mode, order); here it meets the
connection's state. Rule: a function either adds to the inbound's batch and asks for an answer, or raises
RefusedError; the inbound turns that into an ERROR and closes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from broker.core.address import Outcome
from broker.core.commands import Barrier, Hold, Settle, Transact
from broker.core.errors import Code, RefusedError
from broker.core.reasons import Reason
from broker.wire.events import Frame
from broker.wire.versions import Version

from ..destinations.dialect import whole_number, yes
from ..quotas.quotas import Resource
from ..session.session import Session
from ..session.transactions import OpenTransaction
from ..subscribing.subscribing import subscribe
from ..subscribing.unsubscribing import unsubscribe
from .acks import delivery, late

MAX_DELAY_MS = 366 * 24 * 3600 * 1000
MAX_IDS = 1 << 53


def ack(session: Session, frame: Frame) -> None:
    """ACK with more than an id: a transaction, usually."""
    _settle(session, frame, Outcome.ACK)


def nack(session: Session, frame: Frame) -> None:
    """NACK: retry by the address settings; `requeue:false`, or the dialect, dead-letters at once; `delay` in ms."""
    requeue = yes(frame.headers, "requeue") if "requeue" in frame.headers else not session.entrance.dialect.rejects
    reject = not requeue
    _settle(session, frame, Outcome.REJECT if reject else Outcome.NACK)


def _settle(session: Session, frame: Frame, outcome: Outcome) -> None:
    headers = frame.headers
    id = session.raw(headers["id"] if session.version is Version.V12 else headers["message-id"])
    delay = whole_number(headers, "delay", 0, MAX_DELAY_MS)
    name = headers.get("transaction")
    if late(session, id):
        _seen(session, frame, name)
        return
    sub, number = delivery(session, id, headers.get("subscription"))
    if sub.browses:
        _seen(session, frame, name)
        return
    covered = sub.covered([number])
    seqs = session.answers.ask_parts(None if frame.receipt is None else [frame.receipt], len(covered))
    for (part, ids), seq in zip(covered, seqs, strict=True):
        own = seq if name is None else 0
        settle = Settle(part.slot, session.id, own, part.consumer, ids, outcome, -1 if delay is None else delay)
        if name is None:
            session.inbound.batch.append(settle)
        else:
            session.transactions.add(name, settle, 1, 0)
            session.inbound.batch.append(Hold(part.slot, session.id, seq, part.consumer, ids))
    if sub.order is not None:
        sub.order.flow()


def _seen(session: Session, frame: Frame, transaction: str | None) -> None:
    """An ACK or NACK that changes nothing: of what a browser was shown (clients that acknowledge everything do so), or
    of a message that went with its queue."""
    if transaction is not None:
        session.transactions.get(transaction)
    if frame.receipt is not None:
        session.answer_now([frame.receipt])


def begin(session: Session, frame: Frame) -> None:
    """BEGIN may say what the transaction needs: that its destination remembers so many duplicate ids."""
    least = whole_number(frame.headers, "id-cache-size", 0, MAX_IDS)
    if least is not None:
        _check_ids(session, frame.headers.get("destination"), least)
    usage = session.usage
    if usage is not None:
        usage.check(Resource.TRANSACTIONS)
    session.transactions.begin(frame.headers["transaction"])
    if usage is not None:
        usage.add(Resource.TRANSACTIONS, 1)
    if frame.receipt is not None:
        session.answer_now([frame.receipt])


def _check_ids(session: Session, destination: str | None, least: int) -> None:
    """Raises RefusedError(TOO_FEW_IDS)."""
    if destination is None:
        raise RefusedError(Code.MISSING_HEADER, "BEGIN with id-cache-size needs the destination it speaks of")
    address = session.entrance.dialect.resolve(destination, None, "destination-type").address
    known = session.edge.match(address).id_cache_size
    if known < least:
        raise RefusedError(
            Code.TOO_FEW_IDS,
            f"{address[:100]} remembers the last {known} ids, and the sender repeats up to {least}: set its "
            f"id_cache_size to {least} or more",
        )


def _ended(session: Session, frame: Frame) -> OpenTransaction:
    transaction = session.transactions.end(frame.headers["transaction"])
    if session.usage is not None:
        session.usage.add(Resource.TRANSACTIONS, -1)
    return transaction


def commit(session: Session, frame: Frame) -> None:
    transaction = _ended(session, frame)
    parts = transaction.commits(session.edge.clock.monotonic())
    session.edge.queue_wildcards.forget(session.id, parts)
    if not parts:
        if frame.receipt is not None:
            session.answer_now([frame.receipt])
        return
    seq = session.answers.ask_one(frame.receipt)
    session.inbound.batch.append(Transact(parts[0].slot, session.id, seq, parts))


def abort(session: Session, frame: Frame) -> None:
    transaction = _ended(session, frame)
    session.inbound.batch.extend(transaction.aborts(session.id))
    if frame.receipt is not None:
        session.answer_now([frame.receipt])


def disconnect(session: Session, frame: Frame) -> None:
    """DISCONNECT: its receipt comes when everything before it is answered and durable, receipt or not (C56, C61):
    it is how clients make sure of what they sent without asking each time. By then what they have not acknowledged is
    back in its queues, also for a client that comes to another edge next."""
    session.outbound.consumed()
    if session.blocked is not None and session.blocked.when_empty(partial(_disconnect_late, session, frame)):
        # What it sent goes first. Its consumers end now: what they hold may be what there is no room for.
        session.inbound.batch.extend(session.ends(Reason.CLIENT_DISCONNECT))
        session.inbound.park()
        return
    if frame.receipt is None:
        session.leave([])
        return
    session.inbound.batch.extend(session.ends(Reason.CLIENT_DISCONNECT))
    for slot in session.unsettled():
        session.inbound.batch.append(Barrier(slot, session.id, session.answers.ask([])))
    session.leave([frame.receipt])


def _disconnect_late(session: Session, frame: Frame) -> None:
    disconnect(session, frame)
    session.inbound.unpark()


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
