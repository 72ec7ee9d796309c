"""A subscription that takes so many messages a second (`consumer-max-rate` of SUBSCRIBE).

What it gets is shown at once; its room is given back when that many messages may have been shown. So whatever is more
stays in the queue, for others too, and nothing is held here.

Rule: only subscriptions that ask for it have one. Must not know queues or frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.commands import UNLIMITED
from broker.core.effects import Deliver

from .fan import Sink
from .rates import Pace

if TYPE_CHECKING:
    from .subscription import Subscription

SLOW = 20
"""Messages a second: up to that one at a time is under way, above it as many as the room holds."""
ROOM = 16 * 1024
"""Bytes under way to a faster one: so much may come at once, and is waited for afterwards."""
_AGAIN_S = 0.1
"""While the client does not read."""


class Tempo:
    """Stands between the owner's deliveries and whoever shows them; one for all parts of a subscription."""

    __slots__ = ("_next", "_pace")

    def __init__(self, rate: int, sink: Sink, now: float) -> None:
        self._next = sink
        self._pace = Pace(rate, now)

    def join(self, part: Subscription) -> None:
        """This part's deliveries come here from now on, and its room is given back from here."""
        part.sink = self
        part.quarter = UNLIMITED

    def deliver(self, sub: Subscription, effect: Deliver) -> None:
        edge = sub.session.edge
        self._next.deliver(sub, effect)
        wait = self._pace.take(len(effect.run), edge.clock.monotonic())
        if wait:
            self._later(sub, wait)
        elif sub.session.writable:
            edge.grant(sub)
        else:
            self._later(sub, _AGAIN_S)

    def _later(self, sub: Subscription, seconds: float) -> None:
        edge = sub.session.edge
        edge.beats.deadline(edge.clock.monotonic() + seconds, lambda: self._give(sub))

    def _give(self, sub: Subscription) -> None:
        if sub.consumer not in sub.session.edge.consumers:
            return
        if sub.session.writable:
            sub.give_room()
        else:
            self._later(sub, _AGAIN_S)


def room(rate: int, most: int) -> int:
    """Bytes that may be under way to a consumer with that rate, of `most`."""
    return 1 if rate <= SLOW else min(most, ROOM)
