"""What is to be done to slots in turns, besides commands: roles and settings that change have asked for it.

    shard.in_turn(3, step)       the next turn calls step(engine of 3, turn), if the slot is still led here
    … returns None               that was all
    … returns an iterator        the next piece of it comes in another turn, and all else waits for its end

Rule: in the order in which it was asked for. Must not know what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from broker.core.commands import Decide
from broker.core.effects import Turn
from broker.engine.engine import Engine

from ..commit.release_gate import Touched

Step = Callable[[Engine, Turn], "Iterator[None] | None"]


def decided(command: Decide) -> Step:
    """Carries it out."""

    def step(led: Engine, turn: Turn) -> Iterator[None]:
        return led.in_pieces(command, turn)

    return step


MOST: Final = 100
"""Done in one step of the loop: each of the usual ones (a dead letter that has arrived) takes some 10 µs."""


class AskedSteps:
    """Of one shard.    asked   what has not been done yet: looked at each turn, so that is no call."""

    __slots__ = ("_wake", "asked")

    def __init__(self, wake: Callable[[], None]) -> None:
        """wake: has a turn come."""
        self._wake = wake
        self.asked: list[tuple[int, Step]] = []

    def ask(self, slot: int, step: Step) -> None:
        """One more."""
        self.asked.append((slot, step))
        self._wake()

    def go_on(self, engines: Mapping[int, Engine], turn: Turn, touched: Touched) -> Iterator[None] | None:
        """All that has been asked for so far, until one has more to do than a piece: that and no other belongs to this
        turn. What is left of that which belongs to it; None: nothing."""
        work = self._all(engines, turn, touched)
        return work if next(work, self) is None else None

    def _all(self, engines: Mapping[int, Engine], turn: Turn, touched: Touched) -> Iterator[None]:
        asked, self.asked = self.asked, []
        for at, (slot, step) in enumerate(asked):
            # In the same turn: a slot that comes is to be filled before commands find it.
            if at and at % MOST == 0:
                yield
            led = engines.get(slot)
            if led is None:
                continue
            touched[led] = None
            work = step(led, turn)
            if work is not None and next(work, self) is None:
                self.asked = asked[at + 1 :] + self.asked
                yield
                yield from work
                return
