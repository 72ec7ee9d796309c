"""A thread that sees whether the loop stands still, and says what it is at while it does.

The watchdog (seams/steps.py) names a step when it has ended. One that does not end is named here: which slot, which
command, and where in the code, before somebody kills the process and nobody knows why.

Rule: looks and says, once per standstill; ends nothing. Must not touch what belongs to the loop.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable

from broker.owner.culprit import at_work

log = logging.getLogger("stampede.watchdog")

EVERY_S = 1.0
STILL_S = 5.0
"""So long no step of the loop is to last: a machine that is short of CPU takes less."""


class Witness:
    """Of the loop that runs in this thread. now: seconds of the monotonic clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> None:
        self._loop = loop
        self._now = now
        self._thread = threading.get_ident()
        self._seen = now()
        self._told = False
        self._stop = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._watcher = threading.Thread(target=self._watch, name="witness", daemon=True)

    def start(self) -> None:
        self._beat()
        self._watcher.start()

    def stop(self) -> None:
        """Waits for the thread."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher.is_alive():
            self._watcher.join()

    def _beat(self) -> None:
        self._seen = self._now()
        self._timer = self._loop.call_later(EVERY_S, self._beat)

    def _watch(self) -> None:
        before = self._now()
        while not self._stop.wait(EVERY_S):
            now = self._now()
            if now - before > 2 * EVERY_S:
                self._seen = now  # all of the process was frozen, or the machine: nobody's step is to blame
            before = now
            self.look()

    def look(self) -> None:
        """Has it moved since the last time."""
        still = self._now() - self._seen
        if still < STILL_S:
            self._told = False
        elif not self._told and (frame := sys._current_frames().get(self._thread)) is not None:
            self._told = True
            what = at_work(frame) or "no engine is at work"
            where = "".join(traceback.format_stack(frame)[-12:])
            log.critical("the loop stands still for %.0f s: %s\n%s", still, what, where)
