"""What concerns all slots at once, where all of them are in this process: subscriptions to wildcards.

Rule: a slot where such a subscription never had a message is not touched by its begin nor by its end. Must not know
patterns (engine/wildcards.py).
"""

from __future__ import annotations

from typing import Protocol

from broker.core.commands import Barrier, Command, Disconnect, DisconnectAll, Unsubscribe, UnsubscribeAll, Wide
from broker.core.effects import Done, Refused, Turn
from broker.core.errors import Code
from broker.engine.engine import Engine
from broker.engine.wildcards import Wildcards, slots_in

from .release_gate import Touched


class Slots(Protocol):
    """What it needs of the shard."""

    @property
    def wildcards(self) -> Wildcards: ...

    def engine(self, slot: int) -> Engine: ...

    def wake(self) -> None: ...


def carry_out(shard: Slots, command: Wide, turn: Turn, touched: Touched) -> None:
    """In place of an engine."""
    if isinstance(command, UnsubscribeAll):
        _unsubscribe(shard, command, turn, touched)
    elif isinstance(command, DisconnectAll):
        for slot in slots_in(shard.wildcards.end_session(command.session)):
            _step(shard, Disconnect(slot, command.session, command.calm), turn, touched)
        shard.wake()  # what it leaves goes in pieces
    else:
        shard.engine(0).handle(command, turn)  # any of them may say whether it can be had


def _unsubscribe(shard: Slots, command: UnsubscribeAll, turn: Turn, touched: Touched) -> None:
    session, seq, first = command.session, command.seq, command.consumer
    awake = shard.wildcards.end(first, session)
    if awake is None:
        turn.effects.append(Refused(session, seq, Code.NO_SUCH_SUBSCRIPTION, "it has ended already"))
        return
    for slot in slots_in(awake):
        _step(shard, Unsubscribe(slot, session, 0, first + slot, command.address), turn, touched)
    if seq and awake:
        # Behind what its consumers settled: one log has all slots.
        _step(shard, Barrier(0, session, seq), turn, touched)
    elif seq:
        turn.effects.append(Done(session, seq))


def _step(shard: Slots, command: Command, turn: Turn, touched: Touched) -> None:
    engine = shard.engine(command.slot)
    engine.handle(command, turn)
    touched[engine] = None
