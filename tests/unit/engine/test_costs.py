"""What one turn may cost: many small commands of one client must not add up to the square of their number."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Hold, Settle, Subscribe
from broker.core.errors import Code
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


def test_what_open_transactions_set_aside_is_bounded():
    world = World(max_held_bytes=100)
    world.publish("q", *(b"x" * 30 for _ in range(6)))
    held = ids(world.subscribe(1, ack=INDIVIDUAL))
    assert refused(world.do(*(Hold(7, 1, 0, 1, [i]) for i in held[:3]))) == []
    assert refused(world.do(Hold(7, 1, 0, 1, [held[3]]))) == [Code.TRANSACTION_LIMIT]
    world.do(Settle(7, 1, 0, 1, held[:2], Outcome.RETURN))  # one of them was aborted
    assert refused(world.do(Hold(7, 1, 0, 1, [held[3]]))) == []


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
