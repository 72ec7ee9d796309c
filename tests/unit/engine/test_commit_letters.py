"""What a COMMIT rejects is a dead letter, whoever leads by the time it arrives: nobody asks for it a second time."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Settle, Unsubscribe
from broker.core.effects import Done
from broker.core.records import GroupRecord, MetaRecord
from broker.engine.engine import Engine
from broker.engine.queue.large_returns import BACK
from broker.engine.state.log_group import grouped

from .test_estates import LETTERS, SUB, dead, held
from .test_prepared import arrive, fail_over, sent_away
from .test_returns import done, goes_on, last
from .world import CLIENT, MULTICAST, World, ids

MANY = 3 * BACK
LEADERS = pytest.mark.parametrize("snapshot", [False, True])


def committed(world, *parts):
    """A COMMIT of these, with number 5; the moves that come of it are on their way to another owner."""
    turn = world.turn()
    asked = {}
    for part in parts:
        world.engine.check(part, asked)
    group = turn.part()
    for part in parts:
        world.engine.handle(part, group)
        list(world.engine.rest())
    world.engine.remember((9, 1), group)
    turn.merge(group, grouped(7, group.appends))
    world.engine.after(Done(1, 5), turn)
    world.engine.flush(turn)
    away = turn.take_moves()
    world.finish(turn)
    return away + sent_away(world)


@pytest.mark.parametrize("outcome", [Outcome.REJECT, Outcome.NACK])
@pytest.mark.parametrize("many", [1, MANY])
@pytest.mark.parametrize("unread", [False, True])
@LEADERS
def test_a_leader_that_dies_before_they_arrive_loses_none(many, outcome, unread, snapshot):
    """They came again: its COMMIT is answered by its number, and nobody rejects them a second time."""
    world = held(many, unread)
    named = list(world.engine.shown.consumers[1].ledger)
    away = committed(world, Settle(7, 1, 0, 1, [named[-1]], outcome))
    assert sum(len(move.ids) for move in away) == many and done(world.effects) == []
    arrive(world, away[1:])
    assert done(world.effects) == []
    fail_over(world, snapshot)
    world.attach(1, held=[(named[0], named[-1])], **SUB)
    world.effects.clear()
    world.settle_down()
    goes_on(world)
    assert dead(world) == len(away[0].ids) and ids(world.effects) == [] and not world.engine.shown.prepared
    world.unsubscribe(1)
    assert world.queue("sub")["ready"] == world.queue("sub")["paged"] == world.queue("sub")["delivering"] == 0


def test_it_is_forgotten_and_answered_with_the_last_one():
    world = held(MANY, unread=False)
    away = committed(world, Settle(7, 1, 0, 1, [last(world)], Outcome.REJECT))
    (prepared,) = world.engine.shown.prepared.values()
    kinds = [[part.kind for part in record.records if isinstance(part, MetaRecord)] for record in groups(world)]
    assert ["prepared", "producers"] in kinds, "with what the COMMIT has done"
    assert prepared.coordinator == 7 and world.engine.in_doubt(1 << 50) == []
    (kept,) = follower(world)
    assert kept == prepared.data() and kept["letters"], "a follower keeps it as it is"
    arrive(world, away)
    goes_on(world)
    assert done(world.effects) == [5] and not world.engine.shown.prepared
    fail_over(world)
    assert not world.engine.shown.prepared and world.queue("sub")["paged"] == 0


def follower(world):
    """What an engine that only follows has of prepared transactions for a new segment."""
    engine = Engine(7, world.settings)
    for _, record in world.log:
        for part in record.records if isinstance(record, GroupRecord) else [record]:
            if isinstance(part, MetaRecord):
                engine.restore_meta(part)
    return [record.data for record in engine.snapshot() if record.kind == "prepared"]


def groups(world):
    return [record for record in world.appended if isinstance(record, GroupRecord)]


@pytest.mark.parametrize("outcome", [Outcome.ACK, Outcome.NACK])
def test_what_makes_no_dead_letters_is_not_kept(outcome):
    world = World(addresses={"t": LETTERS["t"] | {"max_delivery_attempts": 9}})
    world.subscribe(1, **SUB)
    world.publish("t", b"x", durable=True, routing=MULTICAST)
    committed(world, Settle(7, 1, 0, 1, [last(world)], outcome))
    assert not world.engine.shown.prepared


def test_nor_is_what_does_not_last():
    world = World(addresses={"t": LETTERS["t"]})
    world.subscribe(1, "t", ack=CLIENT, routing=MULTICAST)
    world.publish("t", b"x", durable=True, routing=MULTICAST)
    assert committed(world, Settle(7, 1, 0, 1, [last(world)], Outcome.REJECT)) and not world.engine.shown.prepared


@pytest.mark.parametrize("fails_over", [False, True])
def test_a_queue_that_goes_leaves_them_to_its_estate(fails_over):
    world = held(MANY, unread=False)
    away = committed(world, Settle(7, 1, 0, 1, [last(world)], Outcome.REJECT))
    world.do(Unsubscribe(7, 1, 6, 1, "t", "sub"))
    if fails_over:
        fail_over(world)
        goes_on(world)
        assert dead(world) == MANY
    else:
        arrive(world, away)
        goes_on(world)
        assert done(world.effects) == [5, 6]
    assert not world.engine.shown.prepared and not any(queue.estate for queue in world.engine.queues())
