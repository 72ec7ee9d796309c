"""Edges that a new leader waits for: all that live, each slot for itself, and not for long."""

from __future__ import annotations

import pytest

from broker.owner.slots.edge_gathering import GATHER_S, LOOK_S, EdgeGathering


class World:
    """Plays the server of the edges, the clock and its timers."""

    def __init__(self):
        self.now = 50.0
        self.timers, self.served, self.there, self.gathered = [], {}, {}, []
        self.live = {"e1", "e2"}
        self.gathering = EdgeGathering(
            self, lambda: self.live, self.gathered.append, lambda: self.now,
            lambda seconds, then: self.timers.append((self.now + seconds, then)),
        )  # fmt: skip

    def serve(self, slot, epoch, news=None):
        self.served[slot] = (epoch, news)

    def attached(self, slot):
        return self.there.get(slot, set())

    def comes(self, edge, slot):
        """Has told everything about the slot."""
        self.there.setdefault(slot, set()).add(edge)
        self.served[slot][1]()

    def wait(self, seconds):
        until = self.now + seconds
        while due := sorted((t for t in self.timers if t[0] <= until), key=lambda t: t[0])[:1]:
            self.timers.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = until


@pytest.fixture
def world():
    return World()


def test_every_live_edge_is_waited_for(world):
    world.gathering.begin(7, 3)
    assert world.served[7][0] == 3
    world.comes("e1", 7)
    assert world.gathered == []
    world.comes("e2", 7)
    assert world.gathered == [7] and world.gathering.until == {}


def test_one_that_has_died_is_not(world):
    world.gathering.begin(7, 3)
    world.comes("e1", 7)
    world.live = {"e1"}
    world.wait(LOOK_S)
    assert world.gathered == [7]


def test_nor_one_that_is_slow_for_long(world):
    world.gathering.begin(7, 3)
    world.wait(GATHER_S - LOOK_S)
    assert world.gathered == []
    world.wait(2 * LOOK_S)
    assert world.gathered == [7]


def test_where_no_edge_lives_the_next_look_is_the_last(world):
    world.live = set()
    world.gathering.begin(7, 3)
    assert world.gathered == []
    world.wait(LOOK_S)
    assert world.gathered == [7]
    world.wait(1)
    assert world.timers == []


def test_each_slot_is_gathered_once_and_for_itself(world):
    world.gathering.begin(7, 3)
    world.wait(GATHER_S / 2)
    world.gathering.begin(8, 1)
    assert len(world.timers) == 1, "one look for all of them"
    world.wait(GATHER_S / 2 + LOOK_S)
    assert world.gathered == [7] and world.gathering.until.keys() == {8}
    world.comes("e1", 7)  # late: nobody waits any more
    world.comes("e2", 7)
    world.wait(GATHER_S)
    assert world.gathered == [7, 8]


def test_who_is_forgotten_is_not_gathered(world):
    world.gathering.begin(7, 3)
    world.gathering.forget(7)
    world.gathering.forget(8)
    world.comes("e1", 7)
    world.comes("e2", 7)
    world.wait(1)
    assert world.gathered == [] and world.timers == []
