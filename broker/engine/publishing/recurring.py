"""Messages that are sent again and again: each rests as one scheduled message in a queue of its own address
(`$scheduled.` and the address it is for), whose first header says when and where to (recurrence.py).

When it is due it is moved like a dead letter: published where it is for, settled here, and put back here for the next
time, in one atomic group. So restart, replication, limits and operators know nothing of it, what is durable comes
neither twice nor not at all for a crash, and one that comes for ever is one message.

Rule: of one queue PIECE are under way at a time. Must not know headers of clients.
"""

# Example. Message 30 rests in `$scheduled.orders`, period 60 s, 2 left; it is due now.
#     _send        30 leaves memory, counts as moving, stands in `flying`
#     the owner    publishes the message at orders; settles 30; publishes 31, "1 left", due in 60 s, here: one atomic
#                  group
#     crash        before the group is durable: 30 is due still, and is sent by the next leader. Behind it: 31 is.
#                  Never both, never neither
#     cancel 30    while it is on its way: doomed. It arrives this once, and 31 is not put back

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Move, Turn
from broker.core.errors import Code, RefusedError
from broker.core.message import DURABLE, ESCAPED, GROUPED, NO_IDS, TEXT, Run
from broker.core.records import Left, SettleRecord
from broker.core.spans import spans_of
from broker.core.strict_numbers import natural

from ..messages.page_index import PageIndex
from ..messages.runs import pick
from ..queue.queue import Queue
from ..queue.recurring_in_flight import OnTheirWay
from ..routing.redelivery import expire
from ..state.slot import Slot
from .publish import publish
from .recurrence import Recurrence, split

PIECE: Final = 32
"""Messages read back, and on their way, at a time: some milliseconds."""


def arrived(slot: Slot, queue: Queue, away: OnTheirWay, turn: Turn) -> None:
    """Something is due, or has got where it is for."""
    if queue.browsers:
        slot.browsing[queue] = None
    if queue.paused or queue.settings.paused:
        return
    while queue.count:
        run = queue.front().popleft()
        queue.left(run)
        for at in range(len(run.ids)):
            _send(slot, queue, away, pick(run, [at]), turn)
    # PIECE at a time: a million that are due at one o'clock are sent off by and by, and never all in memory.
    if len(queue.pages.index) and queue.pages.fetching is None and queue.moving < PIECE:
        slot.fetch_front(queue, PIECE, turn)
    slot.watch_idle(queue, turn.now)


def _send(slot: Slot, queue: Queue, away: OnTheirWay, run: Run, turn: Turn) -> None:
    """One message, whose time has come."""
    if run.expires and run.expires <= turn.now:
        expire(slot, queue, run, turn)
        return
    again, message = split(run.lines + run.records[0])
    if again is None or away.ends(run.ids[0]):  # None: an operator has moved it here
        slot.settle_runs(queue, [run], turn, Left.DISCARDED if again is None else Left.PURGED)
        return
    # It leaves the address of the schedule; where it goes it counts on its own.
    if queue.usage is not None:
        queue.usage.leave_runs([run], slot.number, turn)
    queue.leaves_for(1)
    away.left(run)
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
        # The rules of its zone, or of cron, may have changed since it was taken: this time is sent, and the operator
        # hears why it is the last one.
        turn.notices.append(f"{again.job} is not sent again: nobody knows when ({again.cron} {again.zone})")
    if again.bursts:
        burst = again._replace(cron="", zone="")
        # As long as anything is to come it is a message that rests: nothing of it is a timer in memory.
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


def shown(queue: Queue) -> tuple[Iterator[Run], PageIndex]:
    """What a browser sees that is in memory, and where the rest lies in the log: what is not due, and what is on its
    way, too, where that is all there is to see."""
    if queue.recurring is None:
        return queue.ordering(), queue.pages.index.snapshot()
    waits = PageIndex()
    for position in (*queue.pages.index, *queue.agenda_of().positions()):
        waits.append(position)
    return iter([*queue.in_order(), *queue.recurring.flying.values()]), waits


def cancel(slot: Slot, queue: Queue, ids: str, turn: Turn) -> None:
    """These messages do not come again; ids: with blanks between. Those that are not due go at once; one that is due
    when it is its turn, and one that is on its way when it has got there: a browser sees it until then. Raises
    RefusedError for a queue of others."""
    if queue.recurring is None:
        raise RefusedError(Code.NOT_ALLOWED, f"'{queue.name}' holds nothing that comes again; consume it, or purge it")
    wanted = {number for word in ids.split() if (number := natural(word)) is not None}
    gone, nbytes = queue.agenda_of().cancel(wanted)
    queue.recurring.doom(wanted.difference(gone))
    slot.changed.mark(queue)
    if not gone:
        return
    if queue.usage is not None:
        queue.usage.leave(len(gone), nbytes, slot.number, turn)
    turn.appends.append(SettleRecord(slot.number, queue.id, spans_of(gone), True, Left.PURGED, turn.now))
    slot.watch_idle(queue, turn.now)


def moved(slot: Slot, move: Move, turn: Turn) -> None:
    """It has been published, or nobody takes it; redelivery.moved() has settled it. Part of that group."""
    queue = slot.queues.get(move.queue)
    if queue is None or queue.recurring is None:
        return
    if queue.recurring.back(move.ids[0]) and move.then is not None:
        publish(slot, move.then, turn)
    slot.touched[queue] = None
