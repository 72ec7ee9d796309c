"""Room, credit, round robin, priorities, browsers, subscriptions and their end."""

from __future__ import annotations

import random
import time

import pytest

from broker.core.commands import Settle, Subscribe
from broker.core.message import Run
from broker.engine.consumers.consumer import Consumer
from broker.engine.messages.unloaded import ghost

from .world import (
    ANYCAST,
    AUTO,
    CLIENT,
    INDIVIDUAL,
    World,
    again,
    bodies,
    ids,
    run_of,
)


def test_what_was_held_goes_back_in_order_marked_and_counted():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL)
    world.subscribe(2, ack=INDIVIDUAL)
    world.publish("q", *bodies(6))
    world.publish("q", b"new")
    world.disconnect(2)
    world.effects.clear()
    world.unsubscribe(1)
    world.effects.clear()
    world.subscribe(3, ack=CLIENT)
    assert [body for body, *_ in again(world.effects)] == [*bodies(6), b"new"]
    assert all(redelivered for *_, redelivered in again(world.effects))


@pytest.mark.parametrize(
    ("ack", "settled", "left"),
    [
        (CLIENT, [[1]], [2, 3, 4]),
        (CLIENT, [[0], [1, 3]], [4]),
        (INDIVIDUAL, [[1, 3], [4]], [0, 2]),
        (AUTO, [], []),
    ],
)
def test_what_it_will_hold_when_what_has_been_sent_is_carried_out(ack, settled, left):
    world = World()
    world.subscribe(1, ack=ack)
    world.publish("q", *bodies(5))
    held = world.engine.held(1, [])
    given = ids(world.effects, 1)
    assert held == ([] if ack is AUTO else given)
    coming = [Settle(7, 1, 0, 1, [given[i] for i in each]) for each in settled]
    assert world.engine.held(1, [*coming, Settle(7, 1, 0, 2, given)]) == [given[i] for i in left]
    assert world.engine.held(1, []) == held and world.engine.held(9, []) == []


@pytest.mark.parametrize("ack", [CLIENT, INDIVIDUAL])
def test_however_much_waits_its_ledger_is_walked_over_once(ack):
    """For each command that waits it was, 1,500 times 100,000 ids while everybody else waited. In one pass or one after
    the other, it comes to the same."""
    draw = random.Random(5)
    consumer = Consumer(Subscribe(7, 1, 0, 1, "q", ANYCAST, ack), 1)
    consumer.adopt(dict.fromkeys(range(200), run_of(b"x")), False)
    for _ in range(200):
        coming = [set(draw.sample(range(250), draw.randrange(4))) for _ in range(draw.randrange(6))]
        left = list(range(200))
        for each in coming:
            last = max((at for at, i in enumerate(left, 1) if i in each), default=0)
            left = [i for i in left if i not in each] if ack is INDIVIDUAL else left[last:]
        assert consumer.left(coming) == left
    many = range(50_000)
    consumer.adopt(dict.fromkeys(many, run_of(b"x")), False)
    began = time.process_time()
    assert consumer.left([[i] for i in range(300)]) == list(many[300:])
    assert time.process_time() - began < 0.2


def test_what_becomes_real_again_takes_the_credit_of_its_bytes_and_not_of_its_overhead_once_more():
    command = Subscribe(7, 1, 0, 1, "q", ANYCAST, INDIVIDUAL, overhead=50, credit_bytes=1000)
    consumer = Consumer(command, 1)
    consumer.adopt(dict.fromkeys((4, 5), ghost((4, 5))), True)
    assert consumer.credit_bytes == 900
    run = Run(range(4, 6), b"", [b"x" * 100, b"y" * 100], 200)
    assert consumer.embody({4: run}) == {4}
    assert consumer.credit_bytes == 900 - run.nbytes // 2
    consumer.settle([4], held=False)
    assert consumer.credit_bytes == 950
