"""Pages of long lists: sorted, filtered, and found bit by bit.

Rule: a page costs one look at each entry and memory for one page, in pieces of PIECE entries between which the loop has
others to serve; where the next page begins is said by the last entry of this one, so nothing is kept for one that turns
pages, and what comes or goes meanwhile shifts nothing. Must not know what is listed.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Generator, Iterable, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

PIECE = 8
"""Entries looked at in one piece: some µs, or many where no cache holds them any more (loop_watchdog.portion)."""
ROWS = 8
"""Entries of a page that are described in one piece."""
MOST = 500
"""Entries of a page."""


class PageKey(NamedTuple):
    """Where an entry stands: what is sorted by, and its name, which no other entry has."""

    value: Any
    name: tuple[Any, ...]


class Ask(NamedTuple):
    """What is asked for. after: the place of the last entry of the page before; None: the first page."""

    limit: int = 50
    sort: str = ""
    descending: bool = False
    after: PageKey | None = None


class Page(NamedTuple, Generic[T]):
    """entries   in order.    total   of all pages together.    more   there are further ones."""

    entries: list[tuple[PageKey, T]]
    total: int
    more: bool


def choose(
    entries: Iterable[Sequence[T]],
    ask: Ask,
    value: Callable[[T], Any],
    name: Callable[[T], tuple[Any, ...]],
    keep: Callable[[T], bool] | None = None,
) -> Generator[None, None, Page[T]]:
    """The page that is asked for, a piece of the entries per step.

    value   what is sorted by: all texts, or all numbers.    keep   whether it belongs into the list; None: all do."""
    best: list[tuple[tuple[Any, Any], T]] = []
    total, most, down = 0, ask.limit + 1, ask.descending
    after = None if ask.after is None else (ask.after.value, ask.after.name)
    last: tuple[Any, Any] | None = None
    bound: Any = None
    for piece in entries:
        if keep is not None:
            piece = [entry for entry in piece if keep(entry)]
        total += len(piece)
        for entry, its in zip(piece, map(value, piece), strict=True):
            if last is not None and (its < bound if down else its > bound):
                continue
            place = (its, name(entry))
            if last is not None and (place < last if down else place > last):
                continue
            if after is not None and (place >= after if down else place <= after):
                continue
            insort(best, (place, entry), key=_place)
            if len(best) > most:
                best.pop(0 if down else -1)
            if len(best) == most:
                last = best[0 if down else -1][0]
                bound = last[0]
        yield
    if down:
        best.reverse()
    return Page([(PageKey(*place), entry) for place, entry in best[: ask.limit]], total, len(best) > ask.limit)


def merged(pages: Sequence[Page[T]], ask: Ask) -> Page[T]:
    """The page of which these are the parts: one of each part of the list, by the same question."""
    parts = merge(*[page.entries for page in pages], key=_place, reverse=ask.descending)
    more = any([page.more for page in pages]) or sum([len(page.entries) for page in pages]) > ask.limit
    return Page(list(islice(parts, ask.limit)), sum([page.total for page in pages]), more)


def _place(entry: tuple[Any, Any]) -> Any:
    return entry[0]
