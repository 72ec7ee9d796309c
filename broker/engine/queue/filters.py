"""Which queues of an address take which message: subscriptions of a topic with selectors, asked together.

Looking may take longer than a step of the loop may (docs/adr/0009): thousands of selectors that no index helps with,
and a read full of messages. So it is done in pieces before the messages are taken (`Look`), and publishing them
finds the answer there (prefilter.py).

Rule: kept as queues come and go, so that neither costs as much as there are queues; what does not match costs nothing.
Must not know who consumes, nor turns.
"""

# Example. Topic t: queues A and B with "x = 1", C with "y > 2", D without. A run of three messages, of which the
# first has x = 1 and all have y = 3.
#     takers   "x = 1": A, B.  "y > 2": C.    free   D
#     found    "x = 1": [0].  "y > 2": [0, 1, 2]
#     share    D and C get the run itself, A and B one run of the first message, which they share: bytes are never
#              copied, and 1,000 queues with one selector cost one cut

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from broker.core.message import Run
from broker.selector import Asking, Index, Predicate
from broker.selector.heads import head_of, shared

from ..messages.runs import pick

if TYPE_CHECKING:
    from .queue import Queue

Found = dict[Predicate, Sequence[int]]
"""Selector → which messages of a run match it, ascending; without those that match none."""


class Filters:
    """takers    selector → queues with it.    free   queues of the address without one.    address: for AMQAddress."""

    __slots__ = ("address", "free", "index", "takers")

    def __init__(self, address: str, queues: list[Queue]) -> None:
        self.address = address
        self.free: dict[Queue, None] = {}
        self.takers: dict[Predicate, dict[Queue, None]] = {}
        self.index = Index()
        for queue in queues:
            self.add(queue)

    def __bool__(self) -> bool:
        return bool(self.takers)

    def add(self, queue: Queue) -> None:
        """It belongs to the address."""
        if queue.filter is None:
            self.free[queue] = None
            return
        known = self.takers.get(queue.filter)
        if known is None:
            known = self.takers[queue.filter] = {}
            # Once per selector, not per queue: the index is asked as many questions as there are different selectors
            # at most.
            self.index.add(queue.filter)
        known[queue] = None

    def remove(self, queue: Queue) -> None:
        """It does not, any more; its filter is the same as when it came."""
        if queue.filter is None:
            self.free.pop(queue, None)
            return
        known = self.takers[queue.filter]
        del known[queue]
        if not known:
            del self.takers[queue.filter]
            self.index.remove(queue.filter)

    def share(self, run: Run, found: Found) -> list[tuple[Run, list[Queue]]]:
        """Who gets what of the run; queues that get the same share it."""
        count = len(run.records)
        free = [queue for queue in self.free if not queue.closed()]
        some: dict[tuple[int, ...] | range, list[Queue]] = {}
        for predicate, at in found.items():
            takers = [queue for queue in self.takers.get(predicate, ()) if not queue.closed()]
            if len(at) == count:
                free += takers
            elif takers:
                # By what they get, not by who they are: selectors that match the same messages share as well.
                some.setdefault(tuple(at), []).extend(takers)
        parts = [(run, free)] if free else []
        return parts + [(pick(run, at), takers) for at, takers in some.items()]


class Look:
    """One run being looked at.    at: so many of its messages have been.    found: of these.
    overran   selectors that would have cost too much, and over what."""

    __slots__ = ("_asking", "at", "found", "overran", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self._asking: Asking | None = None
        """Message `at`, where a piece has ended in the middle of its selectors."""
        self.at = 0
        self.found: Found = {}
        self.overran: dict[Predicate, str] = {}

    def fits(self, run: Run) -> bool:
        """Are these the same messages, with the same headers."""
        mine = self.run
        # Identity of the list, then of what admission may have put in front: a list is not made anew on the way, so
        # the same list is the same bytes.
        return run.records is mine.records and run.lines == mine.lines and run.expires == mine.expires

    def go_on(self, filters: Filters, most: int) -> bool:
        """Looks at more of it: about `most` nanoseconds, one selector at the least; 0: at all. True: all is found."""
        index = filters.index
        index.begin_work()
        # All headers that selectors see are the run's own lines, and no selector reads what differs message by
        # message.
        if shared(self.run) and not index.each:
            self._alike(filters, most)
        else:
            self._each(filters, most)
        for predicate in index.metered:
            assert predicate.meter is not None
            if why := predicate.meter.overran():
                self.overran[predicate] = why
        return self.at >= len(self.run.records)

    def _alike(self, filters: Filters, most: int) -> None:
        """What holds of one message holds of all."""
        count = len(self.run.records)
        if not count:
            self.at = count
        elif (found := self._ask(filters, 0, most)) is not None:
            self.found, self.at = dict.fromkeys(found, range(count)), count

    def _each(self, filters: Filters, most: int) -> None:
        index, count = filters.index, len(self.run.records)
        found: dict[Predicate, list[int]] = self.found  # type: ignore[assignment]
        while self.at < count:
            # At least one selector each time, so that a look ends whatever it costs.
            matching = self._ask(filters, self.at, max(most - index.work, 1) if most else 0)
            if matching is None:
                break
            for predicate in matching:
                if predicate in found:
                    found[predicate].append(self.at)
                else:
                    found[predicate] = [self.at]
            self.at += 1
            if most and index.work > most:
                break

    def _ask(self, filters: Filters, at: int, most: int) -> Iterable[Predicate] | None:
        """Who wants that message; None: there is more to ask than fits."""
        run, asking = self.run, self._asking
        if asking is None:
            # Kept when the time is up in the middle of a message: with 50,000 selectors one message is many pieces.
            asking = filters.index.begin(head_of(run, at), run, at, filters.address)
        done = asking.go_on(most)
        self._asking = None if done else asking
        return asking.found if done else None


class Seen:
    """What is known of the messages of a command before it is carried out.

    run      as the command has it.    now   the time of the first look.
    looks    one for each who filters."""

    __slots__ = ("looks", "now", "run")

    def __init__(self, run: Run, now: int, looks: list[tuple[Filters, Look]]) -> None:
        self.run = run
        self.now = now
        self.looks = looks
