"""A new leader does not know what subscribers without a durable name have got of what nobody was told to be taken."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish, Transact
from broker.core.message import REDELIVERED

from .world import ANYCAST, INDIVIDUAL, MULTICAST, UNSET, World, done, got, run_of

EDGE = 77


def publish(number, *bodies, routing=MULTICAST, address="t", seq=1, due=0, lines=b""):
    run = run_of(*bodies, durable=True, lines=lines)
    run.due = due
    return Publish(7, 1, seq, address, routing, run, None, True, (EDGE, number))


@pytest.fixture
def world():
    """A leader that took its slot over: one message is in the log, and was sent by an edge that heard nothing."""
    world = World(addresses={"t.aside": {}})
    world.subscribe(1, "t", routing=MULTICAST, queue="c.sub", durable=True)
    world.do(publish(5, b"a"))
    world.settle_down()
    world.restart(first_id=1 << 40)
    world.effects.clear()
    return world


def of(world, consumer):
    return [(body, bool(e.run.flags & REDELIVERED)) for e in world.effects if getattr(e, "run", None) is not None
            and e.consumer == consumer for body in e.run.records]  # fmt: skip


@pytest.mark.parametrize("pattern", ["t", "#"])
def test_they_get_it_marked_and_once(world, pattern):
    world.subscribe(2, pattern, routing=MULTICAST, ack=INDIVIDUAL)
    for _ in range(2):
        assert 1 in done(world.do(publish(5, b"a")))
    assert of(world, 2) == [(b"a", True)]
    world.do(publish(6, b"b"), publish(6, b"b"))
    world.settle_down()
    assert of(world, 2) == [(b"a", True), (b"b", False)]


def test_what_this_leader_took_itself_it_has_told_them(world):
    world.do(publish(6, b"b"))
    world.settle_down()
    world.subscribe(2, "t", routing=MULTICAST)
    world.do(publish(6, b"b"))
    assert of(world, 2) == []


def test_durable_queues_have_it_from_the_log(world):
    world.subscribe(3, "t", routing=MULTICAST, queue="c.sub", durable=True, ack=INDIVIDUAL)
    world.settle_down()
    world.do(publish(5, b"a"))
    world.settle_down()
    assert [body for body, _ in of(world, 3)] == [b"a"]


@pytest.mark.parametrize("again", [publish(5, b"a", routing=ANYCAST), publish(5, b"a", due=2_000_000)])
def test_what_they_never_got_or_cannot_be_told_again_stays_away(world, again):
    world.subscribe(2, "t", routing=MULTICAST)
    assert 1 in done(world.do(again))
    assert of(world, 2) == []


def test_an_address_that_is_a_topic_because_they_are_there(world):
    world.subscribe(2, "t", routing=MULTICAST)
    world.do(publish(5, b"a", routing=UNSET))
    assert of(world, 2) == [(b"a", True)]


def test_their_filters_count(world):
    world.subscribe(2, "t", routing=MULTICAST, selector="colour = 'red'")
    world.subscribe(3, "t", routing=MULTICAST, selector="colour = 'blue'")
    world.do(publish(5, b"\na", lines=b"colour:blue\n"))
    assert of(world, 2) == [] and of(world, 3) == [(b"\na", True)]


def test_transactions_too(world):
    world.subscribe(2, "t", routing=MULTICAST)
    first, second = publish(None, b"a"), publish(None, b"b")
    first.dedup = second.dedup = None
    turn = world.turn()
    command = Transact(7, 1, 9, [first, second])
    command.dedup = (EDGE, 5)
    assert world.engine.duplicate(command.dedup)
    world.engine.again(command, turn)
    world.finish(turn)
    assert got(world.effects) == [b"a", b"b"]
