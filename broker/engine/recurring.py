"""Messages that are sent again and again: each rests as one scheduled message in a queue of its own address
(`$scheduled.` and the address it is for), whose first header says when and where to (recurrence.py).

When it is due it is moved like a dead letter: published where it is for, settled here, and put back here for the next
time, in one atomic group. So restart, replication, limits and operators know nothing of it, it comes neither twice nor
not at all for a crash, and one that comes for ever is one message.

Rule: of one queue PIECE are under way at a time. Must not know headers of clients.
"""

from __future__ import annotations

from typing import Final

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Move, Turn
from broker.core.errors import RefusedError
from broker.core.message import DURABLE, ESCAPED, GROUPED, NO_IDS, TEXT, Run
from broker.core.records import Left

from .publish import publish
from .queue import Queue
from .recurrence import Recurrence, split
from .redelivery import expire
from .runs import pick
from .slot import Slot

PIECE: Final = 32
"""Messages read back, and on their way, at a time: some milliseconds."""


def arrived(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Something is due, or has got where it is for."""
    if queue.browsers:
        slot.browsing[queue] = None
    if queue.paused or queue.settings.paused:
        return
    while queue.count:
        run = queue.front().popleft()
        queue.left(run)
        for at in range(len(run.ids)):
            _send(slot, queue, pick(run, [at]), turn)
    if len(queue.index) and queue.fetching is None and queue.moving < PIECE:
        slot.fetch_front(queue, PIECE, turn)
    slot.watch_idle(queue, turn.now)


def _send(slot: Slot, queue: Queue, run: Run, turn: Turn) -> None:
    """One message, whose time has come."""
    if run.expires and run.expires <= turn.now:
        expire(slot, queue, run, turn)
        return
    again, message = split(run.lines + run.records[0])
    if again is None:  # an operator has moved it here
        slot.settle_runs(queue, [run], turn, Left.DISCARDED)
        return
    if queue.book is not None:
        queue.book.leave_runs([run], slot.number, turn)
    queue.leaves_for(1)
    again = again._replace(job=again.job or f"{slot.number}-{run.ids[0]}")
    turn.moves.append(_move(slot, queue, run, again, message, turn))


def _move(slot: Slot, queue: Queue, run: Run, again: Recurrence, message: bytes, turn: Turn) -> Move:
    due = run.due or turn.now
    then = None
    try:
        if following := again.following(due, turn.now):
            later = again if again.cron else again._replace(left=max(again.left - 1, -1))
            rest = _resting(run, later, message, following)
            then = Publish(slot.number, 0, 0, queue.address, Routing.ANYCAST, rest).within()  # it has its place already
    except RefusedError:
        turn.notices.append(f"{again.job} is not sent again: nobody knows when ({again.cron} {again.zone})")
    if again.bursts:
        burst = again._replace(cron="", zone="")
        made = _resting(run, burst, message, turn.now + again.delay)
        return Move(slot.number, queue.id, run.ids, queue.address, made, None, Routing.ANYCAST, Left.MOVED, True, then)
    front = f"scheduledJobId:{again.job}\n".encode()
    made = _made(run, front + message, DURABLE if again.durable else 0)
    return Move(
        slot.number, queue.id, run.ids, again.address, made, again.queue, again.routing, Left.MOVED, again.create, then
    )


def _resting(run: Run, again: Recurrence, message: bytes, due: int) -> Run:
    return _made(run, again.lines() + message, DURABLE, due)


def _made(run: Run, record: bytes, durable: int, due: int = 0) -> Run:
    flags = run.flags & (ESCAPED | TEXT | GROUPED) | durable
    return Run(NO_IDS, b"", [record], len(record), flags, run.priority, run.expires, due=due)


def moved(slot: Slot, move: Move, turn: Turn) -> None:
    """It has been published, or nobody takes it; redelivery.moved() has settled it. Part of that group."""
    queue = slot.queues.get(move.queue)
    if queue is None or not queue.recurring:
        return
    if move.then is not None:
        publish(slot, move.then, turn)
    slot.touched[queue] = None
