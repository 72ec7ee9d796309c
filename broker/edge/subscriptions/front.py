"""What stands between the owner's deliveries and the session that shows them: a rate, another form, a number in front.

Rule: it changes what is shown and when, never what is held.
"""

from __future__ import annotations

from broker.core.effects import Deliver

from .subscription import DeliverySink, SlotSubscription


class Front:
    """sink   who shows what has passed."""

    __slots__ = ("_next",)

    def __init__(self, sink: DeliverySink) -> None:
        self._next = sink

    def join(self, part: SlotSubscription) -> None:
        """This part's deliveries come here from now on."""
        part.goes_through(self)

    def deliver(self, sub: SlotSubscription, effect: Deliver) -> None:
        self._next.deliver(sub, effect)

    def follow(self, sink: DeliverySink) -> None:
        """That one shows what passes here from now on."""
        if isinstance(self._next, Front):
            self._next.follow(sink)
        else:
            self._next = sink
