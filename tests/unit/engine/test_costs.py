"""What one turn may cost: many small commands of one client must not add up to the square of their number."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Settle, Subscribe
from broker.engine import redelivery

from .world import ANYCAST, AUTO, INDIVIDUAL, World, got, ids

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
