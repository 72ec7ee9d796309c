"""What a selector means, as a tree.

Rule: plain values; how they are computed is compiling.py's. `Condition` nodes are true, false or unknown, all other
nodes are values. Must not know messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; None is NULL."""

    value: str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Name:
    """A header, or one of the names of our own."""

    name: str


@dataclass(frozen=True, slots=True)
class Negative:
    """- value"""

    value: Node


@dataclass(frozen=True, slots=True)
class Sum:
    """first (operator value) …, from left to right; all operators of one rank, so that long ones are not deep."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """left operator right; operator: = <> < <= > >="""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class IsNull:
    """value IS NULL"""

    value: Node


@dataclass(frozen=True, slots=True)
class Like:
    """`escape`: one character, or empty."""

    value: Node
    pattern: str
    escape: str


@dataclass(frozen=True, slots=True)
class In:
    """name IN (values)"""

    value: Name
    values: frozenset[str]


@dataclass(frozen=True, slots=True)
class XPath:
    """The body is XML and the expression true of it."""

    expression: str


@dataclass(frozen=True, slots=True)
class Not:
    condition: Node


@dataclass(frozen=True, slots=True)
class And:
    conditions: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    conditions: tuple[Node, ...]


Node: TypeAlias = Literal | Name | Negative | Sum | Compare | IsNull | Like | In | XPath | Not | And | Or

CONDITIONS = (Name, Compare, IsNull, Like, In, XPath, Not, And, Or)
"""Nodes that may stand where a condition is wanted; so may TRUE, FALSE and NULL."""


def is_condition(node: Node) -> bool:
    """May it stand alone, or beside AND, OR and NOT."""
    if isinstance(node, Literal):
        return node.value is None or isinstance(node.value, bool)
    return isinstance(node, CONDITIONS)
