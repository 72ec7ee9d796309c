"""What a queue hands out: by priority and age, behind the answer that begins it."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish, Subscribe

from .world import ANYCAST, AUTO, World, done, got, run_of


def test_message_priorities_go_first_and_keep_fifo_within():
    world = World()
    world.publish("q", b"a", b"b")
    world.publish("q", b"A", b"B", priority=9)
    world.publish("q", b"z", priority=0)
    world.publish("q", b"c")
    assert got(world.subscribe(1)) == [b"A", b"B", b"a", b"b", b"c", b"z"]


def test_the_answer_comes_before_the_first_message():
    world = World(auto_commit=False)
    effects = world.subscribe(1, seq=4)
    assert done(effects) == [] and got(world.publish("q", b"a")) == []
    effects = world.commit()
    assert done(effects) == [4] and got(effects) == [b"a"]


def test_auto_consumers_have_what_was_sent():
    world = World()
    world.subscribe(1)
    world.publish("q", b"a", durable=True)
    world.disconnect(1)
    world.effects.clear()
    world.subscribe(2)
    assert got(world.effects) == [] and world.engine.counters()["acked"] == 1


@pytest.mark.parametrize("filtered", [False, True])
@pytest.mark.parametrize("consumed", [False, True])
def test_what_has_expired_is_sent_on_so_many_messages_a_turn(filtered, consumed):
    """By runs alone 250 of a thousand messages each were one step, of 58 ms."""
    world = World(expiry_address="late")
    if filtered:
        world.subscribe(3, selector="k = 'v'", room=0)
    for _ in range(40):
        world.publish("q", *[b"x"] * 1000, expires=world.now + 10)
    world.now += 2000
    world.in_pieces, world.auto_commit = True, False
    turn = world.turn()
    world.engine.tick(turn)
    if consumed:
        world.engine.handle(Subscribe(7, 2, 0, 2, "q", ANYCAST, AUTO), turn)
    world.engine.flush(turn)
    moved = sum(len(move.ids) for move in turn.moves)
    assert 1000 <= moved <= 9000 + 5000 * filtered, "where selectors hand out, by time"
    world.finish(turn)
    while world.engine.unfinished or world.engine.pending:
        world.commit()
        world.now += 1000
        turn = world.turn()
        world.engine.tick(turn)
        world.finish(turn)
    late = world.queue("late")
    assert late["ready"] + late["paged"] == 40_000


def test_what_a_ring_has_no_room_for_is_sent_on_so_many_messages_a_turn():
    world = World(ring_size=10, ring_dead_letters=True, dead_letter_address="over")
    turn = world.turn()
    for _ in range(100):
        world.engine.handle(Publish(7, 1, 0, "q", ANYCAST, run_of(*[b"x"] * 1000)), turn)
    world.in_pieces, world.auto_commit = True, False
    world.engine.flush(turn)
    assert sum(len(move.ids) for move in turn.moves) <= 32 * (500 + 250) + 1000
    world.finish(turn)
