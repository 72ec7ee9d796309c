"""What of a run lives at the place where it was found.

Rule: a message lives in one place only, where the live index says; everything else of a run counts as settled there.
Must not know files, or how runs are found.
"""

from __future__ import annotations

from broker.core.records import RunRecord
from broker.core.spans import Span, without

from ..log import format as f
from ..log.live_index import LiveIndex

Settled = dict[int, list[Span]]
"""queue → spans of this run's ids that have left it"""


class Living:
    """Asks an index that does not change meanwhile."""

    def __init__(self, live_index: LiveIndex) -> None:
        self._live_index = live_index
        self._around: dict[tuple[int, int], tuple[int, int]] = {}
        self._around_segment = 0

    def whole(self, slot: int, queue: int, first: int, last: int, segment: int) -> bool:
        """Do all of these ids live, there, in that queue."""
        if self._around_segment == segment:
            # (1, 0) holds no id.
            low, high = self._around.get((slot, queue), (1, 0))
            if low <= first and last <= high:
                return True
        ranges = self._live_index.queues.get((slot, queue))
        piece = None if ranges is None else ranges.range_at(first)
        if piece is None or last > piece[1] or piece[2] != segment:
            return False
        if self._around_segment != segment:
            self._around.clear()
            self._around_segment = segment
        self._around[slot, queue] = piece[:2]
        return True

    def of(
        self, data: bytes, at: int, flags: int, slot: int, position: int, bodies: bool = False
    ) -> tuple[RunRecord, Settled] | None:
        """The run at `at` (not transient), if this place of it holds a live message."""
        record = f.read_run(data, at, flags, slot, bodies)
        run = record.run
        run.placed(position)
        ids = run.ids
        first, last, segment = ids[0], ids[-1], position >> 32
        # Gaps, not survivors: nearly always all of a run is alive and there is nothing to say.
        settled: Settled = {}
        alive = False
        for queue in record.queues:
            low, high = self._around.get((slot, queue), (1, 0))
            if low <= first and last <= high and self._around_segment == segment:
                alive = True  # neighbours mostly lie in the same range: no search
                continue
            # Alive elsewhere means: this place is a copy that has been left behind, or not reached yet, and counts as
            # settled here. So each message is found in one place, whatever order segments are read in.
            live = self._live_index.live(slot, queue, first, last)
            here = [(low, high) for low, high, where in live if where == segment]
            if here:
                alive = True
                self._remember(slot, queue, last, segment)
            if gaps := without((first, last), here):
                settled[queue] = gaps
        return (record, settled) if alive else None

    def _remember(self, slot: int, queue: int, message: int, segment: int) -> None:
        """Keeps the range in which this queue's next runs probably lie. Nothing changes while runs() is in use."""
        if self._around_segment != segment:
            self._around.clear()
            self._around_segment = segment
        piece = self._live_index.queues[slot, queue].range_at(message)
        if piece is not None and piece[2] == segment:
            self._around[slot, queue] = piece[:2]


def settled_of(live_index: LiveIndex, record: RunRecord) -> Settled | None:
    """What has left its queues of a run, wherever it is now; None: no message of it lives."""
    ids = record.run.ids
    first, last = ids[0], ids[-1]
    settled: Settled = {}
    alive = False
    for queue in record.queues:
        # The usual answer, by one search. What follows is for runs with holes.
        if live_index.contains(record.slot, queue, first, last):
            alive = True
            continue
        here = [(low, high) for low, high, _ in live_index.live(record.slot, queue, first, last)]
        alive = alive or bool(here)
        if gaps := without((first, last), here):
            settled[queue] = gaps
    return settled if alive else None
