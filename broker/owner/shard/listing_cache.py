"""What was found out about each slot, kept as long as nothing has happened there: operators ask again and again, most
slots of a large broker are at rest between two questions, and a list of 100,000 queues is as dear as its slots.

Rule: a slot is looked at anew whenever `changes` of it has grown since it was looked at, or less is pending: what is
told is never older than the question; what such a look reads is its own affair (slot_looks.py). What was found is
joined group by group, and a group that has found the same is not joined again: what is asked every two seconds costs as
much as what has changed meanwhile. QUESTIONS answers are kept, each for FORGET_S after it was given, or LONGER times as
long as it took: they hold on to queues, also to those that are gone. What is given up is given back bit by bit.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Sequence, Sized
from itertools import zip_longest
from operator import is_
from typing import Any, Final, NamedTuple, Protocol

from broker.engine.state.slot import Slot
from broker.seams.clock import Later

from .slot_looks import SlotLook

QUESTIONS: Final = 8
FORGET_S: Final = 10.0
LONGER: Final = 12
"""A console rests ten times as long as an answer took (admin/api/streams/events.py): forgotten by then, each would be
worked out as if it were the first."""
GROUP: Final = 16
"""Slots whose findings are joined in one step: a page of each is 500 entries at most."""
FREES_S: Final = 0.01
"""Between two steps of giving back."""

Looking = Callable[[Slot], SlotLook]
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

    slots: list[Any]
    joined: Any


class KnownQuestion:
    """until   when it is forgotten.    asking   so many wait for the answer.    looks   number of a slot → the slot,
    and how it is looked at.    groups   what was found; None: nobody has the answer yet.    joined   the groups."""

    __slots__ = ("asking", "groups", "joined", "looks", "until")

    def __init__(self) -> None:
        self.until = 0.0
        self.asking = 0
        self.looks: dict[int, tuple[Led, SlotLook]] = {}
        self.groups: list[KnownGroup] | None = None
        self.joined: Any = None

    def asked(self) -> None:
        """Somebody wants to know."""
        self.asking += 1

    def told(self, at: float, took: float) -> None:
        """Somebody knows, or does not want to know any more."""
        self.asking -= 1
        self.until = at + max(FORGET_S, LONGER * took)

    def answered(self, groups: list[KnownGroup], joined: Any) -> list[KnownGroup]:
        """What was found. Returns the groups of before that are no more."""
        before, self.groups, self.joined = self.groups or [], groups, joined
        return [was for was, now in zip_longest(before, groups) if was is not now and was]

    def look_at(self, led: Led, looking: Looking) -> SlotLook:
        """How this slot is looked at: one for all that ask."""
        known = self.looks.get(led.number)
        if known is None or known[0] is not led:
            known = self.looks[led.number] = (led, looking(led.shown))
        return known[1]

    def marks(self, led: Led) -> bool:
        """Does it need marks of changes in this slot."""
        known = self.looks.get(led.number)
        return known is not None and known[0] is led and known[1].marks

    def take_moved(self, slots: list[Led]) -> list[tuple[Led, SlotLook]]:
        """Takes out how slots are looked at that are not among these: they are led here no more."""
        if len(self.looks) <= len(slots):
            return []
        here = {led.number for led in slots}
        return [self.looks.pop(number) for number in [*self.looks] if number not in here]

    def take_looks(self) -> list[tuple[Led, SlotLook]]:
        """Takes out how the slots are looked at, to be given back one by one."""
        looks, self.looks = [*self.looks.values()], {}
        return looks


def _state(led: Led) -> tuple[int, int]:
    return led.changes, len(led.pending)


class KnownSlots:
    """See the head of this file. now: seconds.    later   None: nothing is kept."""

    def __init__(self, now: Callable[[], float], later: Later | None) -> None:
        self._now = now
        self._later = later
        self._forgets = False
        self._known: OrderedDict[bytes, KnownQuestion] = OrderedDict()
        self._given_up: deque[KnownGroup] = deque()

    def look(
        self, question: bytes, slots: Iterable[Led], looking: Looking, join: Joining
    ) -> Generator[None, None, Any]:
        """What is found out about each slot, joined, in steps.

        looking   how a slot is looked at for this question.    join   makes one finding of several (of none, too),
        which is joined with others again. What it is given, and what is returned, is kept: nobody may change it."""
        known = self._question(question)
        if self._later is None:
            return (yield from self._looked(known, list(slots), looking, join))
        began = self._now()
        known.asked()
        try:
            return (yield from self._looked(known, list(slots), looking, join))
        finally:
            known.told(self._now(), self._now() - began)

    def _looked(
        self, known: KnownQuestion, slots: list[Led], looking: Looking, join: Joining
    ) -> Generator[None, None, Any]:
        before = known.groups
        found_before = _found_before(before)
        groups: list[KnownGroup] = []
        looked = before is None
        for some in _groups(slots):
            after: list[KnownSlot] = []
            for led in some:
                found = found_before(led, len(groups), len(after))
                if found is None or found.led is not led or found.state != _state(led):
                    # Begun with what is so now: what happens between the steps makes it old at once.
                    state = _state(led)
                    found = KnownSlot(led, state, (yield from known.look_at(led, looking).again()))
                after.append(found)
            old = before[len(groups)] if before is not None and len(groups) < len(before) else None
            if old is not None and _same(old.slots, after):
                groups.append(old)
            elif old is not None and _found_same(old.slots, after):
                groups.append(KnownGroup(after, old.joined))
            else:
                looked = True
                yield  # the join is a step of its own, and so is what is made of it
                groups.append(KnownGroup(after, join([each.found for each in after])))
            yield
        if before is None or looked or len(groups) != len(before):
            yield
            joined = join([group.joined for group in groups])
            yield
        else:
            joined = known.joined
        if self._later is not None:
            self._give_up([*known.answered(groups, joined), *self._left(known.take_moved(slots))])
            return joined
        given_up = deque([*groups, KnownGroup(known.take_looks(), None)])  # nobody else has them
        del groups[:]
        while given_up:
            _give_back(given_up)
            yield
        return joined

    def _question(self, question: bytes) -> KnownQuestion:
        """It is asked now."""
        known = self._known.pop(question, None) or KnownQuestion()
        if self._later is None:
            return known
        self._known[question] = known
        while len(self._known) > QUESTIONS:
            self._gone(self._known.popitem(last=False)[1])
        self._forget_soon()
        return known

    def _forget(self) -> None:
        now = self._now()
        for old in [asked for asked, known in self._known.items() if known.until <= now and not known.asking]:
            self._gone(self._known.pop(old))
        self._forgets = False
        self._forget_soon()

    def _gone(self, known: KnownQuestion) -> None:
        self._give_up([*(known.groups or []), *self._left(known.take_looks())])

    def _left(self, looks: list[tuple[Led, SlotLook]]) -> list[KnownGroup]:
        """These slots are looked at so no more. Where nobody else needs marks of changes none are made."""
        for led, look in looks:
            if look.marks and not any(known.marks(led) for known in self._known.values()):
                led.shown.changed.off()
        return [KnownGroup(looks, None)] if looks else []

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


def _groups(slots: list[Led]) -> Iterable[list[Led]]:
    return [slots[start : start + GROUP] for start in range(0, len(slots), GROUP)]


def _give_back(given_up: deque[KnownGroup]) -> None:
    """What was found in one slot. All of an answer may be 100,000 entries, which take 15 ms to give back, and those of
    a group 5 where no cache holds them any more."""
    if given_up[0].slots:
        given_up[0].slots.pop()
    else:
        given_up.popleft()


def _found_before(groups: list[KnownGroup] | None) -> Callable[[Led, int, int], KnownSlot | None]:
    """What was found in a slot before, by where it would stand if the slots were the same: nearly always they are, and
    to list all of them by number is dearer than what most questions cost."""
    by_number: dict[int, KnownSlot] = {}

    def known(led: Led, group: int, at: int) -> KnownSlot | None:
        if not groups:
            return None
        if group < len(groups) and at < len(groups[group].slots) and groups[group].slots[at].led is led:
            found: KnownSlot = groups[group].slots[at]
            return found
        if not by_number:
            by_number.update((each.led.number, each) for one in groups for each in one.slots)
        return by_number.get(led.number)

    return known


def _same(before: Sequence[KnownSlot], after: Sequence[KnownSlot]) -> bool:
    return len(before) == len(after) and all(map(is_, before, after))


def _found_same(before: Sequence[KnownSlot], after: Sequence[KnownSlot]) -> bool:
    return len(before) == len(after) and all([was.found is now.found for was, now in zip(before, after, strict=True)])
