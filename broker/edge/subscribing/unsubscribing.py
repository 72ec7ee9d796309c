"""UNSUBSCRIBE: the end of a subscription of this connection, of a durable one, or of both.

What it names, in the order in which it is looked for: a subscription by `id`; in 1.0 one by `destination`; with a
durable name (or where the dialect deletes by id) the queue of a durable subscription, which may be open here, open
elsewhere, or have no consumer at all. Then the destination says where the queue is, or else the directory is asked.

Rule: as with SUBSCRIBE, one request per slot, and the last one carries the receipt. That of a deletion comes when the
name is free again, not when its queues are gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.core.commands import Unsubscribe, UnsubscribeAll
from broker.core.errors import Code, RefusedError
from broker.core.ids import SLOTS
from broker.wire.events import Frame

from .. import authorising
from ..destinations.asking import ask
from ..destinations.dialect import durable_name
from ..destinations.directory import Done
from ..session.session import Session
from ..subscriptions.subscription import SlotSubscription
from ..subscriptions.wildcard_subscription import WildcardSubscription
from .subscribe_request import EVERYWHERE, check_key, owned_name
from .subscribing import asked_everywhere


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
        if isinstance(sub.split, WildcardSubscription):
            first = sub.split.first
            session.remove_subscription(key, sub)
            seq = asked_everywhere(session, frame.receipt if queue is None else None)
            session.inbound.batch.append(UnsubscribeAll(session.id, seq, first, address))
            if queue is None:
                return
            key = None
    if key is not None:
        parts = session.remove_subscription(key, sub)
        session.outbound.consumed(parts)
        ends = [(part.slot, part.consumer) for part in parts]
    else:
        wildcard = session.entrance.dialect.is_wildcard(address)
        ends = [(slot, 0) for slot in (EVERYWHERE if wildcard else session.edge.routes.slots(address))]
    if len(ends) == SLOTS:
        session.inbound.breathe()
    receipts = None if frame.receipt is None else [frame.receipt]
    seqs = (
        session.answers.ask_parts(receipts, len(ends))
        if queue is None
        else _deleting(session, queue, address, receipts, len(ends))
    )
    for (slot, consumer), seq in zip(ends, seqs, strict=True):
        session.inbound.batch.append(Unsubscribe(slot, session.id, seq, consumer, address, queue))


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
        session.outbound.flush()  # nobody else does, when the answer came from afar

    def release() -> None:
        session.deleted(seqs)
        session.edge.directory.names.release(queue, address, answered)

    session.deletes(seqs, queue, address)
    return seqs
