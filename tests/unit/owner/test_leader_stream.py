"""What a follower says that it holds is on its disk: it counts at once. What a leader sends at once is cut."""

from __future__ import annotations

import pytest

from broker.owner.replication.leader_stream import STEP, LeaderStream
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


class Steps(Home):
    """Follows SLOT; the loop's steps are taken one by one."""

    def __init__(self):
        super().__init__()
        self.later_steps, self.said, self.log, self.applied = [], [], [], []
        self.following.owner = "leader"

    def later(self, after, callback):
        assert after == 0
        self.later_steps.append(callback)

    def step(self):
        steps, self.later_steps = self.later_steps, []
        for callback in steps:
            callback()

    def append_item(self, slot, data, algorithm):
        self.log.append(data)
        return [data]

    def apply(self, slot, changes):
        self.applied += changes

    def send(self, message):
        said = pb.ToLeader.FromString(message)
        self.said.append((said.WhichOneof("what"), said.acked or said.pong))

    def closed(self, stream, why):
        pass

    def append(self, seq, first, count, nbytes=8):
        items = [n.to_bytes(nbytes, "big") for n in range(first, first + count)]
        message = pb.ToFollower(append=pb.Append(seq=seq, slots=[SLOT] * count, items=items))
        self.following.on_message(message.SerializeToString())

    @property
    def numbers(self):
        return [int.from_bytes(data, "big") for data in self.applied]


@pytest.fixture
def items(monkeypatch):
    monkeypatch.setattr("broker.owner.replication.leader_stream.bodies_of", lambda data: [])
    return Steps()


def test_an_append_is_cut_and_what_comes_behind_it_stays_behind(items):
    items.append(1, 0, 2 * STEP + 1)
    assert len(items.applied) == STEP and items.disk == [], "not a longer step, and no word of it yet"
    items.following.on_message(pb.ToFollower(ping=5).SerializeToString())
    items.append(2, 2 * STEP + 1, 1)
    assert items.said == [] and len(items.applied) == STEP
    items.step()
    assert len(items.applied) == 2 * STEP and items.said == []
    items.step()
    assert items.numbers == [*range(2 * STEP + 2)] and items.said == [("pong", 5)]
    items.write()
    assert items.said == [("pong", 5), ("acked", 1), ("acked", 2)] and items.later_steps == []
    items.append(3, 9, 1)
    assert items.numbers[-1] == 9, "nothing waits any more"


def test_many_small_appends_that_wait_are_a_step_as_long_as_one_large_one(items):
    items.append(1, 0, STEP + 1)
    for n in range(3 * STEP):
        items.append(2 + n, STEP + 1 + n, 1)
    longest, before = 0, len(items.applied)
    while items.later_steps:
        items.step()
        longest, before = max(longest, len(items.applied) - before), len(items.applied)
    assert items.numbers == [*range(4 * STEP + 1)] and longest == STEP


def test_large_items_count_as_more(items):
    items.append(1, 0, STEP, nbytes=64 * 1024)
    assert len(items.applied) < STEP / 4


def test_a_stream_that_ends_within_an_append_applies_nothing_of_it_any_more(items):
    items.append(1, 0, 2 * STEP)
    items.append(2, 2 * STEP, 1)
    items.following.on_closed(None)
    items.step()
    items.write()
    assert len(items.applied) == STEP and items.said == [] and items.later_steps == []


def test_a_slot_that_leaves_the_stream_within_an_append_gets_nothing_of_it_any_more(items):
    items.append(1, 0, 2 * STEP)
    items.following.left(SLOT)
    items.step()
    items.write()
    assert len(items.applied) == STEP and items.said == [("acked", 1)], "what it has lost was said before"
