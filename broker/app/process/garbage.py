"""How often Python looks for rings of objects that nothing else names, and how far it looks.

Rule: no collection walks through all that lives. CPython's full collection does: with 43,000 queues a turn of the loop
stood still for 0.23 s (0.2 µs an object). What has survived when a collection was slow is therefore taken out of its
sight for good (gc.freeze, a constant step), so that the next one finds only what has been made since:

    young objects    a collection behind every 10,000 that are left over, about 1 ms
    middle           behind every second or third of these: 30,000 objects, 3 ms at most, and then they are frozen
    old              behind 8 middle ones that were quick: a small process still finds its old rings

CPython counts what is made less what is freed. Where old messages go as new ones come it counts nothing, and what is
young becomes more without a bound: 53,000 objects, 30 ms in one step, behind 20,000 NACKs. So the young ones are also
looked through by the clock (YoungCollections), sooner where that takes long.

Each object is walked through once as a young one and once in the middle, however many there are at a time: 60,000 took
6 to 8 ms, 12 in a process that had other things in its caches, for as much time in all.

What it costs: a ring that was whole when it was frozen is never freed. Connections, sessions and consumers leave no
rings when they end (they cut them themselves), so these are the few that were under way in a library just then.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from broker.seams.clock import thread_seconds

THRESHOLDS = (10_000, 1, 8)
"""Objects left over, young collections, middle collections. More than Python's 700 to begin with: most of what a read
makes is gone with its turn, and looking more often cost 5–20 % of the hot path."""
SLOW_S = 0.001
"""CPU seconds of a collection behind which what has survived is frozen."""


_MUCH: Final = 100_000
"""Objects: to walk through them takes some milliseconds."""


LOOK_S: Final = 0.008
"""Seconds of work between two looks for young ones …"""
SOON_S: Final = 0.002
"""… and where they take much. An object takes 0.2 µs, or 1 µs where no cache holds it, and up to a thousand are made in
a millisecond."""
MIDDLE: Final = 3
"""Every so many looks it is the middle ones' turn …"""
OLD: Final = 8 * MIDDLE
"""… and the old ones'."""


class _Collections:
    """Measures each collection. The CPU's time: on a busy machine the wall's would freeze whatever is young.

    spent   seconds of the middle ones since what had survived was frozen, or all of it was walked through."""

    def __init__(self) -> None:
        self._began = 0.0
        self.spent = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if not info["generation"]:
            return
        if phase == "start":
            self._began = thread_seconds()
            return
        took = thread_seconds() - self._began
        if took > SLOW_S:
            self.freeze()
        else:
            self.spent = self.spent + took if info["generation"] == 1 else 0.0

    def freeze(self) -> None:
        """What has survived so far is never looked at again."""
        gc.freeze()
        self.spent = 0.0


class YoungCollections:
    """Looks for rings among what is young, by the clock. now: monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last = float("-inf")
        self._every = LOOK_S
        self._looks = 0

    def look(self) -> None:
        """To be called within steps, as often as one likes."""
        at = self._now()
        if at - self._last < self._every or not gc.isenabled():
            return
        self._looks += 1
        if self._looks % OLD:
            gc.collect(0 if self._looks % MIDDLE else 1)
        # As much again as the middle ones were, all at once.
        elif _watching.spent > SLOW_S:
            gc.collect(1)  # or rings that nobody has looked for yet would stay for good
            _watching.freeze()
        else:
            gc.collect(2)
        self._last = self._now()
        self._every = SOON_S if self._last - at > SLOW_S / 2 else min(2 * self._every, LOOK_S)


_watching = _Collections()


def collect_rarely() -> None:
    """Walks once through all that has not been frozen yet; to be called before there are clients, once or more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    if _watching not in gc.callbacks:
        gc.callbacks.append(_watching)


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for garbage meanwhile: what recovery makes, or a file of 100,000 permissions, is kept, and to walk
    through all of it again and again takes a quarter of the time. Nor once in the end, in one step, when it is much."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_count()[0] > _MUCH:
            gc.freeze()
        gc.enable()
