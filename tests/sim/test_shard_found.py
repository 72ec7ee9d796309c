"""What the histories of a shard have found, each distilled to its core."""

from __future__ import annotations

import errno
from collections import deque

import pytest

from broker.config.settings import JournalSettings
from broker.core.address import Outcome
from broker.core.effects import Deliver
from broker.core.errors import JournalFull
from broker.core.message import DURABLE, Run
from broker.core.records import MetaRecord
from broker.engine.engine import Engine
from broker.journal.compaction.split import by_queues
from broker.journal.journal import Journal
from broker.journal.log.reader import Moved
from broker.owner.bodies.bodies import FileBodyReader
from tests.harness.queues import stats
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import SimIo
from tests.unit.engine.world import CLIENT, MULTICAST, World

FOLDER = "/data/journal"


def test_full_ends_with_the_shortage_also_when_it_was_a_large_body_that_met_it():
    disk = SimDisk(1)
    journal = Journal.open(disk, FOLDER, JournalSettings(segment_bytes=4096, min_free_bytes=0))
    journal.prepare()
    disk.capacity = disk.used()
    with pytest.raises(JournalFull):
        journal.blobs.create().write(b"x" * 1000)
    assert journal.full
    disk.capacity = 1 << 40
    assert journal.wants_prepare
    journal.prepare()
    assert not journal.full
    assert not journal.wants_prepare


def test_full_ends_when_there_is_space_again_although_nothing_is_written_meanwhile():
    disk = SimDisk(1)
    journal = Journal.open(disk, FOLDER, JournalSettings(segment_bytes=4096, min_free_bytes=4096))
    journal.prepare()
    disk.capacity = disk.used() + 100
    journal.prepare()
    assert journal.full
    disk.capacity = 1 << 40
    assert journal.wants_prepare
    journal.prepare()
    assert not journal.full


def test_marks_do_not_walk_through_the_gap_of_ids_a_restart_leaves():
    world = World(mark_messages=4)
    world.publish("q", *[b"%d" % n for n in range(20)], durable=True)
    world.restart()
    for n in range(6):
        world.publish("q", b"volatile %d" % n)
        world.publish("q", b"durable %d" % n, durable=True)
    world.appended.clear()
    world.subscribe(1, ack=CLIENT, credit_messages=21)  # the last one that fits needs no mark
    marks = [record for record in world.appended if isinstance(record, MetaRecord) and record.kind == "mark"]
    assert 0 < len(marks) < 20


def test_a_durable_message_paged_out_of_a_temporary_queue_is_a_durable_dead_letter():
    world = World(queue_memory_bytes=20, page_bytes=20, max_delivery_attempts=-1)
    world.subscribe(1, "t", CLIENT, MULTICAST, credit_messages=1)
    for n in range(3):
        world.publish("t", b"%d" % n + b"x" * 15, durable=True, routing=MULTICAST)
    for _ in range(3):
        last = [effect for effect in world.effects if isinstance(effect, Deliver)][-1]
        world.settle(1, *last.run.ids, outcome=Outcome.REJECT)
    world.effects.clear()
    world.subscribe(2, "DLQ")
    flags = [effect.run.flags & DURABLE for effect in world.effects if isinstance(effect, Deliver)]
    assert flags == [DURABLE] * 3


def test_compaction_never_interleaves_what_one_queue_holds():
    run = Run(range(1, 7), b"", [b"x"] * 6, 6)
    one, both, other = (1,), (1, 2), (3,)
    holders = {1: one, 2: both, 3: one, 4: other, 5: one, 6: other}
    groups = by_queues(run, holders)
    assert groups == [(one, [0]), (both, [1]), (one, [2, 4]), (other, [3, 5])]


def test_parts_of_a_moved_run_stay_in_order():
    moved = Moved()
    moved.add(100, [200, 300])
    moved.add(200, [400])
    assert moved.resolve(100, 1000) == (400, 300)


def test_a_large_body_given_up_leaves_no_file_also_when_it_was_finished():
    disk = SimDisk(1)
    journal = Journal.open(disk, FOLDER, JournalSettings(segment_bytes=4096, min_free_bytes=0))
    writer = journal.blobs.create()
    writer.write(b"x" * 1000)
    writer.finish(sync=True)
    writer.abort()
    assert disk.listdir(f"{FOLDER}/blobs") == []


def test_the_first_part_of_a_snapshot_takes_nothing_away():
    """A crash between two segments leaves such a part; the queue and all its messages were gone once."""
    world = World()
    world.publish("q", b"durable", durable=True)
    snapshot = world.engine.snapshot()
    for part in range(len(snapshot) + 1):
        world.restart()
        restored = Engine(7, world.settings)
        for record in [*(r for _, r in world.log if isinstance(r, MetaRecord)), *snapshot[:part]]:
            restored.restore_meta(record)
        list(restored.restore_ending(False, world.turn()))
        assert [queue["name"] for queue in stats(restored)] == ["q"]


@pytest.mark.parametrize("fault", ["eio", "missing"])
def test_a_large_body_that_cannot_be_opened_stops_nobody_but_its_reader(fault):
    disk = SimDisk(1)
    journal = Journal.open(disk, FOLDER, JournalSettings(segment_bytes=4096, min_free_bytes=0))
    writer = journal.blobs.create()
    writer.write(b"x" * 1000)
    blob = writer.finish(sync=True)
    if fault == "eio":
        disk.fail = {"open": (disk.calls["open"] + 1, errno.EIO)}
    else:
        journal.blobs.remove(blob.id)
    io = SimIo(deque())
    reader = FileBodyReader(journal.blobs, io, blob)
    answers = []
    reader.read(100, lambda data, why: answers.append((data, why)))
    io.run_one()
    io.ready.popleft()()
    reader.close()
    assert answers[0][0] is None
    assert ("cannot be opened" if fault == "eio" else "missing") in answers[0][1]
