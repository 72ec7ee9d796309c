"""A batch counts whole or not at all; bytes that were once synced either check or stop the start."""

from __future__ import annotations

import pytest

from broker.core.errors import CorruptJournal
from broker.core.records import Stretch
from broker.journal.journal import Journal
from broker.journal.log import format as f
from broker.journal.recovery import recovery
from tests.sim.disk import SimDisk
from tests.unit.journal.support import FOLDER, live_ids, maintain, open_journal, put, sent, settings, settled

SMALL = {"segment_bytes": 4096}


class Kept:
    """A journal with a batch per call of put(), and where each stands."""

    def __init__(self, *batches, **changes):
        self.disk, self.changes = SimDisk(0), SMALL | changes
        self.journal = open_journal(self.disk, **self.changes)
        self.places = []
        for records in batches:
            for record in records:
                self.journal.append(record)
            batch = self.journal.seal()
            self.journal.write(batch)
            self.journal.committed(batch)
            self.places.append((batch.parts[0].segment, batch.parts[0].offset))

    def data(self, segment):
        return self.disk.names[f"{FOLDER}/{segment:016x}.log"].data

    def spoil(self, batch, at=0):
        """One bit of a batch: of its header, or so far behind that."""
        segment, offset = self.places[batch]
        self.data(segment)[offset + at] ^= 1

    def again(self):
        self.disk.locked.clear()
        return Journal.open(self.disk, FOLDER, settings(**self.changes))

    def aside(self):
        return [name for name in self.disk.names if name.endswith(".broken")]


BODY = f.BATCH.size + f.RECORD.size + 8


def three():
    return Kept([sent(1, b"a"), sent(2, b"b")], [sent(3, b"c")], [sent(4, b"d"), sent(5, b"e")])


@pytest.mark.parametrize("at", [0, BODY])
def test_of_a_last_batch_that_is_damaged_nothing_counts_and_what_is_there_is_put_aside(at):
    kept = three()
    kept.spoil(2, at)
    again = kept.again()
    assert live_ids(again) == [1, 2, 3] and len(kept.aside()) == 1 and not again.recovered.clean
    put(again, sent(6, b"f"))
    assert live_ids(kept.again()) == [1, 2, 3, 6], "the log goes on where the last good batch ended"


@pytest.mark.parametrize("at, where", [(0, 0), (BODY, f.BATCH.size)])
def test_damage_before_a_good_batch_stops_the_start_and_is_told_by_place(at, where):
    """The batch behind was written when this one had been synced."""
    kept = three()
    kept.spoil(1, at)
    with pytest.raises(CorruptJournal, match=rf"damaged at offset {kept.places[1][1] + where};"):
        kept.again()
    assert kept.aside() == []


def test_damage_before_a_segment_that_is_in_use_stops_the_start():
    kept = Kept([sent(1, b"a" * 3000)], [sent(2, b"b" * 3000)])
    assert [segment for segment, _ in kept.places] == [1, 2]
    kept.spoil(0, BODY)
    with pytest.raises(CorruptJournal, match="damaged at offset"):
        kept.again()


def test_damage_before_a_segment_that_was_never_used_is_a_torn_write():
    kept = Kept([sent(1, b"a" * 3000)], [sent(2, b"b" * 3000)], [sent(3, b"c" * 3000)])
    last = kept.data(3)
    last[f.SEGMENT_BYTES :] = bytes(len(last) - f.SEGMENT_BYTES)
    kept.spoil(1, BODY)
    assert live_ids(kept.again()) == [1] and len(kept.aside()) == 1


def test_a_segment_of_which_the_beginning_is_gone_is_missing_batches():
    kept = Kept([sent(1, b"a")], [sent(2, b"b")], [sent(3, b"c")])
    segment, offset = kept.places[1]
    data, (_, third) = kept.data(segment), kept.places[2]
    rest = bytes(data[third:])
    data[offset:] = rest + bytes(len(data) - offset - len(rest))
    with pytest.raises(CorruptJournal, match=rf"batch \d+ at offset {offset} where \d+ is due: batches are missing"):
        kept.again()


def test_the_tail_is_filled_from_the_last_batches_up_to_a_bound(monkeypatch):
    kept = Kept(*([sent(i, bytes(200))] for i in range(1, 11)))
    size = kept.places[1][1] - kept.places[0][1] - f.BATCH.size
    monkeypatch.setattr(recovery, "RECENT", 3 * size)
    seen = []
    run = recovery.RecoveryScan.run
    monkeypatch.setattr(recovery.RecoveryScan, "run", lambda scan, numbers: (run(scan, numbers), seen.append(scan))[0])
    kept.again()
    places = [(segment, offset + f.BATCH.size) for segment, offset in kept.places[-3:]]
    assert [(segment, start) for segment, start, _ in seen[0].recent] == places


def test_plain_runs_that_follow_one_another_are_booked_as_one_and_others_are_not():
    kept = Kept([sent(1, b"a"), sent(2, b"b", b"c"), sent(4, b"d"), sent(8, b"e"), sent(9, b"f")], [settled(2, 3)])
    again = kept.again()
    assert live_ids(again) == [1, 4, 8, 9] and again.recovered.slots == {1}
    put(again, settled(1, 9))
    assert again.live_bytes() == 0


def test_what_is_settled_by_the_batch_that_brought_it_does_not_come_back():
    assert live_ids(Kept([sent(1, b"a"), settled(1, 1), sent(2, b"b")], [sent(3, b"c")]).again()) == [2, 3]


def test_the_last_number_of_each_producer_is_known_of_plain_runs_and_of_others():
    records = [sent(1, b"a"), sent(2, b"b", queues=(1, 2)), sent(3, b"c"), sent(4, b"d", queues=(1, 2)), sent(5, b"e")]
    for record, dedup in zip(records, [(7, 5), (7, 9), (8, 2), (9, 1), None], strict=True):
        record.dedup = dedup
    assert Kept(records).again().recovered.producers == {1: {7: 9, 8: 2, 9: 1}}


def test_a_slot_without_a_lineage_is_taken_for_one_of_the_first_epoch():
    kept = Kept([sent(1, b"a")])
    assert kept.again().lineage(1) == [(1, 1)]


def test_what_compaction_has_put_behind_younger_ones_comes_back_in_its_place():
    kept = Kept()
    put(kept.journal, *(sent(i, b"x" * 400) for i in range(1, 200)))
    put(kept.journal, *(settled(i, i) for i in range(1, 200) if i % 5 >= 2))
    maintain(kept.journal)
    again = kept.again()
    assert again.recovered.strays[1]
    assert live_ids(again) == [i for i in range(1, 200) if i % 5 < 2]


@pytest.mark.parametrize("dedup", [None, (7, 1)])
def test_plain_runs_are_gathered_by_the_queue_they_are_in(dedup):
    records = [sent(1, b"a", queues=(3,)), sent(2, b"b", queues=(9,)), sent(3, b"c", queues=(3,))]
    for record in records:
        record.dedup = dedup
    kept = Kept(records)
    found = list(kept.again().recovered.stretches())
    assert all(isinstance(stretch, Stretch) for stretch in found)
    assert [(stretch.queue, [row[1] for row in stretch.rows]) for stretch in found] == [(3, [1, 3]), (9, [2])]
