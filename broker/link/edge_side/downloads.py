"""Large bodies on their way to the clients of one edge, and the slots they come from: when each goes on.

Rule: a body whose message a consumer holds (one of AckMode.AUTO holds it until all of the body is with its client) is
bound to no owner. When its stream ends it waits until the slot's next leader has been told what the consumer holds, and
goes on where it was. Must not know streams nor pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from broker.core.address import Outcome
from broker.core.commands import Settle
from broker.core.message import Blob
from broker.seams.clock import Later, Schedule

from ..bodies.edge_bodies import BodyDown
from ..owner_port import Away, BodyReader
from .consumer_replay import ReplayedConsumer
from .routes import Routes
from .slot_channel import OWN_BYTES, SlotChannel

AGAIN_S = 0.05
"""How soon an owner is asked again that has turned a body away. It tells us just now that it does not lead the slot."""


class Downloads:
    """See the head of this file. watch: a download waits for a slot that is not open."""

    def __init__(
        self,
        routes: Routes,
        consumers: Mapping[int, ReplayedConsumer],
        schedule: Schedule,
        later: Later,
        watch: Callable[[], None],
    ) -> None:
        self._routes = routes
        self._consumers = consumers
        self._schedule = schedule
        self._later = later
        self._watch = watch
        self._waiting: dict[int, dict[ReplayedConsumer, dict[BodyDown, int]]] = {}
        """Slot → consumer → body, and its message."""

    def read(self, slot: int, blob: Blob, consumer: int = 0, message: int = 0) -> BodyReader:
        channel, known = self._routes.channel(slot), self._consumers.get(consumer)
        holds = known is not None and known.may_read_body(message)
        # Who holds the message may have its body from whoever leads next; others (an operator who looks at it) ask
        # again.
        lost = partial(self._lost, known, message) if known is not None and holds else None
        body = BodyDown(self._schedule, blob.length, lost)
        if channel.opened and channel.link is not None:
            channel.link.bodies.open(body, slot, blob)
        elif lost is not None:
            lost(body)
        return body

    def arrived(self, consumer: int, message: int, outcome: Outcome = Outcome.ACK) -> None:
        """The owner is to be told, whichever it is and as often as it takes."""
        known = self._consumers.get(consumer)
        if known is None or not known.confirms or not known.may_read_body(message):
            return
        channel = self._routes.channel(known.slot)
        command = Settle(channel.slot, known.command.session, 0, consumer, [message], outcome)
        # Numbered and kept like a client's: told to each owner until one has answered. Nobody at the edge waits for
        # it.
        channel.keep_own(command, known)
        channel.send(command, OWN_BYTES)
        if not channel.opened:
            self._watch()

    def attached(self, channel: SlotChannel, consumer: ReplayedConsumer) -> None:
        """The slot's owner of now knows what the consumer holds."""
        consumer.attached(channel.openings)
        link = channel.link
        if link is None:
            return
        for body, message in self._pop_waiting(consumer).items():
            link.bodies.go_on(body, channel.slot, consumer.number, message)

    def end(self, consumer: ReplayedConsumer, why: str = "its subscription has ended") -> None:
        """No owner will have what it holds."""
        for body in self._pop_waiting(consumer):
            body.failed(Away(why))

    def give_up(self, channel: SlotChannel, why: str) -> None:
        """What waits for the slot has waited long enough."""
        for consumer in list(self._waiting.get(channel.slot, ())):
            self.end(consumer, why)

    def waits(self, slot: int) -> bool:
        return slot in self._waiting

    def _lost(self, consumer: ReplayedConsumer, message: int, body: BodyDown) -> None:
        """It goes on when the slot is led, and the consumer attached there."""
        if self._routes.closed or consumer.closing:
            body.failed(Away("the edge is stopping" if self._routes.closed else "its subscription has ended"))
            return
        self._waiting.setdefault(consumer.slot, {}).setdefault(consumer, {})[body] = message
        channel = self._routes.channel(consumer.slot)
        # Attached there already, and turned away all the same: it is about to say that it leads no more.
        if channel.opened and consumer.opening == channel.openings:
            # Not at once: a loop over the network would be the result.
            self._later(AGAIN_S, partial(self._again, consumer))
        else:
            self._watch()

    def _pop_waiting(self, consumer: ReplayedConsumer) -> dict[BodyDown, int]:
        """What waits for it, which does not wait any more."""
        waiting = self._waiting.get(consumer.slot, {})
        bodies = waiting.pop(consumer, {})
        if not waiting:
            self._waiting.pop(consumer.slot, None)
        return bodies

    def _again(self, consumer: ReplayedConsumer) -> None:
        channel = self._routes.channel(consumer.slot)
        if channel.opened and consumer.opening == channel.openings:
            self.attached(channel, consumer)
