"""What was found out about each slot, kept as long as nothing has happened there: operators ask again and again, most
slots of a large broker are at rest between two questions, and a list of 100,000 queues is as dear as its slots.

Rule: a slot is looked at anew whenever `changes` of it has grown since it was looked at, or less is pending: what is
told is never older than the question. QUESTIONS answers are kept, each for FORGET_S after it was asked for: they hold
on to queues, also to those that are gone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sized
from typing import Any, Final, NamedTuple, Protocol

from broker.engine.state.slot import Slot
from broker.seams.clock import Later

QUESTIONS: Final = 8
FORGET_S: Final = 10.0
GROUP: Final = 16
"""Slots at rest that are passed in one step."""

Looking = Callable[[Slot], Generator[None, None, Any]]


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


def _state(led: Led) -> tuple[int, int]:
    return led.changes, len(led.pending)


class KnownSlots:
    """See the head of this file. now: seconds.    later   None: nothing is kept."""

    def __init__(self, now: Callable[[], float], later: Later | None) -> None:
        self._now = now
        self._later = later
        self._forgets = False
        self._known: OrderedDict[bytes, tuple[float, dict[int, KnownSlot]]] = OrderedDict()

    def look(self, question: bytes, slots: Iterable[Led], work: Looking) -> Generator[None, None, list[Any]]:
        """What `work` finds out about each slot, in steps."""
        before = self._known.get(question, (0.0, {}))[1]
        after: dict[int, KnownSlot] = {}
        for seen, led in enumerate(slots, 1):
            known = before.get(led.number)
            if known is None or known.led is not led or known.state != _state(led):
                # Begun with what is so now: what happens between the steps makes it old at once.
                state = _state(led)
                known = KnownSlot(led, state, (yield from work(led.shown)))
            after[led.number] = known
            if not seen % GROUP:
                yield
        self._keep(question, after)
        return [known.found for known in after.values()]

    def _forget(self) -> None:
        now = self._now()
        for old in [asked for asked, (at, _) in self._known.items() if at + FORGET_S <= now]:
            del self._known[old]
        self._forgets = False
        self._forget_soon()

    def _forget_soon(self) -> None:
        if self._known and not self._forgets and self._later is not None:
            self._forgets = True
            self._later(FORGET_S, self._forget)

    def _keep(self, question: bytes, found: dict[int, KnownSlot]) -> None:
        if self._later is None:
            return
        self._known[question] = (self._now(), found)
        self._known.move_to_end(question)
        while len(self._known) > QUESTIONS:
            self._known.popitem(last=False)
        self._forget_soon()
