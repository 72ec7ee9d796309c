"""A subscription that takes so many messages a second (`consumer-max-rate` of SUBSCRIBE).

What it gets is shown at once; its room is given back when it has left, and that many messages may have been shown.
So whatever is more stays in the queue, for others too, and nothing is held here.

Rule: only subscriptions that ask for it have one. Must not know queues or frames.
"""

from __future__ import annotations

from functools import partial

from broker.core.commands import UNLIMITED
from broker.core.effects import Deliver

from ..quotas.meters import Pace
from .front import Front
from .rate_limits import under_way
from .subscription import DeliverySink, SlotSubscription

SLOW = 20
"""Messages a second: up to that one at a time is under way, above it as many as the room holds."""
ROOM = 16 * 1024
"""Bytes under way to a faster one: so much may come at once, and is waited for afterwards."""


class Tempo(Front):
    """Stands between the owner's deliveries and the session that shows them; one for all parts of a subscription."""

    __slots__ = ("_pace",)

    def __init__(self, rate: int, sink: DeliverySink, now: float) -> None:
        super().__init__(sink)
        self._pace = Pace(rate, now)

    def deliver(self, sub: SlotSubscription, effect: Deliver) -> None:
        edge = sub.session.edge
        now = edge.clock.monotonic()
        wait = self._pace.spend(len(effect.run), now)
        # From when nothing is waited for, the session gives room back for whatever is out, however long that takes.
        sub.gives_back_above(UNLIMITED if wait else 0)
        if wait:
            edge.beats.deadline(now + wait, partial(_over, sub))
        self._next.deliver(sub, effect)


def _over(sub: SlotSubscription) -> None:
    """As many messages as the part has may have been shown by now."""
    session = sub.session
    if sub.consumer in session.edge.consumers:
        sub.gives_back_above(0)
        if session.outbound.writable:
            sub.give_room()


def room(rate: int, most: int) -> int:
    """Bytes that may be under way to a consumer with that rate, of `most`."""
    return 1 if rate <= SLOW else under_way(rate, min(most, ROOM))
