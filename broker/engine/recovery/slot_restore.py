"""The small state of a slot as MetaRecords, and its way back.

Kinds (data as JSON; replaying one twice does no harm):
    ids       next: numbering goes on here after a restart        queues    next: the same for queues
    queue     id, name, address, routing, auto, subscription, selector, owed, paused; again when that changes
    estate    as queue: that one is deleted, and this is left of it for its dead letters (routing/estates.py)
    unqueue   id
    mark      queue, id: durable messages up to this id may have been delivered
    count     queue, attempts, spans, due: these were out before, and so often in vain (0: came back in order; earlier
              releases counted the first such return); due > 0: not before that time
    due       queue, at, suspect: scheduled messages up to this time may have been delivered (schedule.py)
    suspect   queue, id: at an unclean start the mark stood here        crashed   id: the same for `dispatched` runs
    producers   producers: [token, last number] …; refused: [token, number, code, detail] …
    known     address, ids: duplicate ids of durable messages (duplicates.py)
    prepared  a part of a transaction that waits for its decision (prepared.py), or the dead letters that are left of
              one that is decided (commit_letters.py)                  unprepared  tx
    decided   tx, participants: committed, to be told to these slots      told  tx: all of them know
    aborted   tx, at: will never be decided
    coordinator   slot, epoch: newest leader of another slot that has prepared something here
    delivered   nothing to restore: for those who read the log (hand_outs.py)

Rule: all that is needed beside the messages themselves. Bodies stay in the journal: restored runs are paged.
"""

# Example. What a restart makes of: queue a made; run 1 … 10; "mark a 5"; settled 3; "count a 7 attempts 2"; end, not
# clean.
#     meta    queue a is there, its mark is 5, counts = {7: 2}: straight into the slot
#     run     its position goes to the index, with 9 live messages; 3 goes to `settled`. No byte of it is read
#     end     numbering goes on behind "ids"; "crashed" and "suspect a 5" are written, so a second crash knows as much
#     later   the page is read when somebody consumes: page_in.py takes the run apart
# So a restart is as long as there are runs, not as long as there are bytes. A follower does the first two all the
# time, and becomes leader with the third.

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from broker.core.address import Routing
from broker.core.commands import Decide
from broker.core.effects import Turn
from broker.core.errors import NewerRelease
from broker.core.message import GROUPED
from broker.core.records import DELIVERED, MetaRecord, Row, RunRecord
from broker.core.spans import Span, extend, inside, spans_of
from broker.selector import NOTHING

from ..queue.due_times import moment
from ..queue.queue import Queue
from ..routing import declare, retroactive
from ..routing.addresses import bind, is_there, select, unbind
from ..state import duplicates, limits, schedule
from ..state.slot import Slot
from ..state.tx_parts import Prepared
from .reattach import withdraw

_QUEUES = 300
"""Queues in one step at the end of a restart."""
_RECORDS = 100
_COUNTS = 2000
"""Records, and delivery counts, in one bit of the small state."""


class Restore:
    """Collects what recovery hands over; thrown away at its end. A follower is in recovery for weeks: what comes
    before the runs goes straight to the slot, where later records take it out again.

    dispatched   queue id → spans of such runs.
    counted      queue id → spans of live messages, for queues with delivery counts.
    times        queue id → when its runs were sent or came out, for queues that have known schedules.
    late         the same → which of them were scheduled."""

    __slots__ = ("counted", "dispatched", "late", "slot", "times")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.dispatched: dict[int, list[Span]] = {}
        self.counted: dict[int, list[Span]] = {}
        self.times: dict[int, array[int]] = {}
        self.late: dict[int, array[int]] = {}

    def meta(self, record: MetaRecord) -> None:
        """Replays one record, in log order. Raises NewerRelease."""
        replay = _REPLAY.get(record.kind)
        # A newer release wrote it: to go on without it might lose what it says.
        if replay is None:
            raise NewerRelease(record.slot, record.kind)
        replay(self, record.data)

    def run(self, record: RunRecord, settled: dict[int, list[Span]]) -> None:
        """A run with at least one live message, by ascending first id."""
        run = record.run
        count = len(run.ids)
        for number in record.queues:
            queue = self.slot.queues.get(number)
            if queue is None:
                continue
            gone = [span for span in settled.get(number, ()) if span[0] <= run.ids[-1] and span[1] >= run.ids[0]]
            live = count
            if gone:
                live = len([i for i in run.ids if not inside(gone, i)])
                if not live:
                    continue
                queue.restart.gone(gone)
            # Not in the index: it waits by its time.
            if schedule.rests(queue, run):
                queue.agenda_of().add(run)
                queue.restored(run.ids[-1])
                continue
            table = queue.pages.restore()
            if queue.agenda is not None:
                times = self.times.setdefault(number, array("Q"))
                if run.due:
                    self.late.setdefault(number, array("Q")).append(len(times))
                times.append(moment(run) if run.due else run.time)
            # Bytes by the mean of the run: an estimate until it is read.
            queue.page_at(run.position, live, run.nbytes * live // count, run.expires)
            table.add(run.ids)
            queue.restart.came_back(queue.restored(run.ids[-1]), bool(run.flags & GROUPED))
            if record.dispatched:
                extend(self.dispatched.setdefault(number, []), spans_of(run.ids))
            if queue.tries.counts:
                extend(self.counted.setdefault(number, []), spans_of(run.ids))

    def stretch(self, number: int, rows: list[Row]) -> None:
        """Plain runs of one queue, not scheduled and not dispatched at once, of which every message lives: as run()."""
        queue = self.slot.queues.get(number)
        if queue is None:
            return
        # By columns: a million plain runs are a few calls into C.
        positions, firsts, counts, sizes, expiries, times, flags = zip(*rows, strict=True)
        table = queue.pages.restore()
        if queue.agenda is not None:
            self.times.setdefault(number, array("Q")).extend(times)
        queue.pages_at(positions, sum(counts), sum(sizes), min(filter(None, expiries), default=0))
        table.extend(firsts, counts)
        grouped = queue.restart.grouped or any([f & GROUPED for f in flags])
        queue.restart.came_back(queue.restored(firsts[-1] + counts[-1] - 1), grouped)
        if queue.tries.counts:
            spans = self.counted.setdefault(number, [])
            extend(spans, [(first, first + count - 1) for first, count in zip(firsts, counts, strict=True)])

    def end(self, clean: bool, turn: Turn) -> Iterator[None]:
        """Recovery is complete; `clean`: what was not settled was not delivered either. In steps."""
        slot = self.slot
        # The first id of this life: everything `dispatched` before it is suspect, and nothing after it.
        if slot.restart(clean):
            turn.appends.append(MetaRecord(slot.number, "crashed", {"id": slot.crashed_at}))
        # In steps: a slot with 50,000 queues must not hold up the other slots of the process.
        for at, queue in enumerate(slot.queues.values(), 1):
            if not at % _QUEUES:
                yield
            self._queue(queue, clean, turn)
            slot.touched[queue] = None
            if queue.filter is NOTHING and queue.selector != NOTHING.text:
                turn.notices.append(
                    f"{queue.name} takes no messages: its selector cannot be carried out: {queue.selector}"
                )
        for prepared in slot.prepared.values():
            # Its coordinator may have failed over too: whoever asked for the transaction has to find that one first.
            prepared.revive(turn.now)
            if prepared.commit:  # what is left of it are dead letters
                turn.decisions.append(Decide(slot.number, 0, 0, prepared.tx, True))
            for claim in prepared.claims:
                # An estate sends on what it has by itself.
                if (source := slot.queues.get(claim.queue)) is not None and not source.estate:
                    # Before the slot is open: a message that a transaction in doubt has settled must not be handed
                    # out (I9).
                    claim.find(withdraw(source, claim.spans))
                    source.leaves_for(len(claim.messages))
        # From here on numbers that are known are those of earlier leaders (repeats.py).
        slot.producers.begin(turn.now)
        retroactive.restored(slot)
        change = declare.Reshaping(slot, anew=False)
        # 0 left: there may be more.
        while not change.go_on(slot, turn, _QUEUES):
            yield
        yield from limits.recounting(slot, _QUEUES)

    def settled(self, queue_id: int, spans: list[Span]) -> None:
        """These messages of a queue left it."""
        queue = self.slot.queues.get(queue_id)
        if queue is not None and queue.tries.counts:
            queue.tries.forget(spans)

    def _queue(self, queue: Queue, clean: bool, turn: Turn) -> None:
        slot, restart = self.slot, queue.restart
        if queue.id in self.late and queue.pages.table is not None:
            order = schedule.in_order(self.times[queue.id], self.late[queue.id])
            queue.arrange(order)
        schedule.restored(slot, queue, clean, turn)
        mark = queue.watermark.restart(restart.restored, clean)
        # Mark 0: nothing of before is suspect, or the next unclean start would take all of it for delivered.
        if clean and mark:
            turn.appends.append(MetaRecord(slot.number, "mark", {"queue": queue.id, "id": 0}))
        elif not clean and restart.suspect_up_to(mark):
            turn.appends.append(MetaRecord(slot.number, "suspect", {"queue": queue.id, "id": mark}))
        restart.suspect(span for span in self.dispatched.get(queue.id, ()) if span[0] < slot.crashed_at)
        if queue.tries.counts:
            live = self.counted.get(queue.id, [])
            # Counts of messages that are gone: the log may have settled them in a segment that is no more.
            queue.tries.keep(lambda i: inside(live, i) and not inside(queue.restart.settled, i))
            if queue.tries.counts:
                # A copy: what this leader counts itself says nothing of what an earlier one took away from a client
                # (reattach._lost).
                slot.inherited[queue.id] = dict(queue.tries.counts)

    def _ids(self, data: dict[str, Any]) -> None:
        self.slot.replay_ids(data["next"])

    def _queues(self, data: dict[str, Any]) -> None:
        self.slot.replay_queues(data["next"])

    def _estate(self, data: dict[str, Any]) -> None:
        queue = self.slot.queues.get(data["id"])
        if queue is not None and not queue.estate:
            # It was deleted, and its dead letters are not all where they go. Runs come behind all of this: the other
            # one has none.
            unbind(self.slot, queue)
        self._queue_made(data, estate=True)

    def _queue_made(self, data: dict[str, Any], estate: bool = False) -> None:
        slot = self.slot
        number = data["id"]
        slot.replay_queues(number + 1)
        queue = slot.queues.get(number)
        if queue is None:
            address, name = data["address"], data["name"]
            queue = Queue(
                number, name, address, Routing(data["routing"]), slot.declarations.settings(address, name),
                auto_created=data["auto"], subscription=data["subscription"], hidden=data.get("hidden", False),
                maker=data.get("maker", ""),
            )  # fmt: skip
            queue.select(data.get("selector"), known=True)
            if estate:
                queue.inherit((), queue)
            bind(slot, queue)
        elif queue.selector != data.get("selector"):
            # The same queue again: a change, or a snapshot behind what it is a snapshot of.
            select(slot, queue, data.get("selector"), known=True)
        queue.owes(data.get("owed", 0))
        queue.pause(data.get("paused", False))

    def _queue_gone(self, data: dict[str, Any]) -> None:
        slot = self.slot
        # Also of one that is gone: its number is in records of the log still.
        slot.replay_queues(data["id"] + 1)
        queue = slot.queues.get(data["id"])
        if queue is not None:
            unbind(slot, queue)

    def _mark(self, data: dict[str, Any]) -> None:
        queue = self.slot.queues.get(data["queue"])
        if queue is not None:
            queue.watermark.replay(data["id"])

    def _count(self, data: dict[str, Any]) -> None:
        queue = self.slot.queues.get(data["queue"])
        if queue is None:
            return
        due = data.get("due", 0)
        for first, last in data["spans"]:
            queue.tries.note(range(first, last + 1), data["attempts"], due)

    def _due(self, data: dict[str, Any]) -> None:
        queue = self.slot.queues.get(data["queue"])
        if queue is not None:
            schedule.replay(queue, data)

    def _suspect(self, data: dict[str, Any]) -> None:
        queue = self.slot.queues.get(data["queue"])
        if queue is not None:
            queue.restart.replay(data["id"])

    def _crashed(self, data: dict[str, Any]) -> None:
        self.slot.replay_crash(data["id"])

    def _producers(self, data: dict[str, Any]) -> None:
        self.slot.producers.restore(data)

    def _prepared(self, data: dict[str, Any]) -> None:
        self.slot.prepared[data["tx"]] = Prepared.restored(data)

    def _unprepared(self, data: dict[str, Any]) -> None:
        self.slot.prepared.pop(data["tx"], None)

    def _decided(self, data: dict[str, Any]) -> None:
        self.slot.decisions.decided[data["tx"]] = data["participants"]

    def _told(self, data: dict[str, Any]) -> None:
        self.slot.decisions.decided.pop(data["tx"], None)

    def _known(self, data: dict[str, Any]) -> None:
        duplicates.replay(self.slot, data)

    def _aborted(self, data: dict[str, Any]) -> None:
        self.slot.decisions.abort(data["tx"], data["at"])

    def _delivered(self, _: dict[str, Any]) -> None:
        """No state."""

    def _coordinator(self, data: dict[str, Any]) -> None:
        self.slot.decisions.epochs[data["slot"]] = data["epoch"]


_REPLAY: dict[str, Callable[[Restore, dict[str, Any]], None]] = {
    "ids": Restore._ids,
    "queues": Restore._queues,
    "queue": Restore._queue_made,
    "estate": Restore._estate,
    "unqueue": Restore._queue_gone,
    "mark": Restore._mark,
    "count": Restore._count,
    "due": Restore._due,
    "suspect": Restore._suspect,
    "crashed": Restore._crashed,
    "producers": Restore._producers,
    "prepared": Restore._prepared,
    "unprepared": Restore._unprepared,
    "decided": Restore._decided,
    "told": Restore._told,
    "aborted": Restore._aborted,
    "known": Restore._known,
    "coordinator": Restore._coordinator,
    DELIVERED: Restore._delivered,
}


def small_state(slot: Slot) -> Iterator[list[MetaRecord]]:
    """All of it, to stand at the head of a new segment, bit by bit: messages come and queues go in between, and each
    bit says what is so when it is asked for.

    A crash may leave the first part of it behind older records: each record says what is, never what is not."""
    number = slot.number
    records: list[MetaRecord] = []
    if slot.reserved:
        records.append(MetaRecord(number, "ids", {"next": slot.reserved}))
    if slot.next_queue > 1:
        # Numbers of queues are never used again, also when all of them are gone.
        records.append(MetaRecord(number, "queues", {"next": slot.next_queue}))
    if slot.crashed_at:
        records.append(MetaRecord(number, "crashed", {"id": slot.crashed_at}))
    for id in list(slot.queues):
        if len(records) >= _RECORDS:
            yield records
            records = []
        queue = slot.queues.get(id)
        if queue is not None and queue.durable:
            records.append(is_there(slot, queue))
            # Also the one under way: the older segment that has it may be gone when this one is read.
            mark = max(queue.watermark.asked, queue.watermark.marked)
            if mark:
                records.append(MetaRecord(number, "mark", {"queue": queue.id, "id": mark}))
            if queue.restart.suspect_to:
                records.append(MetaRecord(number, "suspect", {"queue": queue.id, "id": queue.restart.suspect_to}))
            records += schedule.snapshot(number, queue)
            if queue.tries.counts:
                yield records
                records = []
                counted = list(queue.tries.counts)
                # A queue with a million counts is five hundred bits: the loop is given back in between.
                for at in range(0, len(counted), _COUNTS):
                    yield _counts(number, queue, counted[at : at + _COUNTS])
    if (known := slot.producers.data()) is not None:
        records.append(MetaRecord(number, "producers", known))
    yield records
    for tx in list(slot.prepared):
        if (prepared := slot.prepared.get(tx)) is not None:
            yield [MetaRecord(number, "prepared", prepared.data())]
    for address in list(slot.known_ids):
        yield duplicates.snapshot(slot, address)
    decisions = slot.decisions
    records = [MetaRecord(number, "coordinator", {"slot": s, "epoch": e}) for s, e in decisions.epochs.items()]
    for tx in list(decisions.decided):
        if (participants := decisions.decided.get(tx)) is not None:
            records.append(MetaRecord(number, "decided", {"tx": tx, "participants": participants}))
        if len(records) >= _RECORDS:
            yield records
            records = []
    yield records
    aborted = list(decisions.aborted.items())
    for first in range(0, len(aborted), _RECORDS):
        some = aborted[first : first + _RECORDS]
        yield [MetaRecord(number, "aborted", {"tx": tx, "at": at}) for tx, at in some]


def _counts(number: int, queue: Queue, some: Sequence[int]) -> list[MetaRecord]:
    """Of these messages, as far as they still count."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i in some:
        if (attempts := queue.tries.counts.get(i)) is not None:
            groups.setdefault((attempts, queue.tries.due.get(i, 0)), []).append(i)
    return [
        MetaRecord(number, "count", {"queue": queue.id, "attempts": attempts, "spans": spans_of(ids), "due": due})
        for (attempts, due), ids in groups.items()
    ]
