"""Messages that are not due yet: they rest in the journal, and memory holds one integer for each run of them.

A run whose time has come goes to the end of the page index and is read back like any other page; so restart, paging and
replication need no code of their own. Before that the log must know that it may be delivered ("due": everything of the
queue up to this time): what is not due by the log was never handed out, whoever leads now and whatever his clock says.

Rule: in the order of time, then of ids; what expires first comes out when it expires. Must not know records of runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from broker.core.effects import Turn
from broker.core.message import Run
from broker.core.records import MetaRecord

if TYPE_CHECKING:
    from .queue import Queue
    from .slot import Slot

STEP = 4096
"""Runs that come out at a time: some milliseconds."""

_AT, _ID, _POSITION = 160, 96, 32
_ALL_64, _ALL_32 = (1 << 64) - 1, (1 << 32) - 1


class Agenda:
    """What of one queue is not due: (time, first id, position, messages) packed into one int, about 70 bytes per run.

    count, nbytes   messages.
    opened          everything up to this time (epoch ms) may have been delivered, and the log says so.
    asked           the same, on its way to the log; 0: nothing is.
    suspect         the same, of an earlier life that ended without notice.
    expires         no run it ever held expires before that time; 0: none does."""

    __slots__ = ("_heap", "asked", "count", "expires", "nbytes", "opened", "suspect")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self.count = self.nbytes = self.expires = 0
        self.opened = self.asked = self.suspect = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, run: Run) -> None:
        """The run has its ids, and its position if it is in the log."""
        count = len(run.ids)
        heappush(self._heap, moment(run) << _AT | run.ids[0] << _ID | run.position << _POSITION | count)
        self.count += count
        self.nbytes += run.nbytes
        if run.expires and (not self.expires or run.expires < self.expires):
            self.expires = run.expires

    def first(self) -> int:
        """When the next one comes out; there must be one."""
        return self._heap[0] >> _AT

    def take(self, until: int, most: int) -> list[tuple[int, int, int]]:
        """(position, messages, bytes by the mean) of at most so many runs up to that time; they are out of it now."""
        heap = self._heap
        bound = until + 1 << _AT
        taken: list[tuple[int, int, int]] = []
        while heap and heap[0] < bound and len(taken) < most:
            entry = heappop(heap)
            count = entry & _ALL_32
            nbytes = self.nbytes * count // self.count
            self.count -= count
            self.nbytes -= nbytes
            taken.append((entry >> _POSITION & _ALL_64, count, nbytes))
        return taken


def moment(run: Run) -> int:
    """When it comes out: when it is due, or when it expires."""
    return min(run.due, run.expires) if run.expires else run.due


def agenda_of(queue: Queue) -> Agenda:
    """Made when first needed."""
    if queue.agenda is None:
        queue.agenda = Agenda()
    return queue.agenda


def postpone(slot: Slot, queue: Queue, run: Run) -> None:
    """The run is in the log, and out of sight until it is due."""
    agenda = agenda_of(queue)
    agenda.add(run)
    if not agenda.asked:
        slot.wake(queue, agenda.first())


def tick(slot: Slot, queue: Queue, agenda: Agenda, turn: Turn) -> None:
    """Time has passed: lets out what is due, as far as the log knows of it."""
    if not queue.durable:
        agenda.opened = turn.now
    elif agenda and agenda.opened < agenda.first() <= turn.now and not agenda.asked:
        agenda.asked = turn.now
        turn.appends.append(MetaRecord(slot.number, "due", {"queue": queue.id, "at": turn.now}))
        slot.hold_due(queue, turn)
    _let_out(slot, queue, agenda)


def opened(slot: Slot, queue: Queue) -> None:
    """What was asked of the log is durable."""
    agenda = agenda_of(queue)
    agenda.opened, agenda.asked = agenda.asked, 0
    _let_out(slot, queue, agenda)


def _let_out(slot: Slot, queue: Queue, agenda: Agenda) -> None:
    taken = agenda.take(agenda.opened, STEP)
    if taken:
        for position, count, nbytes in taken:
            queue.page_at(position, count, nbytes, agenda.expires)
        queue.paging = True
        slot.touched[queue] = None
    if agenda and not agenda.asked:
        slot.wake(queue, agenda.first())


# ── restart ────────────────────────────────────────────────────────────────────────────────────────────


def rests(queue: Queue, run: Run) -> bool:
    """A run that the journal brings back: was it not due, by the log, and so never delivered."""
    if not run.due or queue.hidden:
        return False
    return queue.agenda is None or moment(run) > queue.agenda.opened


def in_order(times: Sequence[int], late: Sequence[int]) -> list[int]:
    """How runs that come back from the journal by ascending id stand in their queue: those `late` ones (indices) that
    were scheduled and have been due by their time, among the others where those were when that time came.

    times   when each came out (see moment), or was sent."""
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
    if not clean and agenda.opened > agenda.suspect:
        agenda.suspect = agenda.opened
        turn.appends.append(MetaRecord(slot.number, "due", _data(queue, agenda)))
    if agenda:
        slot.wake(queue, agenda.first())


def replay(queue: Queue, data: dict[str, Any]) -> None:
    """A "due" MetaRecord."""
    agenda = agenda_of(queue)
    agenda.opened = max(agenda.opened, data["at"])
    agenda.suspect = max(agenda.suspect, data.get("suspect", 0))


def snapshot(number: int, queue: Queue) -> list[MetaRecord]:
    """Of slot `number`."""
    agenda = queue.agenda
    if agenda is None or not max(agenda.opened, agenda.asked):
        return []
    return [MetaRecord(number, "due", _data(queue, agenda))]


def _data(queue: Queue, agenda: Agenda) -> dict[str, Any]:
    return {"queue": queue.id, "at": max(agenda.opened, agenda.asked), "suspect": agenda.suspect}
