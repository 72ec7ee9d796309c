"""What an owner that steps down reads back of its log: standbys of the slots that it led.

An owner that was taken for dead steps down in a hundred slots at once, and before it follows them they may have one
copy less than they need. The log belongs to all slots, so all that wait at a time are read in one pass: a pass each
would take a hundred times as long.

Rule: one thread reads, and nobody else has a standby before `done`. Must not know which owner leads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from broker.journal.journal import Journal
from broker.journal.replica.seeds import Survey, read_together

from ..commit.io_thread import Io
from .standby import Standby

Done = Callable[[BaseException | None], None]
AT_ONCE = 1 << 20
"""Runs given to a standby in one go."""


class _Wait:
    """One slot that waits for its turn. error: why it could not be read."""

    __slots__ = ("error", "standby", "survey")

    def __init__(self, survey: Survey, standby: Standby) -> None:
        self.survey = survey
        self.standby = standby
        self.error: BaseException | None = None


class ReadBack:
    """`durable`: Shard.durable."""

    def __init__(self, journal: Journal, io: Io, durable: Callable[[Callable[[], None]], None]) -> None:
        self._journal = journal
        self._io = io
        self._durable = durable
        self._waiting: deque[_Wait] = deque()

    def begin(self, slot: int, standby: Standby, done: Done) -> None:
        """Gives the standby all that lives in the slot now; done(why not)."""
        wait = _Wait(self._journal.survey(slot), standby)

        def due() -> None:
            # In the loop's thread; taken out in the other one. A deque allows that without a lock.
            self._waiting.append(wait)
            self._io.submit(self._read, read)

        def read(_: None, error: BaseException | None) -> None:
            # Not durable messages die with the leadership: the live index learns it from these settles, which are never
            # written.
            for stray in wait.survey.strays:
                self._journal.append(stray)
            done(wait.error or error)

        self._durable(due)

    def _read(self) -> None:
        """In the thread: all slots that wait by now; those find nothing left to do when their own turn comes."""
        batch: list[_Wait] = []
        while self._waiting:
            batch.append(self._waiting.popleft())
        try:
            if len(batch) > 1:
                read_together([wait.survey for wait in batch])
            for wait in batch:
                while (more := wait.survey.read(AT_ONCE)) is not None:
                    wait.standby.found(more)
        except BaseException as error:
            # All of the batch: half a standby must not follow.
            for wait in batch:
                wait.error = error
        finally:
            for wait in batch:
                wait.survey.close()
