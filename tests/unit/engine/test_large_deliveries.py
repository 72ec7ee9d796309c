"""AckMode.AUTO over a link: a message with a large body is settled when all of that has come, and whoever leads then
gives it to nobody else meanwhile."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Act, Manage
from broker.core.errors import Code
from broker.core.message import Blob

from .leaders import fail_over, settled
from .world import World, again, got, ids, refused


def handed_out(**more) -> tuple[World, list[int]]:
    """A small, a large, a small, a large one, durable, with consumer 1; and their ids."""
    world = World(**more)
    world.attach(1)
    for n, body in enumerate((b"s0", b"L1", b"s2", b"L3")):
        world.publish("q", body, durable=True, blob=Blob(50 + n, 1000) if n % 2 else None)
    world.settle_down()
    i = ids(world.effects)
    world.effects.clear()
    world.appended.clear()
    return world, i


def held(world) -> dict[int, int]:
    """What consumer 1 holds, and by what its body is found."""
    consumer = world.engine.shown.consumers[1]
    runs = {i: consumer.has(i) for i in consumer.bodies}
    return {i: run.blob.id if run.blob is not None else run.position for i, run in runs.items()}


def test_it_is_not_confirmed_with_the_rest():
    world, i = handed_out()
    world.confirm(1, 9)
    assert settled(world) == [(i[0], i[0]), (i[2], i[2])] and world.queue()["delivering"] == 2
    world.settle(1, i[3])
    world.settle(1, i[1])
    assert settled(world)[2:] == [(i[3], i[3]), (i[1], i[1])]
    assert world.queue()["delivering"] == 0 and world.engine.counters()["acked"] == 4


def test_what_is_not_on_its_way_cannot_be_settled():
    world, i = handed_out()
    assert refused(world.settle(1, i[0])) == [Code.NO_SUCH_DELIVERY]
    assert refused(world.settle(1, i[1], 99)) == [Code.NO_SUCH_DELIVERY] and settled(world) == []
    assert refused(world.settle(1, i[1])) == []
    assert refused(world.settle(1, i[1])) == [Code.NO_SUCH_DELIVERY]


def test_who_leaves_in_the_middle_gives_it_back():
    world, _ = handed_out()
    world.confirm(1, 9)
    world.disconnect(1)
    world.effects.clear()
    world.subscribe(2)
    assert again(world.effects) == [(b"L1", 1, True), (b"L3", 1, True)]


@pytest.mark.parametrize("leader", ["old", "new", "new, page read"])
def test_it_stays_with_its_consumer_whoever_leads(leader):
    world, i = handed_out()
    world.confirm(1, 1)
    if leader != "old":
        fail_over(world, read_back=leader != "new")
    world.effects.clear()
    world.appended.clear()
    world.attach(1, [(i[1], i[1]), (i[3], i[3])], [(i[0], i[0]), (i[2], i[2])])
    world.subscribe(2)
    world.settle_down()
    assert got(world.effects) == [] and list(held(world)) == [i[1], i[3]]
    assert all(held(world).values()), "its body can be found"
    assert world.queue()["delivering"] == 2
    world.settle(1, i[1], i[3])
    world.commit()
    world.restart()
    assert world.queue()["paged"] == 0


def test_what_was_lost_or_settled_with_an_earlier_leader_is_not_held():
    world, i = handed_out()
    world.attach(1, [(i[1], i[1]), (900, 901)], [], room=0)
    assert list(held(world)) == [i[1]]
    assert world.queue()["delivering"] == 1


def test_a_damaged_body_is_a_dead_letter():
    world, i = handed_out(dead_letter_address="dlq")
    world.settle(1, i[1], outcome=Outcome.UNREADABLE)
    assert world.engine.counters()["dead_lettered"] == 1
    assert world.queue()["delivering"] == 3


def test_a_queue_that_is_purged_takes_them_along():
    world, i = handed_out()
    world.do(Manage(7, 9, 5, Act.PURGE, "q", "q"))
    assert held(world) == {} and refused(world.settle(1, i[1])) == [Code.NO_SUCH_DELIVERY]
    assert world.queue()["delivering"] == 0
