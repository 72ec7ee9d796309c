"""An address has more partitions than before: who subscribes to it gets parts in the new ones, and notices nothing.

Senders follow later (partition_growth.py): by then every edge that lives has heard of it, so that subscribers are there
before the first message is.

Rule: a window of messages stays what it was: it is counted over all parts from now on (split_subscription.Order) where
it was given to the parts there were. Must not know owners: the port tells what a consumer holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from broker.core.address import AckMode
from broker.core.commands import UNLIMITED, Command, Subscribe

from ..session.session import Session
from ..subscriptions.front import Front
from ..subscriptions.split_subscription import SplitSubscription, order_for, share
from ..subscriptions.subscription import SlotSubscription

PIECE: Final = 32
"""Parts that a subscription gets in one step, of some 20 µs each: an address may have 256, a composite one many times
that."""


def follow(session: Session, key: str, sub: SlotSubscription) -> Iterator[int]:
    """Gives the subscription a part in each slot of each of its addresses that it has none in, some at a time: yields
    how many. Who browses goes on with what there was."""
    if sub.browses:
        return
    slots = session.edge.routes.slots
    new = [(part, slot) for part in sub.addresses() for slot in part.lacking(slots(part.address))]
    if new:
        yield from _grow(session, key, sub, new)


def _grow(
    session: Session, key: str, sub: SlotSubscription, new: Sequence[tuple[SlotSubscription, int]]
) -> Iterator[int]:
    """… for each slot a part like the one beside it."""
    port = session.edge.port
    parts = [sub] if sub.split is None else sub.split.parts
    if sub.order is None:
        _count(session, [(part, part.model, port.held(part.slot, part.consumer)) for part in parts if part.model], new)
    if sub.split is None:
        SplitSubscription().join(sub)
    total = len(parts) + len(new)
    for at in range(0, len(new), PIECE):
        some = new[at : at + PIECE]
        commands: list[Command] = [_attach(session, key, like, slot, total) for like, slot in some]
        port.submit(commands)
        yield len(some)
        # It may have ended meanwhile, or another one have its id. (Its last part stands for all.)
        now = session.subscriptions.get(key)
        if session.closed or session.leaving or now is None or now.split is not sub.split:
            return


def _count(
    session: Session,
    known: list[tuple[SlotSubscription, Subscribe, Sequence[int]]],
    new: Sequence[tuple[SlotSubscription, int]],
) -> None:
    """From now on an Order keeps count over all parts, if that is needed."""
    window = min(sum(model.credit_messages for _, model, _ in known), UNLIMITED)
    more = sum(like.model.credit_messages for like, _ in new if like.model)
    order = order_for(session, known[0][1].ack, window, window + more)
    if order is None:
        return
    for part, _, held in known:
        order.note_held(part, held)
        part.counted(order, isinstance(part.sink, Front))
        if isinstance(part.sink, Front):
            part.sink.follow(order)


def _attach(session: Session, key: str, like: SlotSubscription, slot: int, total: int) -> Subscribe:
    model, split = like.model, like.split
    assert model is not None and split is not None
    consumer, room = session.edge.next_consumer(), share(model.room, total)
    part = like.sibling(consumer, slot, room // 4)
    split.join(part)
    session.add_subscription(key, part)
    rates = session.edge.rates
    return Subscribe(
        slot, session.id, 0, consumer, model.address, model.routing, model.ack,
        queue=model.queue, durable=model.durable, selector=model.selector, credit_messages=model.credit_messages,
        credit_bytes=model.credit_bytes if model.ack is AckMode.AUTO else share(model.credit_bytes, total),
        room=room if rates is None or rates.begins(part, room) else 0, overhead=part.overhead, browse=model.browse,
        priority=model.priority, no_local=model.no_local, create=model.create, maker=model.maker,
    )  # fmt: skip
