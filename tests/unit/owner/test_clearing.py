"""What waits for its removal goes, also where nothing is written any more: a real journal, a simulated disk."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.config.settings import Settings
from broker.journal.journal import Journal
from broker.journal.log.copying_guard import NAME
from broker.owner.commit.group_commit import GroupCommit
from broker.owner.commit.replication_port import Alone
from tests.sim.disk import SimDisk
from tests.unit.journal.support import FOLDER, sent, settings, settled, snapshot

from .hand_io import HandIo


class Bench:
    def __init__(self) -> None:
        self.disk = SimDisk(0)
        self.journal = Journal.open(self.disk, FOLDER, settings())
        self.journal.mind_backups()
        owner = SimpleNamespace(
            snapshot=lambda: iter(()), wake=int, committed=int, relieved=int, fail=lambda why: pytest.fail(why)
        )
        stats = SimpleNamespace(full_waits=0, commits=0, waits_for_room=int, pauses_producers=int)
        self.io, self.helper = HandIo(), HandIo()
        self.commits = GroupCommit(
            Settings(), self.journal, Alone(), stats, self.io, self.helper, lambda *timer: None, owner
        )

    def commit(self) -> None:
        self.commits.commit(now=True)
        self.io.one()

    def body_goes(self) -> None:
        writer = self.journal.blobs.create()
        writer.write(b"x")
        self.journal.forget_blob(writer.finish(sync=True))
        self.commit()

    def maintained(self) -> None:
        for _ in range(50):
            self.commits.maintain()
            self.io.all()
            self.helper.all()


def test_segments_do_not_wait_for_the_next_commit_when_a_backup_kept_bodies():
    bench = Bench()
    for n in range(1, 40):
        bench.journal.append(sent(n, b"x" * 700))
        snapshot(bench.journal)
        bench.commit()
    bench.journal.append(settled(1, 39))
    bench.commit()
    bench.helper.all()
    bench.disk.lock(f"{FOLDER}/{NAME}")
    bench.body_goes()
    job, done = bench.helper.jobs.pop()
    found = job()
    assert found is None, "a backup copies"
    # Compaction frees segments before that word has come.
    for _ in range(6):
        bench.commits.maintain()
        bench.io.all()
    assert bench.journal._store._dead_segments
    done(found, None)
    bench.maintained()
    assert not bench.journal._store._dead_segments


def test_what_a_backup_kept_goes_when_it_has_ended_though_nothing_is_written():
    bench = Bench()
    lock = bench.disk.lock(f"{FOLDER}/{NAME}")
    bench.body_goes()
    bench.helper.all()
    assert bench.journal.wants_clear
    lock.close()
    bench.maintained()
    assert not bench.journal.wants_clear
