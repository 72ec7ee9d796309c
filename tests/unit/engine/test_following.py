"""An engine that only follows a log: for weeks, with snapshots, until it leads or is thrown away."""

from __future__ import annotations

from broker.core.address import Outcome
from broker.core.commands import Decide, Prepare, Publish
from broker.core.records import GroupRecord, MetaRecord, RunRecord, SettleRecord
from broker.engine.engine import Engine
from broker.engine.state.budget import Budget

from .world import ANYCAST, INDIVIDUAL, World, ids, run_of

EPOCH = 1 << 40


def records(world):
    for record in world.appended:
        yield from record.records if isinstance(record, GroupRecord) else [record]


def follow(standby, world):
    """What the leader logged reaches the follower."""
    for record in records(world):
        if isinstance(record, MetaRecord):
            standby.restore_meta(record)
        elif isinstance(record, SettleRecord):
            standby.restore_settled(record.queue, record.spans)
        elif isinstance(record, RunRecord) and record.dedup is not None:
            standby.restore_dedup(*record.dedup)
    world.appended.clear()


def kinds(engine):
    return [(r.kind, r.data) for r in engine.snapshot()]


def test_a_follower_says_the_same_of_the_small_state_as_the_leader():
    world = World(mark_messages=2)
    standby = Engine(7, world.settings)
    for n in range(6):
        world.do(Publish(7, 1, 0, "q", ANYCAST, run_of(b"%d" % n, durable=True), None, True, (55, n)))
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=3)
    i = ids(world.effects)
    world.settle(1, i[0], i[1], outcome=Outcome.NACK, delay=5000)
    world.do(Prepare(7, 1, 0, "t", 3, [Publish(7, 1, 0, "q", ANYCAST, run_of(b"p"))]))
    turn = world.turn()
    world.engine.decide("d", [4], turn)
    world.finish(turn)
    follow(standby, world)
    assert sorted(kinds(standby), key=repr) == sorted(kinds(world.engine), key=repr)
    assert {"mark", "count", "producers", "prepared", "decided", "queue", "ids"} <= {kind for kind, _ in kinds(standby)}
    world.settle(1, i[2])
    world.tick(5000)
    world.disconnect(1)
    world.subscribe(2)
    world.do(Decide(7, 1, 0, "t", True))
    world.settle_down()
    follow(standby, world)
    assert sorted(kinds(standby), key=repr) == sorted(kinds(world.engine), key=repr)
    assert "count" not in {kind for kind, _ in kinds(standby)}


def test_memory_stays_that_of_what_is_there():
    world = World(auto_delete=True)
    standby = Engine(7, world.settings)
    for n in range(50):
        world.subscribe(n + 1, f"q{n}", ack=INDIVIDUAL)
        world.publish(f"q{n}", b"a", durable=True)
        i = ids(world.effects)[-1]
        world.settle(n + 1, i, outcome=Outcome.NACK)
        world.settle(n + 1, i)
        world.disconnect(n + 1)
        world.tick(1)
        world.do(Prepare(7, 1, 0, f"t{n}", 3, [Publish(7, 1, 0, "r", ANYCAST, run_of(b"p"))]))
        world.do(Decide(7, 1, 0, f"t{n}", False))
        follow(standby, world)
    slot = standby._slot
    assert not slot.queues and not slot.prepared and not slot.addresses
    assert len(standby.snapshot()) <= 3


def test_an_engine_that_is_thrown_away_takes_its_queues_off_the_budget():
    world = World()
    budget = Budget(10)
    standby = Engine(7, world.settings, budget, EPOCH)
    world.publish("q", b"a", durable=True)
    world.publish("r", b"a", durable=True)
    follow(standby, world)
    assert budget.used == 2
    standby.discard()
    assert budget.used == 0
