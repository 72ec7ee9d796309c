"""The checks of replicated logs find planted bugs."""

from __future__ import annotations

from broker.journal.log import format as f
from broker.journal.log.appender import Appender
from broker.journal.log.lineage import SlotLogs
from broker.journal.log.live_index import LiveIndex
from broker.journal.recovery.recovery import RecoveryScan
from broker.journal.replica import seeds
from tests.sim.journal_replicas import World

SEEDS = 300
STEPS = 300


def found_by(seeds_=SEEDS):
    """The number of the first history that ends in an error, or None."""
    for seed in range(seeds_):
        try:
            World(seed).run(STEPS)
        except Exception:  # a checker's, or the journal's own
            return seed
    return None


def test_a_reset_is_not_logged(monkeypatch):
    emit = Appender.emit

    def forgetful(self, kind, *rest):
        return self.segment << 32 | self.offset if kind == f.RESET else emit(self, kind, *rest)

    monkeypatch.setattr(Appender, "emit", forgetful)
    assert found_by() is not None


def test_an_incomplete_copy_counts(monkeypatch):
    run = RecoveryScan.run

    def trusting(self, numbers):
        self._logs.seeding = set()
        run(self, numbers)

    monkeypatch.setattr(RecoveryScan, "run", trusting)
    monkeypatch.setattr(RecoveryScan, "_read_mark", without_seeding(RecoveryScan._read_mark))
    assert found_by() is not None


def without_seeding(take):
    def mark(self, *args):
        take(self, *args)
        self._logs.seeding.clear()

    return mark


def test_a_copy_sees_later_settles(monkeypatch):
    def live(self, slot):
        view = LiveIndex()
        view.queues = {key: ranges for key, ranges in self.queues.items() if key[0] == slot and ranges}
        return view

    monkeypatch.setattr(LiveIndex, "view", live)
    assert found_by() is not None


def test_segments_go_while_they_are_copied(monkeypatch):
    init = seeds.SlotReader.__init__

    def unpinned(self, *args):
        init(self, *args)
        self.close()

    monkeypatch.setattr(seeds.SlotReader, "__init__", unpinned)
    assert found_by() is not None


def test_a_copy_loses_a_message(monkeypatch):
    parts = seeds.parts_of

    def lossy(record, settled):
        for part in parts(record, settled):
            if part.run.ids[0] % 7:
                yield part

    monkeypatch.setattr(seeds, "parts_of", lossy)
    assert found_by() is not None


def test_a_follower_claims_the_epoch_it_only_promised(monkeypatch):
    last = SlotLogs.last

    def boasting(self, slot):
        epoch, lsn = last(self, slot)
        return (self.epochs[slot], lsn) if epoch else (0, 0)

    monkeypatch.setattr(SlotLogs, "last", boasting)
    assert found_by() is not None


def test_an_lsn_is_used_up_before_its_item_has_a_place(monkeypatch):
    place = Appender._place_numbered

    def early(self, slot, lsn, crc, body):
        if lsn:
            self._next[slot] = lsn + 1
        return place(self, slot, lsn, crc, body)

    monkeypatch.setattr(Appender, "_place_numbered", early)
    assert found_by() is not None
