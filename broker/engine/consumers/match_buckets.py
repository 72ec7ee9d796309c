"""Messages that have been looked at and wait, sorted by who may get them.

A bucket holds messages of which the same is known: which selectors they match, whose group they belong to, their
priority and what was said of their deliveries. So the next message for a consumer is the first of some buckets, and
no other one is looked at. What memory has no room for is *far*: of it only (id, position) is kept, 16 bytes, and the
journal has the rest.

Rule: ids ascend in a bucket. Must not know consumers, selectors or turns.
"""

# Example. Consumer 7 wants bit 1, consumer 8 bit 2; both are busy. Messages 1 (matches bit 1), 2 (bit 2), 3 (both), 4
# (none).
#     buckets     {1}: [1]   {2}: [2]   {1, 2}: [3]   {}: [4], each with "known: bits 1 and 2"
#     7 ready   the first of {1} and {1, 2} by id: 1, then 3. Neither 2 nor 4 is looked at
#     8 ready   2; 3 is gone
#     9 comes   wants bit 4, which no bucket knows: the first of each bucket is looked at once more, and moves on to a
#               bucket with "known: 1, 2 and 4"
#     memory    is short: 4 becomes far, (id, position); it is read back when somebody may want it
# As many buckets as there are different answers, not messages: a thousand selectors that match by one header make about
# a thousand buckets. Within a bucket ids ascend, so its first message is its oldest.

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from broker.core.message import Run
from broker.core.spans import Span, inside

from ..messages.runs import regroup

_PIECE = 1024
"""Entries of a far part that are kept together."""
Piece: TypeAlias = "tuple[array[int], array[int]]"
"""Ids, and where each is."""

NOBODY = 0
"""Owner of messages without group."""
LOOSE = -1
"""Owner of messages whose groups belong to nobody yet, as far as is known."""

Key = tuple[int, int, int, int, int, bool]


class Far:
    """Messages known by id and position only, by ascending id: in pieces, so that a snapshot copies none of them. What
    stands in a piece is never overwritten; only the end of the last one grows."""

    __slots__ = ("_pieces", "_size", "_taken")

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self._size = 0
        self._taken = 0
        """Of the first piece."""

    def __len__(self) -> int:
        return self._size

    def first(self) -> int:
        """The first id; there must be one."""
        return self._pieces[0][0][self._taken]

    def _last(self) -> int:
        return self._pieces[-1][0][-1] if self._size else 0

    def add(self, ids: Iterable[int], position: int) -> None:
        """All of these at one position; they may stand anywhere among the rest."""
        pieces, last = self._pieces, self._last()
        for i in ids:
            if i < last:
                self._insert(i, position)
            else:
                if not pieces or len(pieces[-1][0]) >= _PIECE:
                    pieces.append((array("Q"), array("Q")))
                pieces[-1][0].append(i)
                pieces[-1][1].append(position)
                last = i
            self._size += 1

    def _insert(self, i: int, position: int) -> None:
        """Among others: into a copy of that piece. What is put away comes youngest first, so it is near the end."""
        pieces = self._pieces
        number = max(bisect_right(pieces, i, key=_first_id) - 1, 0)
        skip = self._taken if not number else 0
        ids, places = (column[skip:] for column in pieces[number])
        if not number:
            self._taken = 0
        at = bisect_left(ids, i)
        ids.insert(at, i)
        places.insert(at, position)
        pieces[number] = ids[:_PIECE], places[:_PIECE]
        if len(ids) > _PIECE:
            pieces.insert(number + 1, (ids[_PIECE:], places[_PIECE:]))

    def pop(self, count: int) -> list[tuple[int, int]]:
        """Removes the first (id, position) …"""
        taken = list(islice(self.all(), count))
        self._size -= len(taken)
        self._taken += len(taken)
        while self._pieces and (not self._size or self._taken >= len(self._pieces[0][0])):
            self._taken -= len(self._pieces.popleft()[0])
        self._taken = max(self._taken, 0)
        return taken

    def all(self) -> Iterator[tuple[int, int]]:
        """(id, position) … as they are now, whatever becomes of them."""
        return islice(_entries(list(self._pieces), self._taken), self._size)

    def withdraw(self, spans: list[Span]) -> list[tuple[int, int]]:
        """Removes those inside the ascending spans."""
        # Most buckets have nothing in the spans of one consumer that attaches again.
        low, high = spans[0][0], spans[-1][1]
        if not self._size or self._last() < low or self.first() > high:
            return []
        found: list[tuple[int, int]] = []
        kept = Far()
        for i, place in self.all():
            if inside(spans, i):
                found.append((i, place))
            else:
                kept.add((i,), place)
        self._pieces, self._size, self._taken = kept._pieces, kept._size, 0
        return found


def _entries(pieces: list[Piece], taken: int) -> Iterator[tuple[int, int]]:
    for ids, places in pieces:
        yield from islice(zip(ids, places, strict=True), taken, None) if taken else zip(ids, places, strict=True)
        taken = 0


def _first_id(piece: Piece) -> int:
    return piece[0][0]


class MatchBucket:
    """known    bits of the selectors that were asked.    bits   of those that match.
    owner    consumer to whom the groups of these messages belong; NOBODY, LOOSE.
    priority, attempts, again   of all of them; again: REDELIVERED.
    near     runs in memory."""

    __slots__ = ("again", "attempts", "bits", "far", "known", "near", "owner", "priority")

    def __init__(self, key: Key) -> None:
        self.known, self.bits, self.owner, self.priority, self.attempts, self.again = key
        self.near: deque[Run] = deque()
        self.far = Far()

    @property
    def key(self) -> Key:
        return self.known, self.bits, self.owner, self.priority, self.attempts, self.again

    def __bool__(self) -> bool:
        return bool(self.near) or len(self.far) > 0

    def leaves(self, consumer: int) -> None:
        """The groups of that consumer belong to none any more."""
        if self.owner == consumer:
            self.loosen()

    def loosen(self) -> None:
        """Its groups belong to no consumer any more."""
        self.owner = LOOSE if self.owner else NOBODY

    def forget(self, bit: int) -> None:
        """Nobody asks for that any more."""
        self.known &= ~bit
        self.bits &= ~bit

    def first(self) -> int:
        """Id of the first message; there must be one."""
        if not self.near:
            return self.far.first()
        first = self.near[0].ids[0]
        return min(first, self.far.first()) if len(self.far) else first

    def beyond(self) -> bool:
        """Is the first message far."""
        return len(self.far) > 0 and (not self.near or self.far.first() < self.near[0].ids[0])

    def add(self, run: Run) -> None:
        """A run, wherever its place is."""
        near = self.near
        if not near or near[-1].ids[-1] < run.ids[0]:
            near.append(run)
            return
        # Only the last run lies across it: those two are taken apart.
        if near[0].ids[0] < run.ids[0] and near[-1].ids[0] < run.ids[0]:
            near.extend(regroup({i: r for r in (near.pop(), run) for i in r.ids}))
            return
        # Something came back to the head: runs that begin before its end are passed, as many as lie before it.
        newest, passed = run.ids[-1], [run]
        while near and near[0].ids[0] < newest:
            passed.append(near.popleft())
        # extendleft() puts one before the other: reversed, so that they stand by ascending id again.
        near.extendleft(reversed(regroup({i: r for r in passed for i in r.ids}) if len(passed) > 1 else passed))

    def merge(self, other: MatchBucket) -> None:
        """Everything of another bucket."""
        runs = [*self.near, *other.near]
        self.near = deque(regroup({i: run for run in runs for i in run.ids}))
        for i, place in other.far.all():
            self.far.add((i,), place)


def dress(run: Run, bucket: MatchBucket) -> Run:
    """A run that was read back, as it was when it was put away."""
    run.attempts = bucket.attempts
    if bucket.again:
        run.came_again()
    return run
