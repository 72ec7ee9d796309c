"""The checker finds planted bugs: without that its silence would mean nothing."""

from __future__ import annotations

from broker.core.errors import JournalDead
from broker.journal.compaction.compaction import Compactor
from broker.journal.journal import Journal
from broker.journal.log import format as f
from broker.journal.log.appender import Appender
from broker.journal.log.live_index import LiveIndex
from broker.journal.log.reader import Moved
from broker.journal.log.store import Store
from tests.sim.disk import SimFile
from tests.sim.journal_world import World

SEEDS = 400


def found_by(make=World, seeds=SEEDS):
    """The number of the first history that ends in an error, or None."""
    for seed in range(seeds):
        world = make(seed)
        try:
            world.run(steps=60, crashes=3)
        except Exception:
            return seed
    return None


def test_nothing_is_found_without_a_bug():
    assert found_by(seeds=60) is None


def test_receipt_before_sync():
    assert found_by(lambda seed: World(seed, sync=False)) is not None


def test_a_disk_that_ignores_sync_is_noticed():
    def lying(seed):
        world = World(seed)
        world.disk.ignore_sync = True
        return world

    assert found_by(lying) is not None


def test_no_checksum_on_recovery(monkeypatch):
    monkeypatch.setattr(f, "bad_record", lambda *_: -1)
    assert found_by() is not None


def test_torn_tail_not_zeroed(monkeypatch):
    monkeypatch.setattr(Journal, "_cut", lambda *_: None)
    assert found_by() is not None


def test_folder_not_synced():
    def forgetful(seed):
        world = World(seed)
        world.disk.ignore_sync_dir = True
        return world

    assert found_by(forgetful) is not None


def test_failed_sync_tried_again(monkeypatch):
    original = Store._write_part

    def stubborn(self, part):
        try:
            original(self, part)
        except JournalDead:
            self.dead = ""
            with monkeypatch.context() as again:
                again.setattr(SimFile, "pwrite", once_per_place(SimFile.pwrite))
                original(self, part)

    # The second sync is what the bug is about: one that is repeated alone reports success for lost pages.
    monkeypatch.setattr(Store, "_write_part", stubborn)
    monkeypatch.setattr(World, "fault_rate", 0.9)
    assert found_by() is not None


def once_per_place(pwrite):
    """Skips what the page cache already holds, as a retry of fsync alone does."""

    def write(file, data, offset):
        if file._inode.data[offset : offset + len(data)] == data:
            return len(data)
        return pwrite(file, data, offset)

    return write


def test_compaction_drops_a_message(monkeypatch):
    original = Compactor._copy

    def careless(self, data, at, flags, slot, position, usage):
        first, _, _, _, count, *_ = f.RUN_FIXED.unpack_from(data, at)
        if first % 5 == 0:
            for queue in self._queues(data, at, flags):
                LiveIndex.settle(self._live_index, slot, queue, [(first, first + count - 1)])
            return 0
        return original(self, data, at, flags, slot, position, usage)

    monkeypatch.setattr(Compactor, "_copy", careless)
    assert found_by() is not None


def test_settle_lost_at_compaction(monkeypatch):
    monkeypatch.setattr(Compactor, "_keep_settle", staticmethod(lambda *_: None))
    assert found_by() is not None


def test_segment_removed_before_its_copies_are_durable(monkeypatch):
    monkeypatch.setattr(Compactor, "_wait", lambda self, batch: iter(()))
    original = Store.write

    def eager(self, batch):
        for number in batch.freed:
            self.remove(number)
        original(self, batch)

    monkeypatch.setattr(Store, "write", eager)
    assert found_by() is not None


def test_group_split(monkeypatch):
    def loose(self, group):
        for member in group.records:
            self.append(member)
            self._part = None if len(self._parts) % 2 else self._part

    monkeypatch.setattr(Appender, "_group", loose)
    assert found_by() is not None


def test_snapshot_frees_segments_before_it_is_durable(monkeypatch):
    monkeypatch.setattr(Compactor, "_closed", lambda self: list(self._live_index.segments.values())[:-1])
    assert found_by() is not None


def test_a_moved_run_is_looked_for_where_it_first_was(monkeypatch):
    """A bug this journal once had: a run that moves a second time cannot be read until the copy is durable."""

    def first_or_last(self, position, durable):
        to = self._to.get(position)
        return to if to is not None and all(p < durable for p in to) else (position,)

    monkeypatch.setattr(Moved, "resolve", first_or_last)
    assert found_by() is not None
