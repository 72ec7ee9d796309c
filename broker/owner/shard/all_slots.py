"""What concerns all slots at once, where all of them are in this process: subscriptions to wildcards.

Rule: a slot where such a subscription never had a message is not touched by its begin nor by its end. Must not know
patterns (engine/address/wildcards.py).
"""

from __future__ import annotations

from typing import Protocol

from broker.core.commands import Barrier, Command, Disconnect, DisconnectAll, Unsubscribe, UnsubscribeAll, Wide
from broker.core.effects import Done, Refused, Turn
from broker.core.errors import Code
from broker.engine.address.wildcards import Wildcards, slots_in
from broker.engine.engine import Engine


class Slots(Protocol):
    """What it needs of the shard."""

    @property
    def wildcards(self) -> Wildcards: ...

    def engine(self, slot: int) -> Engine: ...

    def wake(self) -> None: ...


def carry_out(shard: Slots, command: Wide, turn: Turn) -> list[Command]:
    """In place of an engine. What is to be done in slots for it comes next, in this order."""
    if isinstance(command, UnsubscribeAll):
        return _unsubscribe(shard, command, turn)
    if isinstance(command, DisconnectAll):
        shard.wake()  # what it leaves goes in pieces
        # A subscription to `#` is one entry per process until a slot has a message for it. Only these slots have a
        # consumer of it, so ending a session costs as many steps as it has awake slots, not 256.
        awake = slots_in(shard.wildcards.end_session(command.session))
        return [Disconnect(slot, command.session, command.calm) for slot in awake]
    shard.engine(0).handle(command, turn)  # any of them may say whether it can be had
    return []


def _unsubscribe(shard: Slots, command: UnsubscribeAll, turn: Turn) -> list[Command]:
    session, seq, first = command.session, command.seq, command.consumer
    awake = shard.wildcards.end(first, session)
    if awake is None:
        turn.effects.append(Refused(session, seq, Code.NO_SUCH_SUBSCRIPTION, "it has ended already"))
        return []
    # A consumer's number in a slot is the first one's plus the slot's: nothing has to be looked up.
    ends: list[Command] = [Unsubscribe(slot, session, 0, first + slot, command.address) for slot in slots_in(awake)]
    if seq and awake:
        ends.append(Barrier(0, session, seq))  # behind what its consumers settled: one log has all slots
    elif seq:
        turn.effects.append(Done(session, seq))
    return ends
