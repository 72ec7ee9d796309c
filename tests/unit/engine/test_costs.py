"""What one turn may cost: many small commands of one client must not add up to the square of their number."""

from __future__ import annotations

import random

import pytest

from broker.core.address import Outcome
from broker.core.commands import UNLIMITED, Hold, Settle, Subscribe
from broker.core.errors import Code
from broker.engine.queue.queue import Queue
from broker.engine.routing import redelivery

from .world import ANYCAST, AUTO, CLIENT, INDIVIDUAL, World, got, ids, refused

MANY = 300


@pytest.mark.parametrize("outcome", [Outcome.NACK, Outcome.RETURN])
def test_what_is_given_back_one_by_one_in_a_turn_goes_to_the_head_at_once_and_in_order(outcome, monkeypatch):
    """An ABORT of 10,000 ACKs took a minute, in which the broker did nothing else."""
    world = World()
    world.publish("q", *(b"%d" % i for i in range(MANY)))
    first = ids(world.subscribe(1, ack=INDIVIDUAL))
    moves = []
    to_head = redelivery.to_head
    monkeypatch.setattr(redelivery, "to_head", lambda queue, runs: (moves.append(len(runs)), to_head(queue, runs)))
    effects = world.do(*(Settle(7, 1, 0, 1, [i], outcome) for i in first))
    assert ids(effects) == first
    assert moves == [MANY]


def test_a_browser_of_the_same_turn_sees_what_was_given_back():
    world = World()
    world.publish("q", b"a", b"b")
    held = ids(world.subscribe(1, ack=INDIVIDUAL, credit_messages=2))
    browse = Subscribe(7, 2, 0, 2, "q", ANYCAST, AUTO, browse=True)
    effects = world.do(Settle(7, 1, 0, 1, held, Outcome.NACK), browse)
    assert got(effects, 2) == [b"a", b"b"]
    assert got(effects, 1) == [b"a", b"b"]


def test_a_queue_whose_only_messages_come_back_is_not_idle():
    """Auto-deletion looks between the return and the next dispatch."""
    world = World()
    world.publish("q", b"a")
    world.subscribe(1, ack=INDIVIDUAL)
    world.disconnect(1)
    world.tick(1)
    assert got(world.subscribe(2)) == [b"a"]


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


def test_what_open_transactions_set_aside_is_bounded():
    world = World(max_held_bytes=100)
    world.publish("q", *(b"x" * 30 for _ in range(6)))
    held = ids(world.subscribe(1, ack=INDIVIDUAL))
    assert refused(world.do(*(Hold(7, 1, 0, 1, [i]) for i in held[:3]))) == []
    assert refused(world.do(Hold(7, 1, 0, 1, [held[3]]))) == [Code.TRANSACTION_LIMIT]
    world.do(Settle(7, 1, 0, 1, held[:2], Outcome.RETURN))  # one of them was aborted
    assert refused(world.do(Hold(7, 1, 0, 1, [held[3]]))) == []


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


def test_cumulative_acks_in_transactions_stand_for_a_bounded_number():
    """COMMIT settles all of them in one step."""
    world = World(max_held_messages=5)
    world.publish("q", *(b"x" for _ in range(12)))
    held = ids(world.subscribe(1, ack=CLIENT))
    assert not refused(world.do(Hold(7, 1, 1, 1, [held[3]])))
    assert refused(world.do(Hold(7, 1, 2, 1, [held[5]]))) == [Code.TRANSACTION_LIMIT]
    assert not refused(world.do(Hold(7, 1, 3, 1, [held[4]])))
    world.do(Settle(7, 1, 4, 1, [held[3], held[4]], Outcome.RETURN))
    assert not refused(world.do(Hold(7, 1, 5, 1, [held[9]]))), "what was given back counts no more"
