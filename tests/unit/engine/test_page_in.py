"""Queues larger than their memory, marks, snapshots and restarts."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Disconnect, Publish
from broker.core.effects import Deliver
from broker.core.message import TRANSIENT
from broker.core.records import MetaRecord, RunRecord, SettleRecord

from .world import AUTO, CLIENT, INDIVIDUAL, MULTICAST, UNSET, World, again, bodies, closed, got, ids, run_of

SMALL = {"queue_memory_bytes": 60, "page_bytes": 24, "mark_messages": 8}


def fill(world: World, count: int, durable: bool = True, **more) -> None:
    for body in bodies(count):
        world.publish("q", body, durable=durable, **more)


@pytest.mark.parametrize("durable", [True, False])
def test_a_backlog_beyond_memory_is_positions_only_and_drains_in_order(durable):
    world = World(**SMALL)
    fill(world, 200, durable)
    queue = world.engine._slot.queues[1]
    assert queue.nbytes <= 60 and len(queue.pages.index) == 180 and world.queue()["paged"] == 180
    world.subscribe(1)
    assert got(world.effects) == bodies(200)
    assert not queue.pages.paging and world.queue()["paged"] == 0
    assert got(world.publish("q", b"live")) == [b"live"]


def test_transient_records_are_settled_without_being_written():
    world = World(**SMALL)
    fill(world, 40, durable=False)
    world.subscribe(1)
    spilled = [r.run for _, r in world.log if isinstance(r, RunRecord)]
    assert spilled and all(run.flags & TRANSIENT for run in spilled)
    settles = [r for _, r in world.log if isinstance(r, SettleRecord)]
    assert settles and not any(r.durable for r in settles)
    gone = {i for r in settles for a, b in r.spans for i in range(a, b + 1)}
    assert gone == {i for run in spilled for i in run.ids}


def test_a_topic_subscription_that_does_not_read_is_paged_too_and_never_settles_durably():
    world = World(**SMALL)
    world.subscribe(1, "q", routing=MULTICAST, room=1)
    world.subscribe(2, "q", routing=MULTICAST)
    fill(world, 60, routing=MULTICAST)
    assert got(world.effects, 2) == bodies(60)
    world.grant(1, 10_000)
    assert got(world.effects, 1) == bodies(60)
    assert not any(r.durable for _, r in world.log if isinstance(r, SettleRecord))


def test_one_fetch_at_a_time_and_ahead_of_need():
    world = World(auto_commit=False, **SMALL)
    for body in bodies(100):
        world.publish("q", body, durable=True)
        world.commit()
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=12)
    while world.engine.pending:
        world.commit()
    assert len(world.fetches) == 1 and world.queue()["ready"] > 0


def test_a_page_answered_after_the_queue_is_gone_does_nothing():
    world = World(auto_commit=False, auto_delete=False, **SMALL)
    world.subscribe(1, "t", routing=MULTICAST, queue="c.s", durable=True, room=1)
    for body in bodies(60):
        world.publish("t", body, routing=MULTICAST, durable=True)
    world.commit()
    world.grant(1, 40)
    while world.engine.pending:
        world.commit()
    assert world.fetches
    world.unsubscribe(1, address="t", delete="c.s")
    world.serve()
    assert world.stats() == [] and closed(world.effects) == []


def test_deleting_a_queue_settles_everything_in_the_log():
    world = World(**SMALL)
    world.subscribe(1, "t", routing=MULTICAST, queue="c.s", durable=True, room=1)
    for body in bodies(60):
        world.publish("t", body, routing=MULTICAST, durable=True)
    world.unsubscribe(1, address="t", delete="c.s")
    world.commit()
    world.restart()
    assert world.stats() == []


def test_what_cannot_have_been_delivered_is_not_marked_after_a_crash():
    world = World(**SMALL)
    fill(world, 30)
    world.restart()
    world.subscribe(1)
    assert [(body, redelivered) for body, _, redelivered in again(world.effects)] == [(b, False) for b in bodies(30)]


def test_a_delivery_waits_for_its_mark_and_a_crash_marks_no_more_than_that():
    world = World(auto_commit=False, mark_messages=8)
    for body in bodies(30):
        world.publish("q", body, durable=True)
    world.commit()
    assert got(world.subscribe(1, ack=INDIVIDUAL, credit_messages=3)) == []
    world.commit()
    assert got(world.effects) == bodies(3)
    world.restart()
    world.auto_commit = True
    world.settle_down()
    world.subscribe(2)
    world.settle_down()
    marked = [redelivered for *_, redelivered in again(world.effects)]
    assert got(world.effects) == bodies(30) and all(marked[:3]) and not any(marked[12:])


def test_live_messages_are_announced_by_their_own_record():
    world = World(auto_commit=False)
    world.subscribe(1, ack=INDIVIDUAL)
    world.commit()
    world.publish("q", b"a", durable=True)
    assert got(world.commit()) == [b"a"]
    record = next(r for _, r in world.log if isinstance(r, RunRecord))
    assert record.dispatched and not any(isinstance(r, MetaRecord) and r.kind == "mark" for _, r in world.log)
    world.auto_commit = True
    world.restart()
    world.subscribe(2)
    assert again(world.effects) == [(b"a", 0, True)]


@pytest.mark.parametrize(("calm", "count"), [(False, 1), (True, 0)])
def test_a_clean_stop_marks_only_what_was_out_before(calm, count):
    world = World(**SMALL)
    fill(world, 10)
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=2)
    world.do(Disconnect(7, 1, calm))
    world.restart(clean=True)
    world.subscribe(2)
    found = again(world.effects)
    assert [body for body, *_ in found] == bodies(10)
    assert [attempts for _, attempts, _ in found] == [count, count] + [0] * 8
    assert [redelivered for *_, redelivered in found] == [True, True] + [False] * 8


def test_a_suspect_stays_suspect_over_a_clean_restart():
    world = World(auto_commit=True, **SMALL)
    fill(world, 4)
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=4)
    world.restart()
    world.restart(clean=True)
    world.subscribe(2)
    assert [redelivered for *_, redelivered in again(world.effects)] == [True] * 4


def test_counts_and_delays_survive_a_restart():
    world = World(redelivery_delay_ms=500)
    fill(world, 3)
    world.subscribe(1, ack=INDIVIDUAL)
    world.settle(1, ids(world.effects)[1], outcome=Outcome.NACK)
    world.commit()
    world.restart()
    world.subscribe(2)
    assert got(world.effects) == [b"000", b"002"]
    assert again(world.tick(500)) == [(b"001", 1, True)]


def test_partly_settled_runs_come_back_without_the_settled_ones():
    world = World()
    world.publish("q", *bodies(6), durable=True)
    world.subscribe(1, ack=INDIVIDUAL)
    i = ids(world.effects)
    world.settle(1, i[0], i[3])
    world.commit()
    world.restart()
    assert world.queue()["ready"] + world.queue()["paged"] == 4
    world.subscribe(2, ack=AUTO)
    assert got(world.effects) == [b"001", b"002", b"004", b"005"]


def test_a_snapshot_replaces_all_earlier_records():
    world = World(redelivery_delay_ms=500)
    fill(world, 5)
    world.subscribe(1, ack=INDIVIDUAL)
    world.settle(1, ids(world.effects)[1], outcome=Outcome.NACK)
    world.subscribe(3, "t", routing=MULTICAST, queue="c.s", durable=True)
    kept = [(n, r) for n, r in world.log if not isinstance(r, MetaRecord)]
    world.log = [(0, record) for record in world.engine.snapshot()] + kept
    before = {q["name"]: q["routing"] for q in world.stats()}
    world.restart()
    assert {q["name"]: q["routing"] for q in world.stats()} == before
    world.subscribe(2)
    assert [(b, n) for b, n, _ in again(world.effects)] == [(b"%03d" % n, 0) for n in (0, 2, 3, 4)]
    assert again(world.tick(500)) == [(b"001", 1, True)]


def test_draining_never_passes_the_durable_mark_and_asks_for_the_next_one_in_time():
    world = World(auto_commit=False, mark_messages=8)
    for body in bodies(40):
        world.publish("q", body, durable=True)
    world.commit()
    world.subscribe(1, ack=INDIVIDUAL)
    commits = 0
    while world.engine.pending:
        world.commit()
        commits += 1
        marks = [
            r.data["id"] for n, r in world.log if isinstance(r, MetaRecord) and n <= world.committed and "id" in r.data
        ]
        assert max(ids(world.effects)) <= max(marks)
    assert got(world.effects) == bodies(40) and commits <= 6


def test_half_a_mark_before_its_end_the_next_one_is_asked_for():
    world = World(auto_commit=False, mark_messages=8)
    for body in bodies(40):
        world.publish("q", body, durable=True)
    world.commit()
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=5)
    world.commit()
    assert len(got(world.effects)) == 5 and world.engine.pending
    world.settle(1, *ids(world.effects))
    assert len(got(world.effects)) == 8, "what the second mark covers must not go out before it is durable"
    world.commit()
    assert len(got(world.effects)) == 10


# ── after a restart: pages are for those who take them ─────────────────────────────────────────────


def away(world: World, count: int) -> None:
    """So many durable subscriptions, none of which is here."""
    for n in range(1, count + 1):
        world.subscribe(n, "news", routing=MULTICAST, queue=f"me.{n}", durable=True)
        world.unsubscribe(n, address="news")


def test_after_a_restart_nothing_is_read_for_subscriptions_that_are_away():
    world = World()
    away(world, 20)
    for body in bodies(10):
        world.publish("news", body, routing=MULTICAST, durable=True)
    world.restart(clean=True)
    assert world.reads == 0
    world.publish("news", b"later", routing=MULTICAST, durable=True)
    assert world.reads == 0
    queues = world.engine.queues()
    assert sum(queue.nbytes for queue in queues) == 0 and all(len(queue.pages.index) == 11 for queue in queues)
    world.subscribe(1, "news", routing=MULTICAST, queue="me.1", durable=True)
    assert got(world.effects) == [*bodies(10), b"later"]
    assert {queue.name for queue in queues if not len(queue.pages.index)} == {"me.1"}


def test_what_expires_while_nobody_consumes_is_read_when_its_time_has_come_and_leaves():
    world = World()
    away(world, 2)
    for n, body in enumerate(bodies(4)):
        world.publish("news", body, routing=MULTICAST, durable=True, expires=world.now + 1000 * (1 + n % 2))
    world.restart(clean=True)
    world.publish("news", b"younger", routing=MULTICAST, durable=True, expires=world.now + 500)
    world.publish("news", b"stays", routing=MULTICAST, durable=True)
    world.tick(400)
    assert world.reads == 0
    world.tick(5000)
    world.tick(5000)
    assert [queue.count + queue.pages.count for queue in world.engine.queues()] == [1, 1]
    world.subscribe(1, "news", routing=MULTICAST, queue="me.1", durable=True)
    assert got(world.effects) == [b"stays"]


def test_what_was_scheduled_and_expires_is_read_too():
    world = World()
    world.subscribe(1, "q")
    world.unsubscribe(1)
    run = run_of(b"a", durable=True, expires=world.now + 2000)
    run.due = world.now + 1000
    world.do(Publish(7, 1, 0, "q", UNSET, run))
    world.publish("q", b"b", durable=True)
    world.restart(clean=True)
    world.tick(1500)
    world.tick(5000)
    world.tick(5000)
    world.subscribe(1)
    assert got(world.effects) == [b"b"]


def test_a_ring_that_is_too_long_is_cut_without_consumers_one_that_is_not_stays_where_it_is():
    world = World(ring_size=4)
    for body in bodies(4):
        world.publish("q", body, durable=True)
    world.restart(clean=True)
    assert world.reads == 0
    world.publish("q", b"new", durable=True)
    world.subscribe(1)
    assert got(world.effects) == [*bodies(4)[1:], b"new"]


def test_what_is_given_back_unread_in_the_order_of_its_client_is_a_run_in_order_of_ids():
    """Its client had got 2 before 1. Handed out as one run of 2 and 1, nobody found its sizes: the engine threw."""
    world = World()
    world.publish("q", b"a", b"bb", durable=True)
    world.restart(first_id=1 << 40)
    world.attach(1, held=[(2, 2), (1, 1)], ack=CLIENT)
    again = world.settle(1, 1, outcome=Outcome.NACK)
    assert got(again, 1) == [b"a", b"bb"]
    assert all(list(effect.run.ids) == sorted(effect.run.ids) for effect in again if isinstance(effect, Deliver))
