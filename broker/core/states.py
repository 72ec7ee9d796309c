"""States as tables: what a thing can be, and what may become of it.

What holds while it is in a state stands below the member of its enum; the table says which state may follow which, and
what happens then. `make docs` prints all of them (docs/states.md).

Rule: a state is written in one module, by methods that are named after what happens; each asks the table. A move that
is not in the table is a mistake of ours: it raises, whatever the interpreter thinks of asserts.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

S = TypeVar("S", bound=Enum)


class IllegalMove(Exception):
    """Something was about to enter a state that cannot follow the one it is in: a defect of the broker."""


class StateTable(Generic[S]):
    """about    whose states these are, and who writes them.
    begins   state → how something comes to begin in it.    moves   state → what may follow → what happens then.
    ends     state → how something in it comes to its end."""

    def __init__(
        self,
        about: str,
        states: type[S],
        begins: Mapping[S, str],
        moves: Mapping[S, Mapping[S, str]],
        ends: Mapping[S, str] | None = None,
    ) -> None:
        self.about = about
        self.states = states
        self.begins = begins
        self.moves = moves
        self.ends = ends or {}
        # Members are there once and for all, and hashing one is a call in Python.
        self._follow = {id(was): frozenset(map(id, after)) for was, after in moves.items()}

    def begin(self, state: S) -> S:
        """It begins so."""
        if state not in self.begins:
            raise IllegalMove(f"{self.states.__name__}: nothing begins as {state.name}")
        return state

    def to(self, was: S, now: S) -> S:
        """It was that, and is this from now on."""
        if id(now) not in self._follow.get(id(was), ()):
            raise IllegalMove(f"{self.states.__name__}: {now.name} does not follow {was.name}")
        return now
