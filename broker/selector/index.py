"""Many selectors asked of a message at once: what does not match costs nothing.

A selector stands where its terms (terms.py) lead: by the value of a header, by a range that its number lies in, or by
the header's being there or not; from there on by its next term. So a message walks only where it fits, and a thousand
`type = 'a'`, `type = 'b'`, … are one look into a table. What has no such term, or more to it than its terms, is asked.

Rule: found is exactly what each selector finds alone. Adding and removing one costs as much as that one has terms,
never as much as there are others. Must not know who has these selectors.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from typing import Final

from broker.core.message import Run

from .heads import raw, text
from .predicate import Predicate
from .terms import Number, Term, There, Values, Within, hopeless
from .values import number

FEW: Final = 6
"""Headers that are looked for one by one; of more of them the message is taken apart once."""
ASKED: Final = 200
"""Nanoseconds of asking one selector; what it does with the headers comes on top."""
BRIEF: Final = 64
"""… which is at the least what so many bytes of headers may cost (Predicate.heavy): `a > 1 OR b LIKE '%1%' OR c = 'x'`
takes 1.2 µs, whatever the message. Finding a header costs an eighth of what is done with the bytes of its value."""
LOOKED: Final = 300
"""… of looking for one header on the way."""
FOUND: Final = 100
"""… of what becomes of one that matches."""

Found = dict[Predicate, None]


class Index:
    """work      nanoseconds, roughly, that looking has taken since it was set to 0.
    each      so many may answer differently for messages with the same headers.    metered   those with a meter."""

    __slots__ = ("_root", "each", "metered", "work")

    def __init__(self) -> None:
        self._root = _Branch()
        self.work = 0
        self.each = 0
        self.metered: Found = {}

    def __bool__(self) -> bool:
        return bool(self._root)

    def add(self, predicate: Predicate) -> None:
        """One that is not in it."""
        if not hopeless(predicate.terms):
            self._root.add(predicate, predicate.terms, predicate.exact)
        self.each += predicate.each
        if predicate.meter is not None:
            self.metered[predicate] = None

    def remove(self, predicate: Predicate) -> None:
        """One that is in it."""
        if not hopeless(predicate.terms):
            self._root.remove(predicate, predicate.terms)
        self.each -= predicate.each
        self.metered.pop(predicate, None)

    def begin_work(self) -> None:
        """What is looked at from now on is counted, from nothing on."""
        self.work = 0

    def worked(self, nanoseconds: int) -> None:
        """Looking has taken so much more."""
        self.work += nanoseconds

    def find(self, head: bytes, run: Run, index: int, address: str) -> Found:
        """Those that match; arguments as those of Predicate.test."""
        asking = self.begin(head, run, index, address)
        asking.go_on(0)
        return asking.found

    def begin(self, head: bytes, run: Run, index: int, address: str) -> Asking:
        """The same in pieces: to be gone on with. Who is added meanwhile is not asked; who is removed may be found."""
        asking = Asking(self, head, run, index, address)
        asking.at(self._root)
        return asking


class _Branch:
    """What is left of selectors whose terms so far hold.

    certain   nothing: they match.    asked   they have to be asked.    tables   header → by its value.
    empty     those of the tables that have a selector which wants no such header."""

    __slots__ = ("asked", "certain", "empty", "tables")

    def __init__(self) -> None:
        self.certain: Found = {}
        self.asked: Found = {}
        self.tables: dict[bytes, _Table] = {}
        self.empty: dict[bytes, _Table] = {}

    def __bool__(self) -> bool:
        return bool(self.certain or self.asked or self.tables)

    def add(self, predicate: Predicate, terms: tuple[Term, ...], exact: bool) -> None:
        if not terms:
            (self.certain if exact else self.asked)[predicate] = None
            return
        term, rest = terms[0], terms[1:]
        table = self.tables.get(term.name)
        if table is None:
            table = self.tables[term.name] = _Table()
        for branch in table.branches(term):
            branch.add(predicate, rest, exact)
        if table.absent:
            self.empty[term.name] = table

    def remove(self, predicate: Predicate, terms: tuple[Term, ...]) -> None:
        if not terms:
            self.certain.pop(predicate, None)
            self.asked.pop(predicate, None)
            return
        term, rest = terms[0], terms[1:]
        table = self.tables[term.name]
        for branch in table.branches(term):
            branch.remove(predicate, rest)
        table.tidy(term)
        if not table.absent:
            self.empty.pop(term.name, None)
        if not table:
            del self.tables[term.name]


class _Table:
    """Selectors that want something of one header.    texts, numbers: so many of the values are such.
    absent, present   it is not there, or it is."""

    __slots__ = ("absent", "numbers", "present", "ranges", "texts", "values")

    def __init__(self) -> None:
        self.values: dict[bytes | str | int | float, _Branch] = {}
        self.texts = self.numbers = 0
        self.ranges: _Ranges | None = None
        self.absent = _Branch()
        self.present = _Branch()

    def __bool__(self) -> bool:
        return bool(self.values or self.ranges or self.absent or self.present)

    def branches(self, term: Term) -> list[_Branch]:
        """Where the term leads, made if need be."""
        if isinstance(term, There):
            return [self.present if term.wanted else self.absent]
        if isinstance(term, Within):
            self.ranges = self.ranges or _Ranges()
            return [self.ranges.branch(term)]
        return [self._value(value) for value in term.values]

    def _value(self, value: bytes | str | int | float) -> _Branch:
        branch = self.values.get(value)
        if branch is None:
            branch = self.values[value] = _Branch()
            self._count(value, 1)
        return branch

    def _count(self, value: bytes | str | int | float, more: int) -> None:
        if isinstance(value, str):
            self.texts += more
        elif not isinstance(value, bytes):
            self.numbers += more

    def tidy(self, term: Term) -> None:
        """Forgets where the term led, if nobody is there any more."""
        if isinstance(term, Values):
            for value in term.values:
                if not self.values[value]:
                    del self.values[value]
                    self._count(value, -1)
        elif isinstance(term, Within):
            assert self.ranges is not None
            self.ranges.tidy(term)
            self.ranges = self.ranges or None


class _Ranges:
    """Ranges of one header.

    Those with one bound stand sorted by it: the ones that a number lies in are the first, or the last. Those with two
    are in one or two cells as wide as the next power of two: a number asks its cell of each width that there is."""

    __slots__ = ("_above", "_below", "_cells", "_known", "_starts", "_wide")

    def __init__(self) -> None:
        self._known: dict[Within, _Branch] = {}
        self._above: list[tuple[Number, bool]] = []
        """(bound, it is left out) of those without an upper one."""
        self._below: list[tuple[Number, bool]] = []
        """(bound, it is in) of those without a lower one."""
        self._starts: dict[tuple[bool, Number, bool], _Branch] = {}
        """By what stands in those two lists; first: which."""
        self._cells: dict[float, dict[Number, dict[Within, _Branch]]] = {}
        self._wide: dict[Within, _Branch] = {}
        """What has no place in cells."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def branch(self, term: Within) -> _Branch:
        found = self._known.get(term)
        if found is not None:
            return found
        found = self._known[term] = _Branch()
        if term.high is None:
            assert term.low is not None
            insort(self._above, (term.low, term.over))
            self._starts[True, term.low, term.over] = found
        elif term.low is None:
            insort(self._below, (term.high, not term.under))
            self._starts[False, term.high, not term.under] = found
        else:
            for cell in self._places(term):
                cell[term] = found
        return found

    def tidy(self, term: Within) -> None:
        if self._known[term]:
            return
        del self._known[term]
        if term.high is None:
            assert term.low is not None
            del self._above[bisect_left(self._above, (term.low, term.over))]
            del self._starts[True, term.low, term.over]
        elif term.low is None:
            del self._below[bisect_left(self._below, (term.high, not term.under))]
            del self._starts[False, term.high, not term.under]
        else:
            for cell in self._places(term):
                del cell[term]
            self._forget_empty(term)

    def _places(self, term: Within) -> list[dict[Within, _Branch]]:
        """The cells of a range with two bounds."""
        low, high = term.low, term.high
        assert low is not None and high is not None
        width = _width(low, high)
        first, last = low // width, high // width
        if not last - first <= 2:  # so large that cells are smaller than steps of a float
            return [self._wide]
        cells = self._cells.setdefault(width, {})
        return [cells.setdefault(first + n, {}) for n in range(int(last - first) + 1)]

    def _forget_empty(self, term: Within) -> None:
        assert term.low is not None and term.high is not None
        width = _width(term.low, term.high)
        cells = self._cells.get(width)
        if cells is None:
            return
        first = term.low // width
        for n in range(3):
            if cells.get(first + n) == {}:
                del cells[first + n]
        if not cells:
            del self._cells[width]

    def find(self, value: Number) -> list[_Branch]:
        """Of those that the number lies in."""
        starts = self._starts
        found = [starts[True, *key] for key in self._above[: bisect_right(self._above, (value, False))]]
        found += [starts[False, *key] for key in self._below[bisect_left(self._below, (value, True)) :]]
        if math.isfinite(value):
            for width, cells in self._cells.items():
                for term, branch in cells.get(value // width, {}).items():
                    if _inside(value, term):
                        found.append(branch)
            for term, branch in self._wide.items():
                if _inside(value, term):
                    found.append(branch)
        return found


def _width(low: Number, high: Number) -> float:
    """A power of two that is no less."""
    return math.ldexp(1.0, math.frexp(max(float(high) - float(low), 1e-300))[1])


def _inside(value: Number, term: Within) -> bool:
    low, high = term.low, term.high
    assert low is not None and high is not None
    return (low < value if term.over else low <= value) and (value < high if term.under else value <= high)


class Asking:
    """One message on its way through the index.    found   those that match, complete when go_on() says so."""

    __slots__ = ("_address", "_asked", "_fields", "_head", "_index", "_of", "_run", "_work", "found")

    def __init__(self, of: Index, head: bytes, run: Run, index: int, address: str) -> None:
        self.found: Found = {}
        self._of = of
        self._work = 0
        self._asked: list[Predicate] = []
        """Still to be asked."""
        self._head = head
        self._run = run
        self._index = index
        self._address = address
        self._fields: dict[bytes, bytes] | None = None

    def at(self, branch: _Branch) -> None:
        """Takes what matches there."""
        if branch.certain:
            self.found.update(branch.certain)
            self._work += FOUND * len(branch.certain)
        if branch.asked:
            self._asked += branch.asked
        tables = branch.tables
        if not tables:
            return
        self._work += LOOKED
        if len(tables) <= FEW:
            head = self._head
            for name, table in tables.items():
                value = raw(head, name)
                if value is not None:
                    self._value(table, value)
                elif table.absent:
                    self.at(table.absent)
            return
        fields = self._fields
        if fields is None:
            fields = self._fields = _fields(self._head)
        for name, value in fields.items():
            if (known := tables.get(name)) is not None:
                self._value(known, value)
        for name, table in branch.empty.items():
            if name not in fields:
                self.at(table.absent)

    def _value(self, table: _Table, value: bytes) -> None:
        """The header has this value."""
        if (branch := table.values.get(value)) is not None:
            self.at(branch)
        if table.texts and (branch := table.values.get(text(value))) is not None:
            self.at(branch)
        if table.numbers or table.ranges is not None:
            meant = int(value) if value.isdigit() and len(value) < 19 else number(text(value).strip())
            if meant is not None:
                if table.numbers and (branch := table.values.get(meant)) is not None:
                    self.at(branch)
                if table.ranges is not None:
                    for branch in table.ranges.find(meant):
                        self.at(branch)
        if table.present:
            self.at(table.present)

    def go_on(self, most: int) -> bool:
        """Asks for about `most` nanoseconds, one selector at the least; 0: all of them. True: all have been."""
        head, run, index, address, found = self._head, self._run, self._index, self._address, self.found
        asked, work, size = self._asked, self._work, len(head)
        brief = BRIEF + size // 8
        while asked:
            predicate = asked.pop()
            work += ASKED + predicate.heavy * (brief if predicate.meter is None else size)
            if predicate.test(head, run, index, address) is True:
                found[predicate] = None
                work += FOUND
            if most and work > most:
                break
        self._of.worked(work)
        self._work = 0
        return not asked


def _fields(head: bytes) -> dict[bytes, bytes]:
    """What heads.raw() looks for → value, of the first of repeated names."""
    found: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        name, colon, value = line.partition(b":")
        if colon:
            found.setdefault(b"\n%b:" % name, value)
    return found
