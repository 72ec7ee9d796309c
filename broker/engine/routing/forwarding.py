"""Messages on their way to another address: copies of diverts, and what no queue wanted.

An address of this slot gets them at once, in the same log group. For one that may be led elsewhere durable messages,
and large ones, rest in a hidden durable queue of this slot, named after where they go; from there they are moved like
dead letters: published there and settled here in one atomic step, also after a crash in between.

Rule: a message says in its first header where it was last (`_AMQ_ORIG_ADDRESS`), and after HOPS of them it goes no
further that way. What its new address does not take is dropped. Must not know why it is sent on.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Move, Turn
from broker.core.ids import slot_of
from broker.core.message import BLOB, DURABLE, ORIGINS, PART, TRANSIENT, UNIQUE, Run
from broker.core.records import Left, RunRecord
from broker.selector.heads import escaped

from ..messages.runs import copy, prefixed
from ..queue.queue import Queue
from ..state.slot import Slot
from .addresses import create

HOPS: Final = 8
"""Diverts that lead in a circle end here."""
HIDDEN: Final = "$to"
"""First part of the name of such a queue."""

_ORIGIN: Final = ORIGINS[0]


class Forward(NamedTuple):
    """queue: name of one queue of the address, or None for routing by type."""

    address: str
    routing: Routing = Routing.UNSET
    queue: str | None = None


def tired(command: Publish) -> bool:
    """Has it been sent on so often that it may not be again. What a client says of that is not believed: it could keep
    its messages out of a divert."""
    # Counted in the run's common lines alone: that is where prefixed() puts it.
    return not command.session and command.run.lines.count(_ORIGIN) >= HOPS


def send_on(slot: Slot, command: Publish, run: Run, way: Forward, turn: Turn) -> Publish | None:
    """Messages of `command` (all, or some of them as `run`) go `way`. Part of its log group. If that is in this slot,
    returns what is to be published there."""
    made = prefixed(run, _ORIGIN + escaped(command.address) + b"\n")
    # Its id was unique at the address where it was sent; at the next one it has not been seen, and must not be
    # refused there.
    made.anew(UNIQUE)
    if slot_of(way.address) == slot.number:
        return Publish(slot.number, 0, 0, way.address, way.routing, made, way.queue).within()
    # The other slot may be led by somebody else, and a Move is carried out behind this turn: what has to survive a
    # crash in between rests in a record of this slot until the other one has taken it.
    if made.flags & (DURABLE | BLOB):  # a body that is carried needs a record that keeps it
        _rest(slot, command.address, made, way, turn)
    else:
        turn.moves.append(Move(slot.number, 0, (), way.address, made, way.queue, way.routing))
    return None


def _rest(slot: Slot, source: str, run: Run, way: Forward, turn: Turn) -> None:
    # One hidden queue for all that goes the same way, so that it arrives in order.
    name = f"{HIDDEN}.{way.queue or ''}"
    queue = slot.hidden.get((way.address, name, way.routing))
    if queue is None:
        queue = create(slot, way.address, name, way.routing, turn, hidden=True)
    slot.number_run(run, turn.now)
    slot.reserve(turn)
    if not run.flags & DURABLE:  # nor is its body on stable storage: a record that lasts would stop a restart
        run.spilled()
        queue.spills()
    turn.appends.append(RunRecord(slot.number, source, [queue.id], run))
    queue.numbered(run.ids)
    paged = bool(len(queue.pages.index) or queue.gate.pages)  # behind what a restart has left
    slot.await_commit([(queue, run, paged)], turn.number)


def is_mine(queue: Queue) -> bool:
    """Is the hidden queue one of these."""
    return queue.name.startswith(f"{HIDDEN}.")


def arrived(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Sends off what is in the queue, and reads back what a restart has left."""
    while queue.count:
        run = queue.front().popleft()
        queue.left(run)
        made = copy(run)
        # Where it arrives it is a message like any other: how this slot kept it is nobody's affair there.
        made.anew(TRANSIENT | PART)
        to = queue.name.partition(".")[2] or None
        move = Move(slot.number, queue.id, run.ids, queue.address, made, to, queue.routing, Left.MOVED)
        turn.moves.append(move)
        queue.sends(move)
    slot.fetch_hidden(queue, turn)
