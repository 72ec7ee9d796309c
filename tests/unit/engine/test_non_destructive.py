"""Queues whose messages stay: everybody sees everything, and each keeps its place."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Settle

from .test_queue_policies import bodies, value, world
from .world import AUTO, CLIENT, INDIVIDUAL, again, got, ids


@pytest.mark.parametrize("ack", [AUTO, CLIENT, INDIVIDUAL])
def test_everybody_sees_everything_and_consuming_changes_nothing(ack):
    w = world(non_destructive=True)
    w.publish("q", b"\n\n1\0", b"\n\n2\0", durable=True)
    one = w.subscribe(1, ack=ack)
    assert bodies(one, 1) == ["1", "2"]
    if ack is not AUTO:
        w.settle(1, *ids(one, 1))
    effects = w.publish("q", b"\n\n3\0", durable=True) or w.effects
    assert bodies(w.effects, 1) == ["1", "2", "3"]
    assert bodies(w.subscribe(2, ack=ack), 2) == ["1", "2", "3"]
    w.disconnect(1)
    w.disconnect(2)
    assert effects is not None and w.queue()["ready"] == 3 and w.queue()["delivering"] == 0
    w.restart()
    w.settle_down()
    w.subscribe(3)
    w.settle_down()
    assert bodies(w.effects, 3) == ["1", "2", "3"] and again(w.effects)[0][1:] == (0, False)


def test_credit_comes_back_and_the_place_is_kept():
    w = world(non_destructive=True)
    w.publish("q", *[b"\n\n%d\0" % n for n in range(5)])
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    for _ in range(4):
        w.settle(1, ids(w.effects, 1)[-1], outcome=Outcome.ACK)
    assert bodies(w.effects, 1) == ["0", "1", "2", "3", "4"]
    w.do(Settle(7, 1, 0, 1, [ids(w.effects, 1)[-1]], Outcome.NACK))
    assert bodies(w.effects, 1) == ["0", "1", "2", "3", "4"]


def test_more_than_memory_is_seen_by_everybody():
    w = world(non_destructive=True, queue_memory_bytes=300, page_bytes=100)
    for n in range(100):
        w.publish("q", b"\n\n%d\0" % n, durable=n % 2 == 0)
    for consumer in (1, 2):
        w.subscribe(consumer)
        w.settle_down()
        assert bodies(w.effects, consumer) == [str(n) for n in range(100)]
    w.publish("q", b"\n\nlast\0", durable=True)
    assert bodies(w.effects, 1)[-1] == bodies(w.effects, 2)[-1] == "last"
    w.restart()
    w.settle_down()
    w.subscribe(3)
    w.settle_down()
    assert bodies(w.effects, 3) == [*(str(n) for n in range(0, 100, 2)), "last"]


def test_staying_messages_leave_by_expiry_and_by_newer_values():
    w = world(non_destructive=True, last_value=True)
    w.publish("q", value("a", "1"), expires=w.now + 100)
    w.publish("q", value("b", "2"), durable=True)
    w.subscribe(1)
    w.publish("q", value("b", "3"), durable=True)
    w.tick(5000)
    assert bodies(w.effects, 1) == ["1", "2", "3"]
    assert bodies(w.subscribe(2), 2) == ["3"]


def test_a_consumer_that_attaches_again_goes_on_where_it_was():
    w = world(non_destructive=True)
    w.publish("q", b"\n\n1\0", b"\n\n2\0", b"\n\n3\0", durable=True)
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=2)
    held = ids(w.effects, 1)
    w.restart(first_id=1 << 40)
    w.settle_down()
    w.attach(1, held=[(held[0], held[1])], ack=INDIVIDUAL, credit_messages=2)
    w.settle_down()
    assert bodies(w.effects, 1) == []
    w.settle(1, *held)
    assert bodies(w.effects, 1) == ["3"]


def test_selectors_and_exclusive_consumers_of_messages_that_stay():
    w = world(non_destructive=True)
    red = b"colour:red\n\n1\0"
    w.subscribe(1, selector="colour = 'red'", ack=INDIVIDUAL, credit_messages=1)
    w.publish("q", b"\n\n0\0", red, b"\n\n2\0", b"colour:red\n\n3\0", durable=True)
    w.settle(1, ids(w.effects, 1)[0])
    assert bodies(w.effects, 1) == ["1", "3"]
    assert bodies(w.subscribe(2), 2) == ["0", "1", "2", "3"]
    alone = world(non_destructive=True, exclusive=True)
    alone.publish("q", red)
    alone.subscribe(1)
    assert got(alone.subscribe(2), 2) == []
    assert bodies(alone.unsubscribe(1), 2) == ["1"]
