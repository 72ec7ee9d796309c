"""What a selector needs of single headers, as an index of many selectors wants it.

Rule: a condition is taken apart only where it can be true in no other way than by all of its terms; whatever is left
out of them has to be asked. Must not know how selectors are evaluated, nor messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

from .compiling import header_of
from .heads import plain
from .syntax import And, Compare, In, IsNull, Literal, Node, Not, Or
from .values import Mode

Number: TypeAlias = int | float


@dataclass(frozen=True, slots=True)
class Values:
    """The header is one of these: bytes as they stand in the block (escaped), texts as they are meant, or numbers that
    it looks like."""

    name: bytes
    values: frozenset[bytes | str | int | float]


@dataclass(frozen=True, slots=True)
class Within:
    """The header looks like a number between these; None: no bound on that side.
    over, under   the bound is left out."""

    name: bytes
    low: Number | None
    over: bool
    high: Number | None
    under: bool

    def and_also(self, other: Within) -> Within:
        """Both."""
        low, over, high, under = self.low, self.over, self.high, self.under
        if other.low is not None and (low is None or (other.low, other.over) > (low, over)):
            low, over = other.low, other.over
        if other.high is not None and (high is None or (other.high, not other.under) < (high, not under)):
            high, under = other.high, other.under
        return Within(self.name, low, over, high, under)

    def empty(self) -> bool:
        """Is there no such number."""
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and (self.over or self.under))


@dataclass(frozen=True, slots=True)
class There:
    """The header is there, or it is not."""

    name: bytes
    wanted: bool


Term: TypeAlias = Values | Within | There

_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "<>": "<>"}
_MOST: Final = 1e300
"""Beyond it a bound is no number to compute with."""
DEEP: Final = 6
"""Terms of one selector. Why not more: an index of many has a step for each."""


def terms_of(node: Node, mode: Mode) -> tuple[tuple[Term, ...], bool]:
    """(terms, exact): the condition is true only if all terms hold; exact: it is true then. No terms: nothing of a
    single header is needed. At most one Within of each header; those that few messages meet come first."""
    exact = True
    found: dict[Term, None] = {}
    ranges: dict[bytes, Within] = {}
    for part in _conjuncts(node):
        term = _term(part)
        if term is None:
            exact = False
            continue
        if isinstance(term, Within):
            ranges[term.name] = ranges[term.name].and_also(term) if term.name in ranges else term
        else:
            found[term] = None
        # Where texts are not simply the numbers they look like, looking like one is not enough.
        exact = exact and (mode is Mode.AUTO or not _numeric(term))
    terms = sorted([*found, *ranges.values()], key=_rank)
    kept = _together(terms)[:DEEP]
    return tuple(kept), exact and bool(kept) and len(kept) == len(terms)


def hopeless(terms: tuple[Term, ...]) -> bool:
    """Can they never hold."""
    return any(isinstance(term, Within) and term.empty() for term in terms)


def _together(terms: list[Term]) -> list[Term]:
    """One with many values at most: two would be as many pairs as their product."""
    kept: list[Term] = []
    many = False
    for term in terms:
        several = isinstance(term, Values) and len(term.values) > 1
        if not (several and many):
            kept.append(term)
        many = many or several
    return kept


def _rank(term: Term) -> tuple[int, bytes]:
    """Values first, and always in the same order, so that selectors of one kind part ways late."""
    if isinstance(term, Values):
        return 0, term.name
    return (1 if isinstance(term, Within) else 3 if term.wanted else 2), term.name


def _numeric(term: Term) -> bool:
    if isinstance(term, Values):
        return any(not isinstance(value, bytes | str) for value in term.values)
    return isinstance(term, Within)


def _conjuncts(node: Node) -> list[Node]:
    if isinstance(node, And):
        return [part for condition in node.conditions for part in _conjuncts(condition)]
    return [node]


def _term(node: Node) -> Term | None:
    if isinstance(node, In | Or):
        return _one_of(node)
    if isinstance(node, Compare):
        return _compared(node)
    negated = isinstance(node, Not)
    inner = node.condition if isinstance(node, Not) else node
    if isinstance(inner, IsNull):
        name = header_of(inner.value)
        return None if name is None else There(name, negated)
    return None


def _compared(node: Compare) -> Term | None:
    operator, left, right = node.operator, node.left, node.right
    if isinstance(left, Literal):
        operator, left, right = _FLIPPED[operator], right, left
    name = header_of(left)
    if name is None or not isinstance(right, Literal):
        return None
    value = right.value
    if value is None or isinstance(value, bool):
        return None
    if operator == "=":
        if isinstance(value, str):
            raw = plain(value)
            return Values(name, frozenset((value if raw is None else raw,)))
        return Values(name, frozenset((value,)))
    if isinstance(value, str) or operator == "<>" or not math.isfinite(value) or abs(value) > _MOST:
        return None
    if operator in (">", ">="):
        return Within(name, value, operator == ">", None, False)
    return Within(name, None, False, value, operator == "<")


def _one_of(node: In | Or) -> Values | None:
    """Several values of one header."""
    if isinstance(node, In):
        name = header_of(node.value)
        if name is None:
            return None
        # U+FFFD stands for bytes that are no UTF-8: such a text has many forms.
        raws = [value if "\ufffd" in value or (raw := plain(value)) is None else raw for value in node.values]
        return Values(name, frozenset(raws))
    terms = [_term(part) for part in node.conditions]
    first = terms[0]
    if not isinstance(first, Values):
        return None
    values: set[bytes | str | int | float] = set()
    for term in terms:
        if not isinstance(term, Values) or term.name != first.name:
            return None
        values |= term.values
    return Values(first.name, frozenset(values))
