"""All consumers of this edge, and what commands on their way do to them.

Rule: noted when a command leaves, made final when it is answered, so that a new owner can be told of every consumer as
its client knows it. Must not know links, nor what is told to sessions.
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.commands import Command, Disconnect, Hold, Settle, Subscribe, Unsubscribe

from .consumer_replay import PendingCommand, ReplayedConsumer
from .routes import Routes
from .slot_channel import SlotChannel


class ReplayedConsumers:
    """by_number   those that live."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self.by_number: dict[int, ReplayedConsumer] = {}

    def follow(self, channel: SlotChannel, entry: PendingCommand, command: Command) -> None:
        """The command leaves."""
        if isinstance(command, Subscribe):
            consumer = ReplayedConsumer(command)
            entry.concerns(consumer)
            command.settle_by_edge(consumer.confirms and not command.browse)
            self.by_number[command.consumer] = consumer
            channel.begin(consumer)
        elif isinstance(command, Unsubscribe | Settle | Hold):
            # Asked of the channel, not of the whole edge: a consumer that has ended here concerns nobody.
            known = entry.concerns(channel.consumers.get(command.consumer))
            if known is None:
                return
            if isinstance(command, Unsubscribe):
                known.leaves()
            else:
                known.set_aside(entry, command.ids)
        elif isinstance(command, Disconnect):
            for consumer in channel.of_session(command.session):
                consumer.leaves()

    def closes(self, command: Command) -> None:
        """What it ends gets nothing from now on, also while it is still on its way to the owner."""
        if isinstance(command, Unsubscribe):
            consumer = self.by_number.get(command.consumer)
            if consumer is not None:
                consumer.closes()
        elif isinstance(command, Disconnect):
            for consumer in self._routes.channel(command.slot).of_session(command.session):
                consumer.closes()

    def end(self, channel: SlotChannel, consumer: ReplayedConsumer) -> Iterable[PendingCommand]:
        """It is no more. Returns the Holds that were answered, and say what an open transaction claims of it."""
        channel.end(consumer)
        self.by_number.pop(consumer.number, None)
        return [hold for hold in dict.fromkeys(consumer.holds.values()) if hold.answered]


def lives(channel: SlotChannel, consumer: ReplayedConsumer | None) -> bool:
    """It has not ended in its slot."""
    return consumer is not None and channel.consumers.get(consumer.number) is consumer
