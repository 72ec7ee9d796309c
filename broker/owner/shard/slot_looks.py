"""One slot as one question sees it, kept up to date: a look reads again what has changed since the one before.

Rule: what is told is never older than the look that tells it. All queues are read at the first look, and when nobody
knows any more which have changed (engine/state/queue_changes.py): PIECE in a step. Several looks may go on at once:
each step leaves everything as it ought to be, and the next step, of any of them, goes on there.
"""

# Example. Totals of a slot of 1,500 queues, asked for every two seconds.
#     first    all 1,500 are read, 8 in a step; what each of them adds to the sums is noted
#     second   one has changed: it is read; the sums lose what was noted of it, and have what it adds now
#     top 8    58 are known in order (SPARE more than are shown) and that all others come behind them. One that changes
#              is taken out and put to its new place, or behind. When fewer are left than are shown all are read again

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Generator
from typing import Any, Final, Protocol

from broker.core.pages import PIECE, Ask, Page, PageKey
from broker.engine.queue.queue import Queue
from broker.engine.state.queue_views import scheduled, waiting
from broker.engine.state.slot import Slot
from broker.engine.state.slot_counters import Counters

SPARE: Final = 50
"""Entries of a list that are known beside those that are shown."""

Work = Generator[None, None, Any]


class SlotLook(Protocol):
    """again()   what is found out, in steps. Who gets it changes nothing of it.    marks   it needs to know which
    queues have changed."""

    marks: bool

    def again(self) -> Work: ...


class Anew:
    """Everything is read each time."""

    marks = False

    def __init__(self, work: Callable[[], Work]) -> None:
        self._work = work

    def again(self) -> Work:
        return self._work()


class AddressesLook:
    """Everything is read where an address, or a queue of one, came or went: nothing else is asked of addresses."""

    marks = False

    def __init__(self, slot: Slot, work: Callable[[], Work]) -> None:
        self._slot = slot
        self._work = work
        self._seen = -1
        self._found: Any = None

    def again(self) -> Work:
        seen = self._slot.changed.addresses
        if self._seen == seen:
            return self._found
        found = yield from self._work()
        self._seen, self._found = seen, found
        return found


class QueuesLook:
    """What has changed is read again. What of it, and what that makes, is said by _begin(), _read() and _made()."""

    marks = True

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._mark = -1
        """Changes up to this one have been read (QueueChanges)."""
        self._whole = 0
        """How often it was begun to read all."""
        self._left: list[int] = []
        """Of these, queues that are still to be read; the last one is the next."""

    def again(self) -> Work:
        """See SlotLook."""
        changed, began = self._slot.changed, self._whole
        # Settings that are being changed, piece by piece: no turn has ended since.
        changed.mark_all(self._slot.touched)
        until = changed.count
        while True:
            while self._left:
                self._read_on()
                yield
            # All was read since this look began; what has changed meanwhile is for the next one.
            if self._whole > began and not self._short():
                return self._made()
            news = changed.since(self._mark)
            if news is None or self._short():
                self._all(changed.begin())
                yield  # the copy alone is a step
            elif self._mark >= until:
                return self._made()
            else:
                yield from self._read_news(news)

    def _all(self, mark: int) -> None:
        self._mark = mark
        self._whole += 1
        self._begin()
        # Their numbers: queues come and go between the steps, and to copy references would be a look at each.
        self._left = list(self._slot.queues)
        self._left.reverse()

    def _read_on(self) -> None:
        some = self._left[-PIECE:]
        del self._left[-PIECE:]
        some.reverse()
        self._read(some, True)

    def _read_news(self, news: list[tuple[int, int]]) -> Generator[None, None, None]:
        for start in range(0, len(news), PIECE):
            # Another look may have read some of them, or have begun anew: then nothing of this is new any more.
            piece = [(at, id) for at, id in news[start : start + PIECE] if at > self._mark]
            if piece:
                self._read([id for _, id in piece], False)
                self._mark = piece[-1][0]
                yield
                if self._left:
                    return

    def _short(self) -> bool:
        """Is what is known too little, so that all has to be read."""
        return False

    def _begin(self) -> None:
        """Nothing is known."""
        raise NotImplementedError

    def _read(self, ids: list[int], first: bool) -> None:
        """These queues are read, or are gone. first: all are."""
        raise NotImplementedError

    def _made(self) -> Any:
        raise NotImplementedError


Amounts = tuple[int, int, int, int, int]
"""Of a queue: waiting, delivering, scheduled, paused, bytes."""
NOTHING: Final[Amounts] = (0, 0, 0, 0, 0)


class TotalsLook(QueuesLook):
    """(what is there, what the slot has done since the start)."""

    def _begin(self) -> None:
        self._of: dict[int, Amounts] = {}
        """Of the queues that are not NOTHING."""
        self._like: dict[Amounts, Amounts] = {}
        """The same, while all are read: most queues are alike, and share theirs."""
        self._sums = NOTHING

    def _read(self, ids: list[int], first: bool) -> None:
        of, like, queues = self._of, self._like, self._slot.queues
        a, b, c, d, e = self._sums
        for id in ids:
            queue = queues.get(id)
            if queue is None or queue.hidden:
                now = NOTHING
            else:
                now = (
                    waiting(queue), queue.delivering, scheduled(queue), int(queue.paused),
                    queue.nbytes + queue.pages.nbytes,
                )  # fmt: skip
            was = of.get(id, NOTHING)
            if now == was:
                continue
            a += now[0] - was[0]
            b += now[1] - was[1]
            c += now[2] - was[2]
            d += now[3] - was[3]
            e += now[4] - was[4]
            if now == NOTHING:
                del of[id]
            else:
                of[id] = like.setdefault(now, now) if first else now
        self._sums = (a, b, c, d, e)

    def _made(self) -> tuple[dict[str, int], dict[str, int]]:
        slot = self._slot
        self._like = {}
        waiting, delivering, scheduled, paused, nbytes = self._sums
        sums = {
            "addresses": len(slot.addresses), "consumers": len(slot.consumers),
            "queues": len(slot.queues) - len(slot.hidden), "waiting": waiting, "delivering": delivering,
            "scheduled": scheduled, "paused": paused, "bytes": nbytes,
        }  # fmt: skip
        return sums, {name: getattr(slot.counters, name) for name in Counters.__slots__}


Place = tuple[Any, tuple[Any, ...]]


class QueueListLook(QueuesLook):
    """A page of the queues."""

    def __init__(
        self,
        slot: Slot,
        ask: Ask,
        value: Callable[[Queue], Any],
        keep: Callable[[Queue], bool] | None,
    ) -> None:
        """value   what is sorted by.    keep   whether it belongs into the list; None: all do."""
        super().__init__(slot)
        self._ask = ask
        self._value = value
        self._keep = keep
        self._after: Place | None = None if ask.after is None else (ask.after.value, ask.after.name)
        self._page: Page[tuple[Slot, Queue]] | None = None

    def _begin(self) -> None:
        self._best: list[tuple[Place, Queue]] = []
        """In ascending order, whatever is asked for."""
        self._places: dict[int, Place] = {}
        """Of these, by their ids."""
        self._bound: Place | None = None
        """All others stand behind this place, or at it; None: there are no others."""
        self._kept: set[int] = set()
        """Queues that belong into the list, on whatever page; none where all do."""

    def _short(self) -> bool:
        return self._mark >= 0 and self._bound is not None and len(self._best) <= self._ask.limit

    def _read(self, ids: list[int], first: bool) -> None:
        queues, value, keep, number = self._slot.queues, self._value, self._keep, self._slot.number
        places, down, after = self._places, self._ask.descending, self._after
        for id in ids:
            queue = queues.get(id)
            if id in places:
                self._remove(id)
            if queue is None or queue.hidden:
                self._kept.discard(id)
                continue
            if keep is not None:
                if not keep(queue):
                    self._kept.discard(id)
                    continue
                self._kept.add(id)
            its, bound = value(queue), self._bound
            # The usual end of the way, before a place is made.
            if bound is not None and (its < bound[0] if down else its > bound[0]):
                continue
            place = (its, (queue.name, queue.address, number))
            if bound is not None and (place <= bound if down else place >= bound):
                continue
            if after is not None and (place >= after if down else place <= after):
                continue
            places[id] = place
            insort(self._best, (place, queue), key=_place)
            if len(self._best) > self._ask.limit + 1 + SPARE:
                self._bound, last = self._best.pop(0 if down else -1)
                del places[last.id]

    def _remove(self, id: int) -> None:
        place, best = self._places.pop(id), self._best
        at = bisect_left(best, place, key=_place)
        # One that was purged stands beside the other that took its place.
        while best[at][1].id != id:
            at += 1
        del best[at]

    def _made(self) -> Page[tuple[Slot, Queue]]:
        """The same one, if nothing of it has changed."""
        slot, limit, down = self._slot, self._ask.limit, self._ask.descending
        shown = self._best[: -limit - 1 : -1] if down else self._best[:limit]
        total = len(slot.queues) - len(slot.hidden) if self._keep is None else len(self._kept)
        page = Page([(PageKey(*place), (slot, queue)) for place, queue in shown], total, len(self._best) > limit)
        if self._page is None or self._page != page:
            self._page = page
        return self._page


def _place(entry: tuple[Place, Queue]) -> Place:
    return entry[0]
