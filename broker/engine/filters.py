"""Which queues of an address take which message: subscriptions of a topic with selectors, asked together.

Looking may take longer than a step of the loop may (docs/adr/0009): thousands of selectors that no index helps with,
and a read full of messages. So it is done in pieces before the messages are taken (`Look`), and whoever publishes them
finds the answer there (prefilter.py).

Rule: kept as queues come and go, so that neither costs as much as there are queues; what does not match costs nothing.
Must not know who consumes, nor turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.core.message import Run
from broker.selector import Index, Predicate
from broker.selector.heads import head_of, shared

from .runs import pick

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
                some.setdefault(tuple(at), []).extend(takers)
        parts = [(run, free)] if free else []
        return parts + [(pick(run, at), takers) for at, takers in some.items()]


class Look:
    """One run being looked at.    at: so many of its messages have been.    found: of these.
    overran   selectors that would have cost too much, and over what."""

    __slots__ = ("at", "found", "overran", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.at = 0
        self.found: Found = {}
        self.overran: dict[Predicate, str] = {}

    def fits(self, run: Run) -> bool:
        """Are these the same messages, with the same headers."""
        mine = self.run
        return run.records is mine.records and run.lines == mine.lines and run.expires == mine.expires

    def go_on(self, filters: Filters, most: int) -> bool:
        """Looks at more of it: about `most` nanoseconds, one message at the least; 0: at all. True: all is found."""
        index = filters.index
        index.work = 0
        if shared(self.run) and not index.each:
            self._alike(filters)
        else:
            self._each(filters, most)
        for predicate in index.metered:
            assert predicate.meter is not None
            if why := predicate.meter.overran():
                self.overran[predicate] = why
        return self.at >= len(self.run.records)

    def _alike(self, filters: Filters) -> None:
        """What holds of one message holds of all."""
        run, count = self.run, len(self.run.records)
        if count:
            self.found = dict.fromkeys(filters.index.find(head_of(run, 0), run, 0, filters.address), range(count))
        self.at = count

    def _each(self, filters: Filters, most: int) -> None:
        index, run, address = filters.index, self.run, filters.address
        count = len(run.records)
        found: dict[Predicate, list[int]] = self.found  # type: ignore[assignment]
        for at in range(self.at, count):
            for predicate in index.find(head_of(run, at), run, at, address):
                if predicate in found:
                    found[predicate].append(at)
                else:
                    found[predicate] = [at]
            self.at = at + 1
            if most and index.work > most:
                break


class Seen:
    """What is known of the messages of a command before it is carried out.

    run      as the command has it.    now   the time of the first look.
    looks    one for each who filters."""

    __slots__ = ("looks", "now", "run")

    def __init__(self, run: Run, now: int, looks: list[tuple[Filters, Look]]) -> None:
        self.run = run
        self.now = now
        self.looks = looks
