"""A follower's hot state of a slot: an engine under restore, and the live runs without their bodies.

What a leader's log says is applied as it comes, so that taking over reads nothing from the disk.

Rule: follows the log, decides nothing. What is alive is the journal's to say; runs that it calls dead are forgotten
here in steps whose cost the runs applied since the last one have paid for. Must not know streams, epochs or which owner
leads.
"""

# Example. A follower applies the leader's items of slot 9:
#     RUN 1…100 of queue 7    kept as a record without bodies: (ids, place in our own log)
#     SETTLE 1…60 of queue 7  the journal's index knows which ids live; the run stays
#     META                    a queue is made, a number announced: the engine's small state is always up to date
#     prune                   more than twice as many runs as after the last look: those of which nothing lives are
#                             forgotten. What a look costs is paid by the runs that came since
#     rouse, promote          on taking over: the runs by ascending id into the queue, each with what the index calls
#                             settled
# Nothing is read from the disk, so taking over takes as long as 10 µs for each run that lives, not as reading the
# log.

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from broker.core.effects import Turn
from broker.core.records import MetaRecord, RunRecord, SettleRecord
from broker.core.spans import Span, merged
from broker.engine.engine import Engine

Settled = dict[int, list[Span]]
"""queue → spans of a run's ids that have left it."""
Change = RunRecord | SettleRecord | MetaRecord

_NOTHING: Final[Settled] = {}
_BIT: Final = 100
PRUNE_SLACK: Final = 1024
"""So few dead runs are not worth a look."""


class Liveness(Protocol):
    """What it asks of the journal."""

    def settled(self, record: RunRecord) -> Settled | None:
        """Which of the run's ids have left which of its queues; None: all of them."""
        ...


class LastState:
    """The small state of a slot, where its engine has gone on, or is gone."""

    __slots__ = ("records",)

    def __init__(self, records: list[MetaRecord]) -> None:
        self.records = records

    def small_state(self) -> Iterator[list[MetaRecord]]:
        """Bit by bit."""
        for at in range(0, len(self.records), _BIT):
            yield self.records[at : at + _BIT]


class Standby:
    """Memory: the engine's small state, and some 500 B per live run (at most twice as many runs as are alive).

    size   runs kept.
    roused its engine has begun to be filled: it can follow no more, only be promoted, or made anew from the journal."""

    __slots__ = ("_engine", "_names", "_prune_at", "_queues", "_runs", "_state", "roused")

    def __init__(self, engine: Engine) -> None:
        """`engine`: an empty one."""
        self._engine = engine
        self._runs: list[tuple[RunRecord, Settled]] = []
        """With what had been settled already when the run came here: what recovery or a survey finds may speak of ids
        that another copy of the same run holds."""
        self._names: dict[str, str] = {}
        self._queues: dict[tuple[int, ...], tuple[int, ...]] = {}
        """Each address, and each set of queues, once."""
        self._prune_at = PRUNE_SLACK
        self._state = LastState([])
        """The small state while the engine is being filled."""
        self.roused = False

    @property
    def slot(self) -> int:
        return self._engine.number

    @property
    def engine(self) -> Engine:
        """Live once promoted."""
        return self._engine

    @property
    def size(self) -> int:
        return len(self._runs)

    def restore_meta(self, meta: MetaRecord) -> None:
        """Begins with what recovery or a survey of the journal has found: small state in log order, then what is known
        of producers, then the runs (found)."""
        self._engine.restore_meta(meta)

    def restore_producers(self, producers: dict[int, int]) -> None:
        self._engine.restore_producers(producers)

    def restore(self, metas: Iterable[MetaRecord], runs: Iterable[tuple[RunRecord, Settled]],
                producers: dict[int, int]) -> None:  # fmt: skip
        """All of that at once. Call it first, once."""
        for meta in metas:
            self.restore_meta(meta)
        self.restore_producers(producers)
        self.found(runs)

    def found(self, runs: Iterable[tuple[RunRecord, Settled]]) -> None:
        """More of what a survey finds, before anything is applied. Any thread, while nobody else has the standby."""
        for record, settled in runs:
            self._keep(record, settled)
        self._prune_at = 2 * len(self._runs) + PRUNE_SLACK

    def apply(self, changes: Sequence[Change], journal: Liveness) -> None:
        """What one item of the leader's log (or of a seed) says; the journal has it already."""
        engine = self._engine
        for change in changes:
            kind = type(change)
            if kind is RunRecord:
                # Nothing has left it: a settle of it can only come behind it.
                self._keep(change, _NOTHING)  # type: ignore[arg-type]
            elif kind is SettleRecord:
                engine.restore_settled(change.queue, change.spans)  # type: ignore[union-attr]
            else:
                engine.restore_meta(change)  # type: ignore[arg-type]
        # Doubling: the cost of a look is spread over as many runs as came since the last one.
        if len(self._runs) > self._prune_at:
            self._prune(journal)

    def _keep(self, record: RunRecord, settled: Settled) -> None:
        """What the engine knows by now and what many runs have alike is not kept once per run."""
        if record.dedup is not None:
            self._engine.restore_dedup(*record.dedup)
        address, queues = record.address, tuple(record.queues)
        record.shares(self._names.setdefault(address, address), self._queues.setdefault(queues, queues))
        self._runs.append((record, settled or _NOTHING))

    def _prune(self, journal: Liveness) -> None:
        settled = journal.settled
        self._runs = [entry for entry in self._runs if settled(entry[0]) is not None]
        self._names = {record.address: record.address for record, _ in self._runs}
        self._queues = {tuple(record.queues): tuple(record.queues) for record, _ in self._runs}
        self._prune_at = 2 * len(self._runs) + PRUNE_SLACK

    def small_state(self) -> Iterator[list[MetaRecord]]:
        """For the head of a new segment, bit by bit."""
        return self._state.small_state() if self.roused else self._engine.small_state()

    def snapshot(self) -> list[MetaRecord]:
        """All of it at once."""
        return [record for piece in self.small_state() for record in piece]

    def kept(self) -> list[tuple[RunRecord, Settled]]:
        """The runs, with what had left them when they came here. A copy: it is read in another thread."""
        return self._runs.copy()

    def discard(self) -> None:
        """It is not needed any more: its queues no longer count."""
        self._engine.discard()

    def rouse(self, journal: Liveness, first_id: int, most: int = sys.maxsize) -> bool:
        """Gives the engine the next `most` runs, in order; True: it has all. Some 10 µs each: in steps, so that a long
        queue that is taken over does not stop everything else here.

        New ids begin at `first_id`, or behind those announced. From the first call on nothing may change."""
        engine, runs = self._engine, self._runs
        if not self.roused:
            self._state = LastState(engine.snapshot())
            self.roused = True
            # Not logged: a slot that numbers messages announces the ids behind this one first.
            engine.restore_meta(MetaRecord(self.slot, "ids", {"next": first_id}))
            # Copies of old messages (seeds, redeliveries) come behind younger ones; the queue wants ascending ids
            # (I7). Reversed, so that each is taken from the end.
            runs.sort(key=_first_id, reverse=True)
        for _ in range(min(most, len(runs))):
            record, before = runs.pop()
            # Asked now, not when each settle came: the live index is right as of the last item, and a settle costs
            # nothing here.
            settled = journal.settled(record)
            if settled is not None and (settled := joined(before, settled, record)) is not None:
                engine.restore_run(record, settled)
        return not runs

    def promote(self, turn: Turn) -> Iterator[None]:
        """The engine is live behind it: this process leads the slot. It has all runs (rouse). The standby is used up.
        In steps of some milliseconds, between which nothing may happen in the slot.

        Everything that may have been delivered counts as redelivered, whoever delivered it."""
        # False: not a clean end. The former leader may have delivered up to the watermark in the log, so these say
        # `redelivered` (I6), also if it did not.
        return self._engine.restore_ending(False, turn)


def _first_id(entry: tuple[RunRecord, Settled]) -> int:
    return entry[0].run.ids[0]


def joined(before: Settled, now: Settled, record: RunRecord) -> Settled | None:
    """What either says is settled; None: nothing of the run is left."""
    if not before:
        return now
    result = dict(now)
    for queue, spans in before.items():
        result[queue] = merged(spans + now.get(queue, []))
    first, last = record.run.ids[0], record.run.ids[-1]
    # One span over everything: nothing of it is left in any queue.
    if all(result.get(queue) == [(first, last)] for queue in record.queues):
        return None
    return result
