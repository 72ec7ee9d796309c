"""Messages that are delivered later: when, in which order, and what survives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.config.settings import EngineSettings
from broker.core.commands import Decide, Prepare, Publish
from broker.core.errors import Code
from broker.core.message import UNIQUE
from broker.core.records import RunRecord
from broker.engine.engine import Engine
from broker.engine.queue.due_times import Agenda

from .test_following import follow, kinds
from .world import ANYCAST, INDIVIDUAL, MULTICAST, UNSET, World, again, done, got, ids, refused, run_of


def later(world, delay, *bodies, seq=0, expires=0, durable=True, address="q", routing=ANYCAST):
    """One SEND with AMQ_SCHEDULED_DELAY."""
    run = run_of(*bodies, durable=durable, expires=expires)
    run.due = world.now + delay
    return world.do(Publish(7, 1, seq, address, routing, run))


@pytest.mark.parametrize("durable", [True, False])
def test_it_comes_when_it_is_due_and_not_before(durable):
    world = World()
    world.subscribe(1)
    later(world, 500, b"late", durable=durable)
    assert got(world.publish("q", b"now")) == [b"now"]
    assert world.queue()["scheduled"] == 1
    assert got(world.tick(499)) == []
    assert got(world.tick(1)) == [b"late"]
    assert (world.queue()["scheduled"], world.engine.due) == (0, 0)


def test_order_is_by_time_and_then_as_they_came():
    world = World()
    for delay, body in [(300, b"c"), (100, b"a"), (300, b"d"), (200, b"b")]:
        later(world, delay, body)
    world.publish("q", b"0", durable=True)
    world.tick(1000)
    assert got(world.subscribe(1)) == [b"0", b"a", b"b", b"c", b"d"]


def test_a_time_in_the_past_is_now():
    world = World()
    world.subscribe(1)
    assert got(later(world, -5, b"a")) == [b"a"]


def test_the_receipt_waits_for_the_disk():
    world = World(auto_commit=False)
    assert done(later(world, 1000, b"a", seq=3)) == []
    assert done(world.commit()) == [3]


@pytest.mark.parametrize("clean", [True, False])
def test_it_survives_a_restart_and_is_no_redelivery(clean):
    world = World(mark_messages=2)
    world.subscribe(1)
    later(world, 500, b"late")
    for n in range(5):
        world.publish("q", b"%d" % n, durable=True)
    world.restart(clean)
    world.subscribe(2)
    assert world.queue()["scheduled"] == 1
    assert again(world.tick(499)) == []
    assert again(world.tick(1)) == [(b"late", 0, False)]


def test_what_was_due_may_have_been_delivered_before_the_crash():
    world = World()
    later(world, 100, b"a")
    later(world, 900, b"b")
    world.tick(100)
    world.subscribe(1, ack=INDIVIDUAL)
    world.restart()
    world.restart(clean=True)
    assert again(world.subscribe(2)) == [(b"a", 0, True)]
    assert again(world.tick(800)) == [(b"b", 0, False)]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", [{}, {"last_value": True}])
def test_what_was_due_before_a_restart_comes_by_its_time_and_where_it_stood(clean, kind):
    world = World(**kind)
    for delay, body in [(300, b"3"), (100, b"1"), (200, b"2"), (900, b"9")]:
        later(world, delay, body)
    world.publish("q", b"0", durable=True)
    world.tick(150)
    world.publish("q", b"1.5", durable=True)
    world.tick(350)
    world.publish("q", b"5", durable=True)
    world.restart(clean)
    world.engine.configure(world.settings)
    world.restart(clean)
    world.subscribe(1, ack=INDIVIDUAL)
    assert got(world.effects) == [b"0", b"1", b"1.5", b"2", b"3", b"5"]
    assert got(world.tick(400)) == [b"9"]
    held = ids(world.effects)
    world.restart(first_id=1 << 40)
    world.auto_commit = False  # nothing is read back yet
    world.attach(1, held=[(held[4], held[4]), (held[1], held[1])], ack=INDIVIDUAL)
    world.settle(1, held[4], held[1])
    world.auto_commit = True
    world.settle_down()
    world.subscribe(2, credit_messages=100)
    world.disconnect(1)
    assert set(got(world.effects)) == {b"0", b"1.5", b"2", b"5", b"9"}


def test_who_holds_it_holds_it_still_under_a_leader_whose_clock_is_behind():
    world = World()
    world.subscribe(1, ack=INDIVIDUAL)
    later(world, 100, b"a")
    [i] = ids(world.tick(100))
    world.now -= 50
    world.restart(first_id=1 << 40)
    world.attach(1, held=[(i, i)], ack=INDIVIDUAL)
    assert done(world.settle(1, i, seq=5)) == [5]
    world.tick(1000)
    assert got(world.subscribe(2)) == []


def test_nothing_is_handed_out_before_the_log_knows_that_it_is_due():
    world = World(auto_commit=False)
    world.subscribe(1)
    world.commit()
    later(world, 100, b"a")
    world.commit()
    assert (got(world.tick(100)), world.fetches) == ([], [])
    assert world.engine.due == 0  # the disk wakes it, no clock
    world.commit()
    world.serve()
    assert got(world.effects) == [b"a"]


def test_it_expires_while_it_waits():
    world = World(expiry_address="gone")
    world.subscribe(1)
    world.subscribe(2, "gone")
    later(world, 500, b"a", expires=world.now + 200)
    assert len(got(world.tick(200), 2)) == 1
    assert got(world.tick(500)) == []


def test_a_queue_with_nothing_but_scheduled_messages_is_not_deleted():
    world = World()
    later(world, 500, b"a")
    world.subscribe(1)
    world.disconnect(1)
    world.tick(100)
    assert world.queue() is not None
    world.subscribe(2)
    assert got(world.tick(400)) == [b"a"]


def test_subscribers_of_a_topic_get_it_when_it_is_due():
    world = World()
    world.subscribe(1, "t", routing=MULTICAST)
    later(world, 100, b"a", address="t", routing=MULTICAST)
    world.disconnect(1)
    world.subscribe(2, "t", routing=MULTICAST)
    later(world, 100, b"b", address="t", routing=MULTICAST)
    assert got(world.tick(100)) == [b"b"]


def test_a_transaction_over_slots_keeps_the_time():
    world = World()
    world.subscribe(1)
    run = run_of(b"a", durable=True)
    run.due = world.now + 500
    world.do(Prepare(7, 1, 0, "t", 3, [Publish(7, 1, 0, "q", ANYCAST, run)]))
    world.restart()
    world.subscribe(1)
    world.do(Decide(7, 1, 0, "t", True))
    assert got(world.tick(499)) == []
    assert got(world.tick(1)) == [b"a"]


def test_memory_holds_no_bodies_and_many_come_out_step_by_step():
    world = World()
    for n in range(5000):
        later(world, 100 + n % 3, b"x" * 100)
    assert (world.queue()["bytes"], world.queue()["ready"]) == (0, 0)
    world.subscribe(1)
    world.tick(1000)
    while world.engine.due:
        world.tick(0)
    assert len(got(world.effects)) == 5000


def test_a_snapshot_says_what_was_due():
    world = World()
    later(world, 100, b"a")
    later(world, 200, b"b")
    world.tick(100)
    world.log = [(n, r) for n, r in world.log if isinstance(r, RunRecord)]
    world.log += [(0, record) for record in world.engine.snapshot()]
    world.restart()
    assert again(world.subscribe(1)) == [(b"a", 0, True)]
    assert again(world.tick(100)) == [(b"b", 0, False)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60), st.integers(1, 3), st.booleans()), max_size=20),
       st.lists(st.integers(1, 30), max_size=6))  # fmt: skip
def test_an_agenda_is_a_sorted_list(entries, steps):
    """Against a model: sorted by (time, id), taken from the front."""
    agenda, model, first = Agenda(), [], 1
    for due, expires, count, dies in entries:
        run = run_of(*[b"x"] * count, expires=expires + 1 if dies else 0)
        run.ids, run.due, run.position = range(first, first + count), due + 1, first * 10
        agenda.add(run)
        model.append((min(run.due, run.expires or run.due), first, first * 10, count))
        first += count
    now = 0
    for step in steps:
        now += step
        expected = sorted(e for e in model if e[0] <= now)[:4]
        assert [(p, n) for p, n, _ in agenda.pop(now, 4)] == [e[2:] for e in expected]
        model = [e for e in model if e not in expected]
        assert (agenda.count, len(agenda)) == (sum(e[3] for e in model), len(model))
        assert agenda.nbytes >= 0 and (agenda.nbytes > 0) == bool(model)


def test_a_follower_knows_what_was_due():
    """Also of duplicate ids and of what is on its way elsewhere."""
    world = World(addresses={"q": {"retroactive_messages": 2}})
    standby = Engine(7, world.settings)
    for delay in (100, 900):
        run = run_of(b"_AMQ_DUPL_ID:%d\n\na\0" % delay, durable=True)
        run.due, run.flags = world.now + delay, run.flags | UNIQUE
        world.do(Publish(7, 1, 0, "q", UNSET, run))
    world.tick(100)
    follow(standby, world)
    assert sorted(kinds(standby), key=repr) == sorted(kinds(world.engine), key=repr)
    assert {"due", "known", "queue"} <= {kind for kind, _ in kinds(standby)}


def test_it_counts_for_the_limits_of_its_address_also_after_new_settings():
    world = World(addresses={"q": {"max_size_messages": 1, "full_policy": "FAIL"}})
    later(world, 100, b"a")
    assert refused(world.publish("q", b"b")) == [Code.ADDRESS_FULL]
    world.engine.configure(EngineSettings())
    world.engine.configure(world.settings)
    assert refused(world.publish("q", b"c")) == [Code.ADDRESS_FULL]
    world.subscribe(1)
    world.tick(100)
    assert not refused(world.publish("q", b"d"))


def test_everybody_sees_what_was_scheduled_once_where_messages_stay():
    world = World(non_destructive=True)
    later(world, 1000, b"a", b"b", b"c")
    world.publish("q", b"now")
    world.tick(1001)
    world.effects.clear()
    seen = []
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    for _ in range(6):
        effects, world.effects = world.effects, []
        seen += got(effects)
        for i in ids(effects):
            world.settle(1, i)
    assert seen == [b"a", b"b", b"c", b"now"]


@pytest.mark.parametrize("credit", [1, 11, 1000])
def test_what_was_scheduled_and_is_read_ahead_for_a_consumer_does_not_come_to_it_again(credit):
    world = World(non_destructive=True, ring_size=12, queue_memory_bytes=1000, page_bytes=300)
    wanted = [b"%0100d" % n for n in range(32)]
    for body in wanted[:10]:
        world.publish("q", body)
    later(world, 1000, *wanted[10:12])
    world.tick(1001)
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=credit)
    for body in wanted[12:]:
        world.settle(1, *ids(world.effects)[-1:])
        world.publish("q", body)
    for _ in range(40):
        world.settle(1, *[i for i in world.engine._slot.consumers[1].ledger])
    seen = got(world.effects)
    assert seen == wanted if credit == 1000 else len(seen) == len(set(seen)) and seen[-1] == wanted[-1]
