"""Journals of a slot on disks of their own: one leads, others follow or are copied to."""

from __future__ import annotations

from broker.core.records import MetaRecord
from broker.journal.journal import Journal
from broker.journal.log import format as f
from tests.sim.disk import SimDisk
from tests.unit.journal.support import (
    FOLDER,
    clear,
    commit,
    settings,
    snapshot,
)

TAIL = 1 << 20


class Node:
    """A journal with its disk."""

    def __init__(self, seed, tail=TAIL, **changes):
        self.disk = SimDisk(seed)
        self.tail = tail
        self.changes = changes
        self.journal = Journal.open(self.disk, FOLDER, settings(**changes), tail)

    def crash(self):
        self.disk.crash()
        self.journal = Journal.open(self.disk, FOLDER, settings(**self.changes), self.tail)
        return self.journal

    def lead(self, slot=1, epoch=1):
        self.journal.begin_epoch(slot, epoch)
        self.journal.replicated.add(slot)
        return self

    def put(self, *records):
        """Appends, commits, and returns the items."""
        for record in records:
            self.journal.append(record)
            snapshot(self.journal)
        batch = self.journal.seal()
        self.journal.write(batch)
        self.journal.committed(batch)
        clear(self.journal)
        return batch.items

    def follow(self, items):
        members = [member for slot, _, data in items for member in self.journal.append_item(slot, data)]
        snapshot(self.journal)
        commit(self.journal)
        return members


def copy(leader, follower, slot=1, metas=()):
    """A whole seed, in small pieces."""
    seed = leader.journal.seed(slot, metas)
    commit(leader.journal)
    follower.journal.reset_slot(slot)
    members = []
    while (items := seed.read(1)) is not None:
        assert len(items) == 1
        members += [member for item in items for member in follower.journal.append_seed(slot, item)]
        snapshot(follower.journal, *[member for member in members if isinstance(member, MetaRecord)])
        commit(follower.journal)
    follower.journal.end_seed(slot, seed.lineage, seed.lsn)
    commit(follower.journal)
    seed.close()
    return members


def content(journal, slot=1):
    """(queue, id) → bytes, by a survey."""
    survey = journal.survey(slot)
    found = {}
    while (some := survey.read(3)) is not None:
        for record, gone in some:
            bodies = {
                i: run.lines + body
                for run in journal.read([record.run.position], 1)
                for i, body in zip(run.ids, run.records, strict=True)
            }
            for queue in record.queues:
                for i in record.run.ids:
                    if not any(a <= i <= b for a, b in gone.get(queue, ())):
                        assert (queue, i) not in found
                        found[queue, i] = bodies[i]
    survey.close()
    return found


def record(kind, slot, lsn, epoch, payload, flags=0):
    return b"".join(f.record(kind, flags, slot, epoch, lsn, payload, f.CHECKSUMS[f.PREFERRED]))
