"""An address has more partitions than before: who subscribes to it gets parts in the new ones, and notices nothing.

Senders follow later (Edge.configure): by then every edge that lives has heard of it, so that subscribers are there
before the first message is.

Rule: a window of messages stays what it was: it is counted over all parts from now on (split_subscription.Order) where
it was given to the parts there were. Must not know owners: the port tells what a consumer was attached with and holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.core.address import AckMode
from broker.core.commands import UNLIMITED, Subscribe

from .consumer_rate import Tempo
from .session import Session
from .split_subscription import Fan, order_for, share
from .subscription import SlotSubscription


class Newcomers(Protocol):
    """Who sees to the subscriptions that nobody uses."""

    def follow(self, grown: Callable[[str], Sequence[int]], then: Callable[[], None]) -> None:
        """grown(address): all its slots, if it has new ones. `then` is called when every durable subscription is in
        all of them, unless follow() is called again before."""
        ...


def followed(session: Session, key: str, sub: SlotSubscription) -> bool:
    """Has the subscription a part in each slot of each of its addresses by now. False: it must be made anew."""
    parts = list(sub.addresses())
    slots = [session.edge.routes.slots(part.address) for part in parts]
    if sub.browses or all(part.complete(there) for part, there in zip(parts, slots, strict=True)):
        return True
    return len(parts) == 1 and grow(session, key, sub, slots[0])


def grow(session: Session, key: str, sub: SlotSubscription, slots: Sequence[int]) -> bool:
    """Gives the subscription a part in each of `slots` that it has none in. False: the port cannot tell what it was
    attached with."""
    port = session.edge.port
    parts = [sub] if sub.fan is None else sub.fan.parts
    known = [port.attached(part.consumer) for part in parts]
    if None in known:
        return False
    new = [slot for slot in slots if slot not in {part.slot for part in parts}]
    model, _ = known[0]  # type: ignore[misc]
    if sub.order is None:
        _count(session, parts, [each for each in known if each is not None], len(new))
    if sub.fan is None:
        Fan().join(sub)
    total = len(parts) + len(new)
    commands = [_attach(session, key, sub, slot, model, total) for slot in new]
    port.submit([*commands])
    return True


def _count(
    session: Session, parts: list[SlotSubscription], known: list[tuple[Subscribe, Sequence[int]]], more: int
) -> None:
    """From now on somebody keeps count over all parts, if that is needed."""
    model = known[0][0]
    window = min(sum(command.credit_messages for command, _ in known), UNLIMITED)
    order = order_for(session, model.ack, window, window + more * model.credit_messages)
    if order is None:
        return
    for part, (_, held) in zip(parts, known, strict=True):
        order.holds(part, held)
        part.counted(order, isinstance(part.sink, Tempo))
        if isinstance(part.sink, Tempo):
            part.sink.follow(order)


def _attach(session: Session, key: str, sub: SlotSubscription, slot: int, model: Subscribe, total: int) -> Subscribe:
    consumer, room = session.edge.next_consumer(), share(model.room, total)
    part = sub.sibling(consumer, slot, room // 4)
    assert sub.fan is not None
    sub.fan.join(part)
    session.add_subscription(key, part)
    rates = session.edge.rates
    return Subscribe(
        slot, session.id, 0, consumer, model.address, model.routing, model.ack,
        queue=model.queue, durable=model.durable, selector=model.selector, credit_messages=model.credit_messages,
        credit_bytes=model.credit_bytes if model.ack is AckMode.AUTO else share(model.credit_bytes, total),
        room=room if rates is None or rates.begins(part, room) else 0, overhead=part.overhead, browse=model.browse,
        priority=model.priority, no_local=model.no_local, create=model.create,
    )  # fmt: skip
