"""Patterns by their words: which of thousands stand for an address, in steps of the address's words.

Rule: says what matching.matches() says of each pattern (a test draws both). Must not know what it holds: values by
pattern, in no order.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class _Node(Generic[V]):
    """What begins with the words on the way here. here: patterns of just these; rest: those that go on with `#`."""

    __slots__ = ("children", "here", "rest")

    def __init__(self) -> None:
        self.children: dict[str, _Node[V]] = {}
        self.here: dict[V, None] = {}
        self.rest: dict[V, None] = {}


class Trie(Generic[V]):
    """Patterns split into words, and a value each."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()

    def add(self, pattern: Sequence[str], value: V) -> None:
        node = self._root
        for word in _fixed(pattern):
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node()
            node = child
        _values(node, pattern)[value] = None

    def remove(self, pattern: Sequence[str], value: V) -> None:
        """Raises KeyError when it is not there."""
        path = [self._root]
        words = _fixed(pattern)
        for word in words:
            path.append(path[-1].children[word])
        del _values(path[-1], pattern)[value]
        for word in reversed(words):
            last = path.pop()
            if last.children or last.here or last.rest:
                return
            del path[-1].children[word]

    def find(self, words: Sequence[str]) -> list[V]:
        """The values of all patterns that stand for the address."""
        nodes = [self._root]
        found = [*self._root.rest]
        for word in words:
            following: list[_Node[V]] = []
            for node in nodes:
                children = node.children
                if (child := children.get(word)) is not None:
                    following.append(child)
                if word and word != "*" and (child := children.get("*")) is not None:
                    following.append(child)
            if not following:
                return found
            for node in following:
                found += node.rest
            nodes = following
        for node in nodes:
            found += node.here
        return found


def _fixed(pattern: Sequence[str]) -> Sequence[str]:
    """The words that an address must have; `#` is one of them but at the end."""
    return pattern[:-1] if pattern[-1] == "#" else pattern


def _values(node: _Node[V], pattern: Sequence[str]) -> dict[V, None]:
    return node.rest if pattern[-1] == "#" else node.here
