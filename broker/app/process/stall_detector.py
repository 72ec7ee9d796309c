"""A thread that sees whether the loop stands still, says what it is at while it does, and ends a step without end.

The watchdog (seams/loop_watchdog.py) names a step when it has ended. One that does not end is named here: which slot,
which command, and where in the code, before an operator kills the process and the reason is lost. If it is one call
into an engine that has burnt HANG_S of CPU, it is made to throw (NoEnd): then the owner stops, its slot has a note of
it, and the next leader that does not come to an end either takes the slot out of service (docs/adr/0008). Else it would
hang owner after owner. It is the loop's own thread that throws, in a handler of a signal, and only where the handler
finds the same call still at work: nothing but an engine is ever interrupted, whose owner tells no edge anything from
then on.

Rule: looks and says, once per standstill. Must not touch what belongs to the loop. A step in C that never looks at
signals cannot be ended, only named.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from broker.owner.shard.fault_attribution import NoEnd, Step, Working, same, step_of, told
from broker.seams.clock import burnt_by

log = logging.getLogger("stampede.watchdog")

EVERY_S = 1.0
STILL_S = 5.0
"""So long no step of the loop is to last: a machine that is short of CPU takes less."""
HANG_S = 5.0
"""Of CPU, in one call into an engine: a thousand times what one may take, on however busy a machine."""
NUMBER = signal.SIGUSR2


class StallDetector:
    """Of the loop that runs in this thread. now: seconds of the monotonic clock. engines: all there are by now; asked
    in either thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, now: Callable[[], float], engines: Callable[[], Iterable[Working]]
    ) -> None:
        self._loop = loop
        self._now = now
        self._engines = engines
        self._thread = threading.get_ident()
        self._burnt = burnt_by(self._thread)
        self._step: Step | None = None
        """The call into an engine that was seen first, and the CPU burnt by then."""
        self._since = 0.0
        self._seen = now()
        self._told = False
        self._stop = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._watcher = threading.Thread(target=self._watch, name="witness", daemon=True)
        self._before: Any = None

    def start(self) -> None:
        """In the main thread it may end steps as well."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(NUMBER, self._interrupt)
        self._beat()
        self._watcher.start()

    def stop(self) -> None:
        """Waits for the thread."""
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher.is_alive():
            self._watcher.join()
        if self._before is not None:
            signal.signal(NUMBER, self._before)
            self._before = None
        self._step = None

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
        if still < 2 * EVERY_S:
            self._told, self._step = False, None
            return
        step = step_of(self._engines())
        frame = sys._current_frames().get(self._thread)
        if still >= STILL_S and not self._told and frame is not None:
            self._told = True
            what = told(step) or "no engine is at work"
            where = "".join(traceback.format_stack(frame)[-12:])
            log.critical("the loop stands still for %.0f s: %s\n%s", still, what, where)
        self._judge(step)

    def _judge(self, step: Step | None) -> None:
        """Is it one step that has no end."""
        if not same(step, self._step):
            self._step, self._since = step, self._burnt()
        elif self._burnt() - self._since >= HANG_S and self._before is not None:
            signal.pthread_kill(self._thread, NUMBER)

    def _interrupt(self, _: int, frame: FrameType | None) -> None:
        step = step_of(self._engines())
        if same(step, self._step):
            self._step = None
            raise NoEnd(f"{told(step)}: no end after {HANG_S:g} s of CPU")
