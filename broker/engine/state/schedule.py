"""Messages that are not due yet: they rest in the journal, and memory holds one integer for each run of them.

A run whose time has come goes to the end of the page index and is read back like any other page; so restart, paging and
replication need no code of their own. Before that the log must know that it may be delivered ("due": everything of the
queue up to this time): what is not due by the log was never handed out, by no leader, whatever its clock says.

Rule: in the order of time, then of ids; what expires first comes out when it expires. Must not know how runs are
recorded.
"""

# Example. Message 8 comes at 1000, due at 5000, in a durable queue.
#     1000    in the log like any message; when that is durable the agenda holds one int of it
#     5000    tick: "due, up to 5000" is appended, nothing goes out yet
#     5001    that is durable: 8's position goes to the end of the index, a page is read, 8 is handed out
#     crash   before "due" was durable: the next leader finds 8 not due by the log, so it was never delivered: no
#             `redelivered`. Behind it: 8 is suspect
# The next leader's clock may be slow: what the log has opened stays open, and comes out at once.

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from broker.core.effects import Turn
from broker.core.message import Run
from broker.core.records import MetaRecord

from ..queue.due_times import Agenda, moment

if TYPE_CHECKING:
    from ..queue.queue import Queue
    from .slot import Slot

STEP = 4096
"""Runs that come out at a time: some milliseconds."""


def postpone(slot: Slot, queue: Queue, run: Run) -> None:
    """The run is in the log, and out of sight until it is due."""
    agenda = queue.agenda_of()
    agenda.add(run)
    # While a question is under way opened() looks at the agenda again.
    if not agenda.asked:
        slot.wake(queue, agenda.first())


def tick(slot: Slot, queue: Queue, agenda: Agenda, turn: Turn) -> None:
    """Time has passed: lets out what is due, as far as the log knows of it."""
    if not queue.durable:
        agenda.open_unlogged(turn.now)
    elif agenda and agenda.opened < agenda.first() <= turn.now and not agenda.asked:
        # Up to now, not only up to the first one: one record for all that is due in this tick.
        agenda.ask(turn.now)
        turn.appends.append(MetaRecord(slot.number, "due", {"queue": queue.id, "at": turn.now}))
        slot.defer_due(queue, turn)
    _let_out(slot, queue, agenda)


def opened(slot: Slot, queue: Queue) -> None:
    """What was asked of the log is durable."""
    agenda = queue.agenda_of()
    agenda.open()
    _let_out(slot, queue, agenda)


def _let_out(slot: Slot, queue: Queue, agenda: Agenda) -> None:
    # A million may be due at one moment: the rest is woken for, since its time is over, by the next tick.
    taken = agenda.pop(agenda.opened, STEP)
    if taken:
        for position, count, nbytes in taken:
            # Without its bytes: what expires in it is found when it is read.
            queue.page_at(position, count, nbytes, agenda.expires)
        queue.pages.begin()
        slot.touched[queue] = None
    if agenda and not agenda.asked:
        slot.wake(queue, agenda.first())


# ── restart ────────────────────────────────────────────────────────────────────────────────────────────


def rests(queue: Queue, run: Run) -> bool:
    """A run that the journal brings back: was it not due, by the log, and so never delivered."""
    if not run.due or queue.hidden:
        return False
    # "Not due" is by the log, never by a clock: only so it is the same on every replica.
    return queue.agenda is None or moment(run) > queue.agenda.opened


def in_order(times: Sequence[int], late: Sequence[int]) -> list[int]:
    """How runs that come back from the journal by ascending id stand in their queue: those `late` ones (indices) that
    were scheduled and have been due by their time, among the others where those were when that time came.

    times   when each came out (see moment), or was sent."""
    # Two lists, each in order, are merged: one sort of the late ones, one walk.
    waiting = deque(sorted(late, key=times.__getitem__))
    scheduled, order = set(late), []
    for at, time in enumerate(times):
        if at not in scheduled:
            while waiting and times[waiting[0]] < time:
                order.append(waiting.popleft())
            order.append(at)
    return order + list(waiting)


def suspected(queue: Queue, run: Run) -> bool:
    """May a run that has been due have been delivered in an earlier life."""
    return queue.agenda is not None and moment(run) <= queue.agenda.suspect


def restored(slot: Slot, queue: Queue, clean: bool, turn: Turn) -> None:
    """Recovery is complete; `clean`: what was not settled was not delivered either."""
    agenda = queue.agenda
    if agenda is None:
        return
    if not clean and agenda.doubt():
        turn.appends.append(MetaRecord(slot.number, "due", _data(queue, agenda)))
    if agenda:
        slot.wake(queue, agenda.first())


def replay(queue: Queue, data: dict[str, Any]) -> None:
    """A "due" MetaRecord."""
    queue.agenda_of().restore(data["at"], data.get("suspect", 0))


def snapshot(number: int, queue: Queue) -> list[MetaRecord]:
    """Of slot `number`."""
    agenda = queue.agenda
    if agenda is None or not max(agenda.opened, agenda.asked):
        return []
    return [MetaRecord(number, "due", _data(queue, agenda))]


def _data(queue: Queue, agenda: Agenda) -> dict[str, Any]:
    return {"queue": queue.id, "at": max(agenda.opened, agenda.asked), "suspect": agenda.suspect}
