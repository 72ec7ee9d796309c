"""Large bodies that come ahead of their messages: whole is said of what is on stable storage only."""

from __future__ import annotations

from broker.rpc.v1 import replica_pb2 as pb
from tests.unit.owner.test_repl_basics import SLOT, ready_world, told

from .test_repl_bodies import sent_with


def test_nobody_who_has_it_not_is_in_sync_meanwhile():
    world = ready_world()
    sent_with(world, reads=10_000)
    world.run(20)
    assert told(world) == 0


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
