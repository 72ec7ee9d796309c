"""Large bodies on their way to followers, where the leader has trouble with its own copy."""

from __future__ import annotations

import pytest

from broker.core.errors import JournalError
from broker.owner.replication.catchup import RETRY_S
from broker.rpc.v1 import replica_pb2 as pb
from tests.unit.owner.test_repl_basics import SLOT, in_sync, ready_world, told


class Failing:
    """A BlobStore of which the next `times` openings, or readings, fail."""

    def __init__(self, store, opens=0, reads=0, data=None):
        self.store, self.opens, self.reads, self.data = store, opens, reads, data
        self.tried = []

    def __getattr__(self, name):
        return getattr(self.store, name)

    def open(self, id):
        if self.opens:
            self.opens -= 1
            raise JournalError(f"large body {id:016x} cannot be opened: Too many open files")
        return Reader(self, self.store.open(id))


class Reader:
    def __init__(self, failing, reader):
        self.failing, self.reader = failing, reader

    def __getattr__(self, name):
        return getattr(self.reader, name)

    def read(self, offset, n):
        failing = self.failing
        failing.tried.append(offset)
        if offset and failing.reads:
            failing.reads -= 1
            if failing.data is None:
                raise JournalError("Input/output error")
            return failing.data
        return self.reader.read(offset, n)


def sent_with(world, **trouble):
    leader = world.leader(SLOT)
    body = world.random.randbytes(200_000)
    failing = leader.journal.blobs = Failing(leader.journal.blobs, **trouble)
    leader.send(SLOT, body=body)
    return failing, body


def has(world, body):
    (id,) = world.bodies
    return [owner.journal.blobs.read(id, 0, len(body)) == body for owner in world.owners.values()]


@pytest.mark.parametrize("trouble", [{"reads": 5}, {"reads": 5, "data": b""}, {"opens": 5}])
def test_a_body_that_cannot_be_read_is_read_again(trouble):
    world = ready_world()
    failing, body = sent_with(world, **trouble)
    begin = world.now
    world.until(lambda: told(world) == 1 and in_sync(world, "o0", "o1", "o2"), 60)
    assert has(world, body) == [True] * 3
    assert world.now - begin > RETRY_S, "not at once: it would only fail again"
    assert len(failing.tried) < 40, "every pause is twice as long"


def test_nobody_who_has_it_not_is_in_sync_meanwhile():
    world = ready_world()
    sent_with(world, reads=10_000)
    world.run(20)
    assert told(world) == 0


def test_an_empty_one_that_stands_for_a_message_that_is_gone_is_handed_on():
    """Cluster history 169: a follower that was given it became the leader before the record was gone from its log, and
    found its file too short: whoever it was to bring up never came to be in sync."""
    world = ready_world()
    world.owners["o2"].crash(wipe=True)
    world.until(lambda: in_sync(world, "o0", "o1"))
    leader = world.leader(SLOT)
    leader.send(SLOT, body=b"x" * 100_000)
    world.until(lambda: told(world) == 1)
    (id,) = world.bodies
    leader.disk.names[leader.journal.blobs.path(id)].data.clear()
    world.owners["o2"].start()
    world.until(lambda: in_sync(world, "o0", "o1", "o2"))


def test_a_body_whose_message_never_comes_goes_when_its_slot_is_led_elsewhere():
    """Cluster history 790: its leader was replaced between the body and the message; the stream lived on."""
    world = ready_world()
    world.create(SLOT + 1, "o0")
    world.until(lambda: world.leader(SLOT + 1) is not None)
    o1 = world.owners["o1"]
    path = o1.journal.blobs.path
    following = o1.followers._streams["o0"]
    for id, slot, data in ((1, SLOT, b"whole"), (2, SLOT, b"half"), (3, SLOT + 1, b"whole")):
        following._bodies.begin(id, 5, slot)
        following._bodies.chunk(id, data)
    world.run(0.1)
    assert [path(id) in o1.disk.names for id in (1, 2, 3)] == [True] * 3
    record = world.records[SLOT]
    world.write(type(record)(SLOT, record.epoch + 1, "o2", record.replicas, record.isr))
    world.until(lambda: world.leader(SLOT) is world.owners["o2"])
    world.run(0.5)
    assert [path(id) in o1.disk.names for id in (1, 2, 3)] == [False, False, True]


def test_a_body_that_comes_after_its_slot_is_led_elsewhere_is_not_kept():
    """Cluster history 523: the old leader had sent it before it heard; no message of that stream will ever name it."""
    world = ready_world()
    o1 = world.owners["o1"]
    following = o1.followers._streams["o0"]
    record = world.records[SLOT]
    world.write(type(record)(SLOT, record.epoch + 1, "o2", record.replicas, record.isr))
    world.until(lambda: world.leader(SLOT) is world.owners["o2"])
    world.until(lambda: SLOT not in following.slots)
    for chunk in (pb.BlobChunk(id=1, first=True, length=5, slot=SLOT + 1), pb.BlobChunk(id=1, data=b"whole")):
        following.on_message(pb.ToFollower(chunk=chunk).SerializeToString())
    world.run(0.5)
    assert o1.journal.blobs.path(1) not in o1.disk.names
