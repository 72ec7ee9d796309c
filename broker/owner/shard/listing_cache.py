"""What was found out about each slot, kept as long as nothing has happened there: operators ask again and again, most
slots of a large broker are at rest between two questions, and a list of 100,000 queues is as dear as its slots.

Rule: a slot is looked at anew whenever `changes` of it has grown since it was looked at, or less is pending: what is
told is never older than the question. What was found is joined group by group, and a group in which nothing has
happened is not joined again: what is asked every two seconds costs as much as what has changed meanwhile. QUESTIONS
answers are kept, each for FORGET_S after it was asked for: they hold on to queues, also to those that are gone. What is
given up is given back bit by bit.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Sequence, Sized
from itertools import zip_longest
from operator import is_
from typing import Any, Final, NamedTuple, Protocol

from broker.engine.state.slot import Slot
from broker.seams.clock import Later

QUESTIONS: Final = 8
FORGET_S: Final = 10.0
GROUP: Final = 16
"""Slots whose findings are joined in one step: a page of each is 500 entries at most."""
FREES_S: Final = 0.01
"""Between two steps of giving back."""

Looking = Callable[[Slot], Generator[None, None, Any]]
Joining = Callable[[Sequence[Any]], Any]


class Led(Protocol):
    """A slot that is led here (engine/engine.py)."""

    @property
    def number(self) -> int: ...
    @property
    def changes(self) -> int: ...
    @property
    def pending(self) -> Sized:
        """What waits for commits. Gets longer by what counts as a change; shorter by itself."""
        ...

    @property
    def shown(self) -> Slot: ...


class KnownSlot(NamedTuple):
    """state   of the slot, when it was begun to be looked at."""

    led: Led
    state: tuple[int, int]
    found: Any


class KnownGroup(NamedTuple):
    """joined   what was found in its slots."""

    slots: list[KnownSlot]
    joined: Any


class KnownAnswer(NamedTuple):
    """Of one question.    at   when it was asked.    joined   the groups."""

    at: float
    groups: list[KnownGroup]
    joined: Any


def _state(led: Led) -> tuple[int, int]:
    return led.changes, len(led.pending)


class KnownSlots:
    """See the head of this file. now: seconds.    later   None: nothing is kept."""

    def __init__(self, now: Callable[[], float], later: Later | None) -> None:
        self._now = now
        self._later = later
        self._forgets = False
        self._known: OrderedDict[bytes, KnownAnswer] = OrderedDict()
        self._given_up: deque[KnownGroup] = deque()

    def look(self, question: bytes, slots: Iterable[Led], work: Looking, join: Joining) -> Generator[None, None, Any]:
        """What `work` finds out about each slot, joined, in steps.

        join   makes one finding of several (of none, too), which is joined with others again. What it is given, and
        what is returned, is kept: nobody may change it."""
        before = self._known.get(question)
        known = _found_before(before)
        groups: list[KnownGroup] = []
        looked = before is None
        for some in _groups(list(slots)):
            after: list[KnownSlot] = []
            for led in some:
                found = known(led, len(groups), len(after))
                if found is None or found.led is not led or found.state != _state(led):
                    # Begun with what is so now: what happens between the steps makes it old at once.
                    state = _state(led)
                    found = KnownSlot(led, state, (yield from work(led.shown)))
                after.append(found)
            old = before.groups[len(groups)] if before is not None and len(groups) < len(before.groups) else None
            if old is not None and _same(old.slots, after):
                groups.append(old)
            else:
                looked = True
                yield  # the join is a step of its own, and so is what is made of it
                groups.append(KnownGroup(after, join([each.found for each in after])))
            yield
        if before is None or looked or len(groups) != len(before.groups):
            yield
            joined = join([group.joined for group in groups])
            yield
        else:
            joined = before.joined
        if self._later is not None:
            self._keep(question, KnownAnswer(self._now(), groups, joined))
            return joined
        given_up = deque(groups)  # nobody else has them
        del groups[:]
        while given_up:
            _give_back(given_up)
            yield
        return joined

    def _forget(self) -> None:
        now = self._now()
        for old in [asked for asked, known in self._known.items() if known.at + FORGET_S <= now]:
            self._give_up(self._known.pop(old).groups)
        self._forgets = False
        self._forget_soon()

    def _give_up(self, groups: Iterable[KnownGroup]) -> None:
        begins = not self._given_up
        # Copies: an answer that is being worked out may still look at these groups, and keeps those that are unchanged.
        self._given_up.extend([KnownGroup([*group.slots], group.joined) for group in groups])
        if begins:
            self._free()

    def _free(self) -> None:
        if self._given_up:
            _give_back(self._given_up)
        if self._given_up and self._later is not None:
            self._later(FREES_S, self._free)

    def _forget_soon(self) -> None:
        if self._known and not self._forgets and self._later is not None:
            self._forgets = True
            self._later(FORGET_S, self._forget)

    def _keep(self, question: bytes, found: KnownAnswer) -> None:
        old = self._known.pop(question, None)
        self._known[question] = found
        if old is not None:
            self._give_up([was for was, now in zip_longest(old.groups, found.groups) if was is not now and was])
        while len(self._known) > QUESTIONS:
            self._give_up(self._known.popitem(last=False)[1].groups)
        self._forget_soon()


def _groups(slots: list[Led]) -> Iterable[list[Led]]:
    return [slots[start : start + GROUP] for start in range(0, len(slots), GROUP)]


def _give_back(given_up: deque[KnownGroup]) -> None:
    """What was found in one slot. All of an answer may be 100,000 entries, which take 15 ms to give back, and those of
    a group 5 where no cache holds them any more."""
    if given_up[0].slots:
        given_up[0].slots.pop()
    else:
        given_up.popleft()


def _found_before(before: KnownAnswer | None) -> Callable[[Led, int, int], KnownSlot | None]:
    """What was found in a slot before, by where it would stand if the slots were the same: nearly always they are, and
    to list all of them by number is dearer than what most questions cost."""
    groups = before.groups if before is not None else []
    by_number: dict[int, KnownSlot] = {}

    def known(led: Led, group: int, at: int) -> KnownSlot | None:
        if group < len(groups) and at < len(groups[group].slots) and groups[group].slots[at].led is led:
            return groups[group].slots[at]
        if groups and not by_number:
            by_number.update((each.led.number, each) for one in groups for each in one.slots)
        return by_number.get(led.number)

    return known


def _same(before: Sequence[KnownSlot], after: Sequence[KnownSlot]) -> bool:
    return len(before) == len(after) and all(map(is_, before, after))
