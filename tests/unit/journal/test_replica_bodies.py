"""Large bodies of a replicated slot: they travel beside the items."""

from __future__ import annotations

import pytest

from broker.core.errors import CorruptJournal, JournalError
from broker.core.message import DURABLE, Run
from broker.core.records import RunRecord
from tests.unit.journal.nodes import Node
from tests.unit.journal.support import (
    clear,
    commit,
    maintain,
    settled,
)


class TestBodies:
    def large(self, node, first=1):
        writer = node.journal.blobs.create()
        writer.write(b"abc" * 100)
        blob = writer.finish(sync=True)
        run = Run(range(first, first + 1), b"", [b"\n"], 302, DURABLE, blob=blob)
        return RunRecord(1, "a", [1], run)

    def receive(self, node, blob, data=b"abc" * 100):
        writer = node.journal.blobs.receive(blob.id)
        writer.write(data)
        return writer.finish(sync=True)

    def test_ids_are_unique_over_disks_and_kept_by_followers(self):
        a, b = Node(1).lead(), Node(2)
        record = self.large(a)
        blob = record.run.blob
        assert blob.id >> 32 != self.large(b).run.blob.id >> 32
        assert not b.journal.blobs.has(blob.id)
        self.receive(b, blob, b"an attempt that was given up")
        self.receive(b, blob)
        b.follow(a.put(record))
        assert b.journal.blobs.has(blob.id)
        assert b.journal.blobs.length(blob.id) == 300
        with pytest.raises(JournalError, match="is here already"):
            b.journal.blobs.receive(blob.id)
        b.crash()
        assert b.journal.blobs.read(blob.id, 0, 1000) == b"abc" * 100
        assert b.journal.blobs.create()._id >> 32 != blob.id >> 32

    def test_a_body_that_no_item_names_is_an_orphan(self):
        a, b = Node(1).lead(), Node(2)
        self.receive(b, self.large(a).run.blob)
        b.crash()
        assert not [name for name in b.disk.names if "/blobs/" in name]

    def test_a_body_that_comes_again_before_its_removal_is_written_stays(self):
        a, b = Node(1).lead(), Node(2)
        record = self.large(a)
        self.receive(b, record.run.blob)
        b.follow(a.put(record))
        b.journal.reset_slot(1)
        commit(b.journal)
        b.journal.maintain()
        assert not b.journal.blobs.has(record.run.blob.id)
        removal = b.journal.seal()
        assert removal.removals
        seed = a.journal.seed(1, [])
        self.receive(b, record.run.blob)
        for item in seed.read(1 << 20):
            b.journal.append_seed(1, item)
        b.journal.write(removal)
        b.journal.committed(removal)
        clear(b.journal)
        b.journal.end_seed(1, seed.lineage, seed.lsn)
        commit(b.journal)
        assert b.crash().blobs.read(record.run.blob.id, 0, 1000) == b"abc" * 100

    def test_a_body_stays_while_a_copy_that_names_it_is_read(self):
        a = Node(1).lead()
        record = self.large(a)
        a.put(record)
        seed = a.journal.seed(1, [])
        a.put(settled(1, 1))
        maintain(a.journal)
        assert a.journal.blobs.length(record.run.blob.id) == 300
        seed.close()
        maintain(a.journal)
        with pytest.raises(CorruptJournal):
            a.journal.blobs.length(record.run.blob.id)
