"""The browsers of one queue, each in its turn.

    200 browsers come to a queue of 50,000 messages with a selector that matches none: 10,000,000 questions. Each turn
    asks 1 ms of them, of all queues of a slot together; a browser that was asked goes behind the other ones.

Rule: each browser is in one of three places: going (it can show or ask something), hungry (it wants a page of the
log), or at rest (its client has no room, or it has seen everything). Must not know queues.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.effects import Turn

from .browser import Browser
from .consumer import Consumer

TURN_NS = 1_000_000
"""Of one turn of a slot, for the browsers of all its queues."""
PIECE_NS = 250_000
"""Of one browser, until the next one's turn."""


class Browsers:
    """All of one queue.    reading   the one whose page is under way."""

    __slots__ = ("_all", "_going", "_hungry", "reading")

    def __init__(self) -> None:
        self._all: dict[int, Browser] = {}
        self._going: dict[int, Browser] = {}
        self._hungry: dict[int, Browser] = {}
        self.reading: Browser | None = None

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Browser]:
        return iter(self._all.values())

    def add(self, browser: Browser) -> None:
        """A new one."""
        self._all[browser.consumer.id] = self._going[browser.consumer.id] = browser

    def remove(self, number: int) -> None:
        """The consumer of that number has left."""
        browser = self._all.pop(number, None)
        self._going.pop(number, None)
        self._hungry.pop(number, None)
        if browser is not None and browser is self.reading:
            self.reading = None

    def wake(self, number: int) -> None:
        """The consumer of that number has room again."""
        # A browser that is being read for stands in none of the places: was_read() puts it back.
        browser = self._all.get(number)
        if browser is not None and browser.can_go_on():
            self._going[number] = browser

    def clear(self) -> list[Browser]:
        """None is left; who there were."""
        gone = list(self._all.values())
        for place in (self._all, self._going, self._hungry):
            place.clear()
        self.reading = None
        return gone

    def step(self, turn: Turn) -> tuple[int, Consumer, str]:
        """Shows what the first of those that can go on has time for. Returns nanoseconds, about, who it was, and over
        what its selector would cost too much; empty: nothing."""
        number = next(iter(self._going))
        browser = self._going.pop(number)
        spent = browser.step(turn, PIECE_NS)
        overran = browser.take_overran()
        self._sort(number, browser)
        return spent, browser.consumer, overran

    def _sort(self, number: int, browser: Browser) -> None:
        """To the end of the place where it belongs now."""
        if browser.can_go_on():
            self._going[number] = browser
        elif browser.is_hungry():
            self._hungry[number] = browser

    @property
    def unfinished(self) -> bool:
        """Some can go on without anything else happening."""
        return bool(self._going)

    def next_reader(self) -> Browser | None:
        """Whose page is to be read next: it is `reading` from now on. None: nobody's."""
        if not self._hungry:
            return None
        number = next(iter(self._hungry))
        self.reading = self._hungry.pop(number)
        return self.reading

    def was_read(self) -> Browser | None:
        """The page has come: whose it was, which can go on now. None: it has left meanwhile."""
        browser, self.reading = self.reading, None
        if browser is not None:
            self._going[browser.consumer.id] = browser
        return browser
