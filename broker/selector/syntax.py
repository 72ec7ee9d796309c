"""What a selector means, as a tree.

Rule: plain values; how they are computed is compiling.py's. `Condition` nodes are true, false or unknown, the others
are values. Must not know messages.
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


def key_of(node: Node) -> tuple[str, frozenset[str | int | float], bool] | None:
    """(header, values, exact): the condition can only be true if that header is one of these texts, or looks like one
    of these numbers; exact: it is true then (of numbers: where such texts count as numbers). None: there is no such
    header. This is what an index of many selectors is made of."""
    if isinstance(node, Compare) and node.operator == "=":
        for name, literal in ((node.left, node.right), (node.right, node.left)):
            if isinstance(name, Name) and isinstance(literal, Literal):
                value = literal.value
                return None if value is None or isinstance(value, bool) else (name.name, frozenset((value,)), True)
    elif isinstance(node, In):
        return node.value.name, frozenset(node.values), True
    elif isinstance(node, And):
        found = next((key for part in node.conditions if (key := key_of(part)) is not None), None)
        return None if found is None else (found[0], found[1], False)
    elif isinstance(node, Or):
        keys = [key for part in node.conditions if (key := key_of(part)) is not None]
        if len(keys) == len(node.conditions) and len({key[0] for key in keys}) == 1:
            return keys[0][0], frozenset().union(*(key[1] for key in keys)), all(key[2] for key in keys)
    return None
