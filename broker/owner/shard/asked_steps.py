"""What is to be done to slots in turns, besides commands: roles and settings that change have asked for it.

    shard.in_turn(3, step)       the next turn calls step(engine of 3, turn), if the slot is still led here
    … returns None               that was all
    … returns an iterator        the next piece of it comes in another turn, and all else waits for its end

Rule: in the order in which it was asked for. Must not know what is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

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


class AskedSteps:
    """Of one shard.    asked   what has not been done yet: looked at each turn, so that is no call."""

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked: list[tuple[int, Step]] = []

    def ask(self, slot: int, step: Step) -> None:
        """One more."""
        self.asked.append((slot, step))

    def go_on(self, engines: Mapping[int, Engine], turn: Turn, touched: Touched) -> Iterator[None] | None:
        """All of them, until one has more to do than a piece: the rest of that one."""
        asked, self.asked = self.asked, []
        for at, (slot, step) in enumerate(asked, 1):
            led = engines.get(slot)
            if led is None:
                continue
            touched[led] = None
            work = step(led, turn)
            if work is not None and next(work, self) is None:
                self.asked = asked[at:] + self.asked
                return work
        return None
