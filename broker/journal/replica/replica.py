"""The follower's side of the log: items of a leader, and copies of whole slots.

Rule: what was taken is what the leader's journal holds, byte for byte where it is an item; whatever does not
follow is refused before anything is changed. Loop thread. Must not know streams or leaders.
"""

from __future__ import annotations

from broker.core.errors import BadItem, StaleEpoch
from broker.core.ids import SLOTS
from broker.core.records import RunRecord, SettleRecord

from ..log import format as f
from ..log.appender import Appender
from ..log.items import Member, ParsedItem, parse_item, parse_seed
from ..log.lineage import Lineage


class Replica:
    """Verbs on the appender; see Journal, which hands them on."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender
        self._logs = appender.logs

    def begin_epoch(self, slot: int, epoch: int) -> None:
        # I1 and I2 on this disk: an epoch begins once, and what is older is refused from then on.
        if epoch <= self._logs.epochs[slot]:
            raise StaleEpoch(f"slot {slot}: epoch {epoch} is asked for, {self._logs.epochs[slot]} has begun")
        self._logs.epochs[slot] = epoch
        self._logs.own[slot] = 0
        # Logged before anything of the epoch is taken: a follower that forgot it in a crash would take items of an
        # older leader again (I2).
        self._appender.emit_epoch(slot)

    def append_item(self, slot: int, data: bytes, algorithm: int) -> list[Member]:
        self._check_slot(slot, copying=False)
        item = parse_item(slot, data, algorithm)
        appender, logs = self._appender, self._logs
        due = logs.next[slot] or 1
        # A gap would be a message that this replica claims to have and has not (I3); an overlap, one that it has
        # twice.
        if item.first != due:
            raise BadItem(f"slot {slot}: item {item.first} where {due} is due")
        table = logs.lineage.get(slot)
        # Epochs ascend with lsns: the lineage could not be compared otherwise.
        if table and item.epoch < table[-1][0]:
            raise BadItem(f"slot {slot}: item {item.first} of epoch {item.epoch} behind one of epoch {table[-1][0]}")
        logs.next[slot] = due
        if not (table and table[-1][0] == item.epoch and logs.own[slot]) and logs.enter(slot, item.epoch, due):
            appender.emit_epoch(slot)
        # A segment has one algorithm. The leader's may be another one; content stays the same (I5).
        data = self._own_checksums(data, algorithm)
        return self._book(item, appender.place_item(slot, item.first, item.last, data, out=False))

    def reset_slot(self, slot: int) -> None:
        appender, logs = self._appender, self._logs
        # In this order: a segment that begins with the record still tells of the slot as it was before.
        floor = appender.emit(f.RESET, 0, slot, 0, [])
        # The highest epoch stays: forgetting it would allow an older leader back in (I2).
        logs.clear(slot)
        logs.floors[slot] = floor
        logs.seeding.add(slot)
        appender.tail.drop(slot)
        appender.live_index.drop(slot)

    def append_seed(self, slot: int, data: bytes, algorithm: int) -> list[Member]:
        self._check_slot(slot, copying=True)
        part = parse_seed(slot, data, algorithm)
        data = self._own_checksums(data, algorithm)
        return self._book(part, self._appender.place(data))

    def end_seed(self, slot: int, lineage: Lineage, lsn: int) -> None:
        self._check_slot(slot, copying=True)
        if lsn < 0 or (lsn > 0 and not any(first <= lsn for _, first in lineage)):
            raise BadItem(f"slot {slot}: a copy up to item {lsn} whose lineage {lineage} does not tell its epoch")
        self._appender.emit(f.SEEDED, 0, slot, lsn, [f.pairs_payload(lineage)])
        self._logs.become(slot, lineage, lsn)
        self._logs.since[slot] = lsn + 1

    def _check_slot(self, slot: int, copying: bool) -> None:
        if not 0 <= slot < SLOTS:
            raise BadItem(f"there is no slot {slot}")
        if (slot in self._logs.seeding) is not copying:
            what = "is not being copied: reset it first" if copying else "is being copied and takes no items yet"
            raise BadItem(f"slot {slot} {what}")

    @staticmethod
    def _own_checksums(data: bytes, algorithm: int) -> bytes:
        return data if algorithm == f.PREFERRED else f.resealed(data, f.CHECKSUMS[f.PREFERRED])

    def _book(self, item: ParsedItem, position: int) -> list[Member]:
        appender = self._appender
        usage = appender.usage
        assert usage is not None  # something has just been placed in it
        for member, offset, size in item.members:
            if type(member) is RunRecord:
                member.run.placed(position + offset)
                appender.book_run(member, size)
            elif type(member) is SettleRecord:
                appender.live_index.settle(member.slot, member.queue, member.spans)
                usage.settles(size)
        return [member for member, _, _ in item.members]
