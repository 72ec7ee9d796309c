"""What comes back to a queue stands in the order of ids, and touches its neighbours only."""

from __future__ import annotations

import random

import pytest

from broker.core.address import Outcome
from broker.core.commands import UNLIMITED
from broker.engine.queue.queue import Queue
from broker.engine.routing import redelivery

from .test_costs import MANY
from .world import INDIVIDUAL, World, got, ids


@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_given_back_turn_by_turn_touches_its_neighbours_only(backwards, monkeypatch):
    """10,000 NACKs that nobody takes, each in a turn of its own, sorted all of the head 10,000 times."""
    world = World()
    world.publish("q", *(b"%d" % i for i in range(MANY)))
    first = ids(world.subscribe(1, ack=INDIVIDUAL, credit_bytes=UNLIMITED))
    world.engine._slot.consumers[1].credit_messages = -MANY  # it takes nothing more
    sorted_in_all = []
    regroup = redelivery.regroup
    monkeypatch.setattr(redelivery, "regroup", lambda found: (sorted_in_all.append(len(found)), regroup(found))[1])
    for i in reversed(first) if backwards else first:
        world.settle(1, i, outcome=Outcome.NACK)
    assert sum(sorted_in_all) <= 4 * MANY
    assert got(world.subscribe(2)) == [b"%d" % i for i in range(MANY)]


def test_what_comes_back_between_others_finds_its_place():
    world = World()
    world.publish("q", *(b"%d" % i for i in range(10)))
    first = ids(world.subscribe(1, ack=INDIVIDUAL))
    world.engine._slot.consumers[1].credit_messages = -10
    for some in ([7, 3], [5], [0, 9, 4], [1, 2], [8], [6]):
        world.settle(1, *(first[i] for i in some), outcome=Outcome.NACK)
    assert got(world.subscribe(2)) == [b"%d" % i for i in range(10)]


def test_what_comes_back_at_both_ends_of_a_long_head_leaves_the_middle_alone(monkeypatch):
    """Two messages given back, with 100,000 others between them at the head, sorted all of them: seconds."""
    world = World()
    for i in range(MANY):
        world.publish("q", b"%d" % i)
    first = ids(world.subscribe(1, ack=INDIVIDUAL))
    world.engine._slot.consumers[1].credit_messages = -MANY
    world.settle(1, *first[1:-1], outcome=Outcome.NACK)
    taken_out = []
    left = Queue.left
    monkeypatch.setattr(Queue, "left", lambda queue, run: (taken_out.append(run), left(queue, run))[1])
    world.settle(1, first[0], first[-1], outcome=Outcome.NACK)
    assert len(taken_out) <= 2
    assert got(world.subscribe(2)) == [b"%d" % i for i in range(MANY)]


@pytest.mark.parametrize("seed", range(30))
def test_whatever_comes_back_stands_in_the_order_of_ids(seed):
    draw = random.Random(seed)
    world, sent = World(), []
    while len(sent) < 40:
        some = [b"%d" % i for i in range(len(sent), len(sent) + draw.randint(1, 6))]
        world.publish("q", *some)
        sent += some
    held = ids(world.subscribe(1, ack=INDIVIDUAL))
    world.engine._slot.consumers[1].credit_messages = -100
    while held:
        some = draw.sample(held, draw.randint(1, min(len(held), 9)))
        held = [i for i in held if i not in some]
        world.settle(1, *some, outcome=draw.choice([Outcome.NACK, Outcome.RETURN]))
        assert sum(len(run.ids) for run in world.engine.queues()[0].ready) == len(sent) - len(held)
    assert got(world.subscribe(2)) == sent
