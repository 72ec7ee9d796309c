"""What is measured runs before all else on the machine, and what only disturbs it behind all else.

Rule: for programmes that measure, never for tests: two cores for a broker, its clients and whoever disturbs them would
measure who waits for a processor.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FIRST, LAST = -20, 19
"""Of what the scheduler has (nice)."""
BEHIND = 5
"""So much is a third of the time, where both want all of it."""


def go_first() -> bool:
    """This process and those it starts get a processor before others do. False: that may not be asked for."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, FIRST)
        group = Path("/proc/self/autogroup")
        if group.exists():
            # Linux shares out among sessions first, and a priority counts within one only. In a session of our own:
            # else the shell, and all that is started from it later, would go first from now on.
            _begin_session()
            group.write_text(str(FIRST))
    except OSError:
        return False
    return True


def _begin_session() -> None:
    if os.getpgrp() == os.getpid():  # who leads a group of processes cannot: a child goes on
        child = os.fork()
        if child:
            try:
                os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
            except KeyboardInterrupt:
                os.kill(child, signal.SIGINT)
                os._exit(1)
    os.setsid()


def behind(nice: int = LAST) -> list[str]:
    """What a command line begins with whose process has that priority, wherever this one stands; and BEHIND it at
    least, or without root, where nobody goes first, it would be behind nobody."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    return ["nice", "-n", str(min(max(nice - own, BEHIND), LAST - own))]


_SPINNING = """
import os
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
while True:
    pass
"""


@contextmanager
def awake(first: bool) -> Iterator[None]:
    """No core rests: one that does is halted on a virtual machine, and waking it up takes up to some milliseconds,
    which is more than what a broker takes. What keeps it from that gives way to everything.

    first: as go_first() said."""
    spinning = [
        # In a session that goes first they would count as much as it does; elsewhere one of their own would.
        subprocess.Popen([sys.executable, "-c", _SPINNING], start_new_session=first)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for each in spinning:
            each.kill()
            each.wait()
