"""Records on their way to the disk: appended, sealed into commits, written and synced by a thread of its own.

Rule: one commit is under way at a time; whatever gathers meanwhile is the next one (group commit without timers). Only
what nobody waits for is kept back a little. A write that failed is never repeated, but for want of space. Must not know
engines or commands: what small state a new segment begins with is asked of the owner.
"""

# Example. A sync of the disk takes 2 ms, turns come every 0.3 ms.
#     turn 1     appends a RUN: commit 1 is sealed and goes to the thread. Open is commit 2
#     turn 2 … 7 append; commit() finds that one is under way, and does nothing
#     +2 ms      commit 1 is on the disk: a turn runs at once, tells what waited for 1, and seals all of turns 2 … 7
#                as commit 2
# No timer decides how long to wait: the disk does. A slow disk makes larger commits, a fast one smaller ones, and a
# single client waits for one sync, never for a delay that was meant for many.

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from broker.config.settings import Settings
from broker.core.errors import JournalError, JournalFull
from broker.core.records import LogRecord, MetaRecord
from broker.journal.journal import Batch, Journal

from .io_thread import Io
from .replication_port import Replicas
from .stats import ShardStats

log = logging.getLogger("stampede.owner")

# What is written after deliveries in ack mode auto: no client waits for it, and each time would cost a sync.
LAZY_S = 0.005
LAZY_BYTES = 64 * 1024
"""So long, and so much, may be kept back that nobody waits for."""
PIECE = 200
"""Records of small state that go with one commit, some more at the most: 1 ms."""
FULL_RETRY_S = 0.5
"""How soon a commit that found no space is tried again."""


class Unwritable(Exception):
    """A record of this slot cannot be written; its cause says why."""

    def __init__(self, slot: int) -> None:
        super().__init__(f"a record of slot {slot}")
        self.slot = slot


class Owner(Protocol):
    """Whose commits these are."""

    def snapshot(self) -> Iterator[list[MetaRecord]]:
        """Small state of all slots, for the head of a new segment, bit by bit: each as it is when it is asked for."""
        ...

    def wake(self) -> None:
        """Has a turn soon: more may be told."""
        ...

    def committed(self) -> None:
        """Has that turn at once, if none is due: a commit is on the disk."""
        ...

    def relieved(self) -> None:
        """The disk has caught up."""
        ...

    def fail(self, why: str) -> None:
        """The journal cannot go on."""
        ...


class GroupCommit:
    """later(seconds, callback)   run the callback after that time.

    open        number of the commit that gathers now.    done   the last one that is on the local disk.
    wanted      a receipt or an answer waits for the open commit.
    congested   more is on its way than may be: producers are to pause."""

    __slots__ = (
        "_after", "_alone", "_clearing", "_committing", "_copying", "_data", "_ending", "_io", "_journal", "_kept_open",
        "_later", "_lazy", "_max_inflight", "_owner", "_prepare_io", "_preparing", "_replicas", "_stats", "_stopped",
        "congested", "done", "open", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        settings: Settings,
        journal: Journal,
        replicas: Replicas,
        stats: ShardStats,
        commit_io: Io,
        prepare_io: Io,
        later: Callable[[float, Callable[[], None]], Any],
        owner: Owner,
    ) -> None:
        self._data = settings.data
        self._max_inflight = settings.journal.max_inflight_bytes
        self._journal = journal
        self._replicas = replicas
        self._alone = replicas.alone
        self._stats = stats
        self._io = commit_io
        self._prepare_io = prepare_io
        self._later = later
        self._owner = owner
        self.open = 1
        self.done = 0
        self.congested = self._kept_open = False
        self.wanted = False
        self._ending = False
        self._copying: Iterator[list[MetaRecord]] | None = None
        """The small state that is still to come, for the head of a segment."""
        self._after: dict[int, list[Callable[[], None]]] = {}
        """Commit number → who wants to know when it is on the disk."""
        self._committing = False
        self._lazy = False
        self._preparing = self._clearing = False
        self._stopped = False

    def append(self, records: list[LogRecord]) -> None:
        """They go with the open commit. Raises Unwritable."""
        append = self._journal.append
        try:
            for record in records:
                append(record)
        except Exception as error:
            raise Unwritable(record.slot) from error

    def keep_open(self, kept: bool) -> None:
        """What gathers is not complete (any more): nothing is sealed."""
        self._kept_open = kept

    def want(self) -> None:
        """Somebody waits for the open commit."""
        self.wanted = True

    def after(self, callback: Callable[[], None]) -> None:
        """Calls back when everything appended so far is on the local disk."""
        self.wanted = True
        # Everything appended so far is in the open commit or in earlier ones, and they reach the disk in order.
        self._after.setdefault(self.open, []).append(callback)

    def commit(self, now: bool = False, wanted: bool = False) -> bool:
        """Sends what has gathered on its way, unless another commit is. True: nothing is under way. wanted: somebody
        waits for it."""
        if wanted:
            self.wanted = True
        # One at a time: with two under way the second could be synced when the first has failed, and a log with a gap
        # is rot.
        if self._committing or self._kept_open:
            self.check_pressure()
            return False
        if self._copying is not None or self._journal.wants_snapshot:
            self._copy_on()
        if not (now or self.wanted) and self._nobody_waits():
            if not self._lazy:
                self._lazy = True
                self._later(LAZY_S, self._commit_lazily)
            return False
        batch = self._journal.seal()
        if batch is None:
            if self.wanted:
                # Held behind an earlier commit, nothing of their own to write: durable already.
                # A number without bytes: whoever waits for it waited for what is before it, and that is done.
                self.done = self._next()
                self._replicas.sealed(self.done, [])
                self._replicas.committed(self.done)
                self._tell()
                self._owner.wake()
            return True
        self.wanted = False
        number, self.open = self.open, self.open + 1
        self._committing = True
        # To the disk first, then to the followers: both work at the same time, and an item counts when all have it.
        self._io.submit(partial(self._journal.write, batch), partial(self._on_committed, batch, number))
        # A follower may so have an item that is not on our own disk yet, and never will be if we die now. It was told
        # to nobody, and the next leader decides what becomes of it (isr.py).
        if not self._alone:
            self._replicas.sealed(number, batch.items)
        if self.congested or max(self._journal.inflight_bytes, self._replicas.backlog) > self._max_inflight:
            self.check_pressure()
        return False

    def _next(self) -> int:
        """Closes the open commit; its number."""
        self.wanted = False
        self.open += 1
        return self.open - 1

    def _nobody_waits(self) -> bool:
        """Something is to be written that nobody wants to hear of, as after deliveries in ack mode auto: it may go
        with what comes next, and cost no commit (nor any message to followers) of its own."""
        return not self.wanted and 0 < self._journal.inflight_bytes < LAZY_BYTES

    def _commit_lazily(self) -> None:
        self._lazy = False
        if not self._stopped:
            self.commit(now=True)

    def _write(self, batch: Batch, number: int) -> None:
        self._io.submit(partial(self._journal.write, batch), partial(self._on_committed, batch, number))

    def _on_committed(self, batch: Batch, number: int, _: Any, error: BaseException | None) -> None:
        if isinstance(error, JournalFull):
            # Nothing of the batch counts as written and the same call may be made again: sends are refused
            # meanwhile, and what waits for this batch waits until somebody has made room.
            if not self._stats.full_waits % 60:
                log.error("%s; free space on the disk of %s", error, self._data)
            self._stats.waits_for_room()
            # What was kept for a backup goes now.
            self._clear()
            # The same bytes to the same places. Nothing else can be written meanwhile: later batches stand behind
            # this one.
            self._later(FULL_RETRY_S, partial(self._write, batch, number))
            return
        self._committing = False
        if error is not None:
            self._owner.fail(f"journal: {error}")
            return
        # Order: the journal's live index, then the number, replication, callbacks, and a turn that releases. Each may
        # rely on all before it.
        self._journal.committed(batch)
        self.wanted = self.wanted or self._copying is not None
        self._stats.commits += 1
        self.done = number
        self._replicas.committed(number)
        if self._after:
            self._tell()
        # What is on its way has become less, not more.
        if self.congested:
            self.check_pressure()
        if self._journal.wants_prepare:
            self._prepare()
        if self._journal.wants_clear:
            self._clear()
        self._owner.committed()

    def _tell(self) -> None:
        for number in [n for n in self._after if n <= self.done]:
            for callback in self._after.pop(number):
                callback()

    def check_pressure(self) -> None:
        """Is too much on its way, here or to followers."""
        # The slower of disk and followers decides.
        inflight = max(self._journal.inflight_bytes, self._replicas.backlog)
        if inflight > self._max_inflight:
            if not self.congested:
                self._stats.pauses_producers()
            self.congested = True
        elif self.congested and inflight < self._max_inflight // 2:
            # Two thresholds: with one, producers would be stopped and let go with every commit.
            self.congested = False
            self._owner.relieved()

    def maintain(self) -> bool:
        """One bounded step of freeing and compaction; True: there is more to do."""
        try:
            more = self._journal.maintain()
        except JournalError as error:
            self._owner.fail(f"journal: {error}")
            return False
        self._prepare()
        # A backup may have ended meanwhile, or a disk be full, without any commit.
        self._clear()
        # What compaction waits for is a commit; nobody else may come along.
        self.commit(now=True)
        return more

    def _copy_on(self) -> None:
        """A piece of the small state goes with each commit: 50,000 queues at once would be 250 ms. No crash harms half
        of it, and the stop of the process need not wait for the rest."""
        if self._ending:
            self._copying = None
            return
        if self._copying is None:
            self._journal.begin_snapshot()
            self._copying = self._owner.snapshot()
        piece: list[MetaRecord] = []
        for some in self._copying:
            piece += some
            if len(piece) >= PIECE:
                self._journal.add_snapshot(piece)
                return
        self._journal.add_snapshot(piece)
        self._journal.end_snapshot()
        self._copying = None

    def _prepare(self) -> None:
        """Has the segments to come zero-filled ahead of need."""
        if self._preparing or not self._journal.wants_prepare:
            return

        def prepared(_: Any, error: BaseException | None) -> None:
            self._preparing = False
            if error is not None:
                self._owner.fail(f"journal: {error}")

        self._preparing = True
        self._prepare_io.submit(self._journal.prepare, prepared)

    def _clear(self) -> None:
        """Has files removed that nobody needs any more, some at a time: who waits for a commit waits for none."""
        # Behind the end of the process the folder is another's: what is left is removed by the next start.
        if self._clearing or self._ending or self._stopped or not self._journal.wants_clear:
            return

        def cleared(gone: list[int] | None, error: BaseException | None) -> None:
            self._clearing = False
            if error is not None:
                self._owner.fail(f"journal: {error}")
            elif gone is not None:
                self._journal.cleared(gone)
                self._clear()

        self._clearing = True
        self._prepare_io.submit(self._journal.clear, cleared)

    def hurry(self) -> None:
        """The process stops: what nobody waits for is left alone."""
        self._ending = True

    def stop(self) -> None:
        """The owner has failed: nothing more is sealed by itself."""
        self._stopped = True
