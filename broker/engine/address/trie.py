"""Patterns by their words: which of thousands stand for an address, in steps of the address's words.

Rule: says what address_settings.matches() says of each pattern (a test draws both), but for `$…`: an address that
begins so is found by patterns that name its first word. Must not know what it holds: values by pattern, unordered.
"""

# Example. Patterns `a.*`, `a.#`, `a.b`, `#` and `a.#.z`; what stands for the address a.b.z?
#     nodes     root → a → {*, b, # → z}. `a.#` is in a's `rest`, `#` in the root's, the others in `here` of their
#               last node
#     root      its rest: `#`
#     a         its rest: `a.#`. Over its child "#" (a `#` may stand for no word) the place behind it is reached, and
#               stays open
#     b         children b and *: their `here` counts only at the end. The open place stays
#     z         from the open place to z: `a.#.z`. From b and * nothing goes on: they drop out
# Found: `#`, `a.#`, `a.#.z`. Steps: as many as there are nodes which the address's words lead to, whatever else is
# subscribed.

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class _Node(Generic[V]):
    """What begins with the words on the way here. here: patterns of just these; rest: those that go on with `#` and
    end; children: by the next word, a `#` in the middle included."""

    __slots__ = ("children", "here", "rest")

    def __init__(self) -> None:
        self.children: dict[str, _Node[V]] = {}
        self.here: dict[V, None] = {}
        self.rest: dict[V, None] = {}


class Trie(Generic[V]):
    """Patterns split into words, and a value each."""

    __slots__ = ("_inner", "_root")

    def __init__(self) -> None:
        self._root: _Node[V] = _Node()
        self._inner = 0
        """Patterns with a `#` in the middle."""

    def add(self, pattern: Sequence[str], value: V) -> None:
        node = self._root
        words = _fixed(pattern)
        for word in words:
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = _Node()
            node = child
        # A dict as a set that keeps its order: the same run of a simulation finds the same list.
        _values(node, pattern)[value] = None
        self._inner += "#" in words

    def remove(self, pattern: Sequence[str], value: V) -> None:
        """Raises KeyError when it is not there."""
        path = [self._root]
        words = _fixed(pattern)
        for word in words:
            path.append(path[-1].children[word])
        del _values(path[-1], pattern)[value]
        self._inner -= "#" in words
        # Nodes that nothing needs go, up to the first that something does: the trie is as large as what is in it.
        for word in reversed(words):
            last = path.pop()
            if last.children or last.here or last.rest:
                return
            del path[-1].children[word]

    def find(self, words: Sequence[str]) -> list[V]:
        """The values of all patterns that stand for the address."""
        # Only when somebody has such a pattern: the walk below needs no places that stay.
        if self._inner:
            return self._find_inner(words)
        nodes = [self._root]
        found = [*self._root.rest]
        if words[0].startswith("$"):
            # It stands for nobody but who names it.
            first = self._root.children.get(words[0])
            if first is None:
                return []
            nodes, found, words = [first], [*first.rest], words[1:]
        for word in words:
            following: list[_Node[V]] = []
            for node in nodes:
                children = node.children
                if (child := children.get(word)) is not None:
                    following.append(child)
                # `*` does not stand for an empty word, nor for a `*` in a name: a destination with a star is a
                # pattern itself.
                if word and word != "*" and (child := children.get("*")) is not None:
                    following.append(child)
            # Nothing goes on with this word: what is found is all.
            if not following:
                return found
            for node in following:
                found += node.rest
            nodes = following
        for node in nodes:
            found += node.here
        return found

    def _find_inner(self, words: Sequence[str]) -> list[V]:
        """The same where a pattern may have a `#` in the middle: `open` are the places behind one of them, which stay
        while words pass."""
        found: dict[V, None] = {}
        nodes: dict[_Node[V], bool] = {}
        if words[0].startswith("$"):
            first = self._root.children.get(words[0])
            if first is None:
                return []
            _reach(first, False, nodes, found)
            words = words[1:]
        else:
            _reach(self._root, False, nodes, found)
        for word in words:
            # A dict: two ways may lead to one node, which counts once. So it is nodes × words, however many `#` a
            # pattern has.
            following: dict[_Node[V], bool] = {}
            for node, stays in nodes.items():
                if stays:
                    _reach(node, True, following, found)
                children = node.children
                if word != "#" and (child := children.get(word)) is not None:
                    _reach(child, False, following, found)
                if word and word != "*" and (child := children.get("*")) is not None:
                    _reach(child, False, following, found)
            nodes = following
        for node in nodes:
            found |= node.here
        return list(found)


def _reach(node: _Node[V], stays: bool, nodes: dict[_Node[V], bool], found: dict[V, None]) -> None:
    """The words so far lead to this node, and over a `#` that stands for none of them to others."""
    while True:
        nodes[node] = nodes.get(node, False) or stays
        found |= node.rest
        child = node.children.get("#")
        if child is None:
            return
        node, stays = child, True


def _fixed(pattern: Sequence[str]) -> Sequence[str]:
    """The words that an address must have; `#` is one of them but at the end."""
    return pattern[:-1] if pattern[-1] == "#" else pattern


def _values(node: _Node[V], pattern: Sequence[str]) -> dict[V, None]:
    return node.rest if pattern[-1] == "#" else node.here
