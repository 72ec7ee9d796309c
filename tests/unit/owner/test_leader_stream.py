"""What a follower says that it holds is on its disk: it counts at once."""

from __future__ import annotations

from broker.owner.replication.following.leader_stream import LeaderStream
from broker.rpc.v1 import replica_pb2 as pb

SLOT = 7


class Home:
    """FollowerHome, the journal and the stream of one follower; `disk` is what its disk still has to take."""

    def __init__(self):
        self.held = (1, 91)
        self.disk = []
        self.haves = []
        self.home = self.journal = self.clock = self.stream = self
        self.blobs = self.body_io = None
        self.peer = "leader:1"
        self.names: frozenset[str] = frozenset()
        self.following = LeaderStream(self, self)
        self.following.slots[SLOT] = 2

    def monotonic(self):
        return 0.0

    def last(self, slot):
        return self.held

    def lineage(self, slot):
        return [(1, 1), (2, 92)]

    def durable(self, callback):
        self.disk.append(callback)

    def write(self):
        disk, self.disk = self.disk, []
        for callback in disk:
            callback()

    def send(self, message):
        self.haves += [(have.slot, have.epoch, have.lsn) for have in pb.ToLeader.FromString(message).haves.haves]


def test_what_comes_between_the_question_and_the_disk_is_not_said_to_be_held():
    """The cluster's history 825: a message was receipted that was on one disk only."""
    home = Home()
    home.following.answer([SLOT])
    home.held = (1, 92)  # the leader had sent it before it asked
    home.write()
    assert home.haves == []
    home.write()
    assert home.haves == [(SLOT, 2, 92)]


def test_slots_that_are_not_followed_here_any_more_are_not_spoken_of():
    home = Home()
    home.following.answer([SLOT])
    home.following.slots.clear()
    home.write()
    assert home.haves == [] and home.disk == []
