"""Delays and times to live are lengths of time: the owner's clock makes points of them, whatever the edge's says."""

from __future__ import annotations

import pytest

from broker.core.commands import Decide, Prepare, Publish, Transact
from broker.core.effects import Turn
from broker.core.message import DURABLE, NO_IDS, Run
from broker.engine.publishing.repeats import repeat

from .world import ANYCAST, MULTICAST, World, got

HOUR = 3_600_000


def sent(w: World, off: int, ttl: int = 0, delay: int = 0, routing=ANYCAST) -> Publish:
    """As an edge does whose clock is so far off."""
    run = Run(NO_IDS, b"", [b"x"], 1, DURABLE, 4)
    run.expires = w.now + off + ttl if ttl else 0
    run.due = w.now + off + delay if delay else 0
    command = Publish(7, 99, 0, "q", routing, run)
    command.ttl, command.delay = ttl, delay
    return command


def through(w: World, command: Publish, way: str) -> None:
    if way == "transaction":
        w.do(Prepare(7, 1, 5, "tx", 3, [command]))
        w.do(Decide(7, 1, 6, "tx", True))
    else:
        w.do(command)
    w.settle_down()


@pytest.mark.parametrize("way", ["alone", "transaction"])
@pytest.mark.parametrize("off", [-HOUR, 0, HOUR])
def test_the_clock_of_the_edge_may_be_hours_off(off, way):
    w = World()
    through(w, sent(w, off, delay=2_000), way)
    assert got(w.subscribe(1)) == [] == got(w.tick(1_900))
    w.effects.clear()
    w.tick(200)
    w.settle_down()
    assert got(w.effects) == [b"x"]


@pytest.mark.parametrize("way", ["alone", "transaction"])
@pytest.mark.parametrize("off", [-HOUR, 0, HOUR])
def test_a_time_to_live_is_the_owners(off, way):
    w = World()
    through(w, sent(w, off, ttl=2_000), way)
    through(w, sent(w, off, ttl=4_000), "alone")
    w.now += 3_000
    assert got(w.subscribe(1)) == [b"x"]


@pytest.mark.parametrize("way", ["alone", "transaction"])
@pytest.mark.parametrize("ahead", [-HOUR, HOUR])
def test_points_of_time_are_by_the_wall_clock_though_lengths_are_counted_by_another_one(ahead, way):
    """The wall clock was set: the owner counts on (seams.clock.SteadyClock), and knows by how much it differs."""
    w = World()
    w.ahead = ahead
    command = sent(w, 0, ttl=4_000, delay=2_000)
    command.run.expires -= ahead
    command.run.due -= ahead
    command.ttl = command.delay = 0  # it names both by the wall
    through(w, command, way)
    through(w, sent(w, 17 * HOUR, ttl=3_000), "alone")  # a length of time is what it is
    assert got(w.subscribe(1)) == [b"x"] and got(w.tick(1_900)) == []
    w.effects.clear()
    w.tick(200)
    w.settle_down()
    assert got(w.effects) == [b"x"]


def test_points_of_time_and_those_of_older_edges_are_taken_as_they_are():
    w = World()
    command = sent(w, 0, ttl=2_000)
    command.ttl = 0
    w.do(command)
    w.now += 3_000
    assert got(w.subscribe(1)) == []


def test_what_an_earlier_leader_took_is_told_with_times_of_this_one():
    w = World()
    command = sent(w, -HOUR, ttl=2_000, routing=MULTICAST)
    w.subscribe(1, routing=MULTICAST)
    repeat(w.engine._slot, Transact(7, 99, 0, [command]), Turn(w.now, w.open))
    assert command.run.expires == w.now + 2_000
