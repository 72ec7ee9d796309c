"""Consumers that come back: on the leader that was there before, and on a new one that has only the log."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Disconnect, Hold, Resume, Settle, Subscribe
from broker.core.errors import Code
from broker.core.message import TRANSIENT
from broker.core.spans import merged, spans_of
from broker.engine.queue.large_returns import BACK

from .leaders import fail_over, loaded, settled, spans
from .test_configure import configure
from .world import ANYCAST, AUTO, CLIENT, INDIVIDUAL, MULTICAST, World, again, bodies, done, got, ids, refused


@pytest.mark.parametrize("owed", [0, 179])
def test_what_is_granted_before_the_answer_does_not_count_twice(owed):
    """It came back with more under way than it has room for, and takes that meanwhile."""
    world = World()
    world.auto_commit = False
    world.attach(1, seq=5, room=1 - owed)
    for body in bodies(3):
        world.publish("q", body)
    world.grant(1, owed)
    assert got(world.effects) == [] and not done(world.effects)
    world.commit()
    assert got(world.effects) == bodies(1) and done(world.effects)


@pytest.mark.parametrize("leader", ["old", "new", "new, page read"])
@pytest.mark.parametrize("runs", [1, 3, 12])
def test_what_the_client_holds_is_its_own_again_and_the_rest_is_served(leader, runs):
    world, i = loaded(12, runs=runs)
    held = [i[7], i[1], i[2], i[10]]
    for number in (i[0], i[5]):
        world.settle(1, number)
    if leader != "old":
        fail_over(world, read_back=leader != "new")
    world.effects.clear()
    world.attach(1, spans(held), ack=INDIVIDUAL)
    world.settle_down()
    rest = [n for n in range(12) if n not in (0, 5, 7, 1, 2, 10)]
    assert [(body, marked) for body, _, marked in again(world.effects)] == [(b"%03d" % n, True) for n in rest]
    world.appended.clear()
    assert done(world.settle(1, *held, seq=4) + world.commit())[-1:] == [4]
    assert sorted(settled(world)) == [(i[1], i[2]), (i[7], i[7]), (i[10], i[10])]
    world.settle(1, *[i[n] for n in rest])
    assert world.queue()["delivering"] == 0 and world.queue()["ready"] == world.queue()["paged"] == 0


def test_who_comes_again_to_what_may_not_be_had_any_more_is_where_he_was():
    """Refused, its earlier attachment stayed: a consumer whom nobody knows, with all that it held."""
    world = World()
    world.attach(1, ack=INDIVIDUAL, seq=1)
    for body in bodies(3):
        world.publish("q", body)
    held = ids(world.effects)
    configure(world, addresses={"q": {"routing_types": "MULTICAST"}})
    world.effects.clear()
    assert refused(world.attach(1, spans(held[1:]), ack=INDIVIDUAL, seq=2)) == []
    world.settle_down()
    assert [body for body, *_ in again(world.effects)] == [b"000"]
    world.settle(1, *held)
    world.commit()
    queue = world.queue()
    assert (queue["consumers"], queue["ready"], queue["delivering"]) == (1, 0, 0)
    assert refused(world.attach(2, ack=INDIVIDUAL, seq=3)) == [Code.ROUTING_MISMATCH]


@pytest.mark.parametrize("other_first", [True, False])
def test_nobody_else_gets_what_a_client_holds(other_first):
    """Unless it was served before the client's edge had found the new leader: then it is marked."""
    world, i = loaded(4)
    fail_over(world)
    if other_first:
        world.subscribe(2, ack=INDIVIDUAL)
        world.settle_down()
        assert all(marked for *_, marked in again(world.effects))
    world.attach(1, [(i[0], i[3])], ack=INDIVIDUAL)
    if not other_first:
        world.subscribe(2)
    world.settle_down()
    assert got(world.effects, 2) == (bodies(4) if other_first else [])
    assert refused(world.settle(1, *i)) == [Code.NO_SUCH_DELIVERY] * other_first
    world.commit()
    if other_first:
        assert refused(world.settle(2, *i)) == []
        world.commit()
    world.restart()
    assert got(world.subscribe(3)) == [] and not world.fetches


@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("how", ["NACK", "lost", "DISCONNECT"])
def test_a_message_known_by_number_only_comes_back_at_the_head(how, snapshot):
    world, i = loaded(6, runs=2)
    world.settle(1, i[3], outcome=Outcome.NACK)
    fail_over(world, snapshot)
    world.effects.clear()
    world.attach(1, [(i[2], i[3]), (i[0], i[0])], ack=INDIVIDUAL, credit_messages=3, tries={i[3]: 1})
    assert got(world.effects) == []
    if how == "NACK":
        world.auto_commit = False
        world.settle(1, i[3], i[0], outcome=Outcome.NACK)
        world.publish("q", b"new", durable=True)
        assert got(world.effects) == []
        world.auto_commit = True
        world.settle_down()
        assert [body for body, *_ in again(world.effects)] == [b"000", b"001"]
        world.settle(1, *ids(world.effects))
        world.settle_down()
        assert (b"003", 2, True) in again(world.effects)
    else:
        failed = int(how == "lost")
        world.do(Disconnect(7, 1, calm=not failed))
        world.subscribe(2)
        world.settle_down()
        assert again(world.effects) == [
            (b"000", failed, True), (b"001", 0, True), (b"002", failed, True), (b"003", 1 + failed, True),
            (b"004", 0, True), (b"005", 0, True),
        ]  # fmt: skip


def test_a_rejected_one_is_read_back_and_dead_lettered():
    world, i = loaded(3)
    fail_over(world)
    world.attach(1, [(i[0], i[2])], ack=INDIVIDUAL)
    world.settle(1, i[1], outcome=Outcome.REJECT)
    world.settle_down()
    world.subscribe(2, "DLQ")
    assert [body[-3:] for body in got(world.effects, 2)] == [b"001"]
    assert world.queue()["delivering"] == 2


def test_too_many_deliveries_are_counted_over_the_fail_over():
    world, i = loaded(1, max_delivery_attempts=2)
    world.settle(1, i[0], outcome=Outcome.NACK)
    fail_over(world)
    world.attach(1, spans(i), ack=INDIVIDUAL)
    world.settle(1, i[0], outcome=Outcome.NACK)
    world.settle_down()
    assert world.queue("DLQ")["ready"] == 1


def test_a_delayed_nack_of_a_number_is_delivered_when_due():
    world, i = loaded(1)
    fail_over(world)
    world.attach(1, spans(i), ack=INDIVIDUAL)
    world.effects.clear()
    world.settle(1, i[0], outcome=Outcome.NACK, delay=50)
    world.settle_down()
    assert got(world.effects) == []
    assert again(world.tick(50)) == [(b"000", 1, True)]


@pytest.mark.parametrize("new_leader", [True, False])
def test_cumulative_acks_follow_the_order_the_client_saw(new_leader):
    world, i = loaded(5, ack=CLIENT)
    if new_leader:
        fail_over(world)
    world.attach(1, spans([i[3], i[0], i[4], i[1]]), ack=CLIENT, credit_messages=4)
    world.appended.clear()
    assert refused(world.settle(1, i[4])) == []
    assert sorted(settled(world)) == [(i[0], i[0]), (i[3], i[4])]
    assert refused(world.settle(1, i[0])) == [Code.NO_SUCH_DELIVERY]
    world.settle_down()
    assert got(world.effects)[-1] == b"002", "credit is back"


def test_what_is_gone_may_still_be_acknowledged_once_and_covers_what_came_before():
    world, i = loaded(3, ack=CLIENT)
    world.publish("q", b"not durable")
    lost = ids(world.effects)[-1]
    fail_over(world)
    world.attach(1, [(i[0], i[1]), (lost, lost), (i[2], i[2])], ack=CLIENT)
    assert refused(world.do(Hold(7, 1, 0, 1, [lost]))) == []
    world.appended.clear()
    assert done(world.do(Settle(7, 1, 9, 1, [lost], Outcome.RETURN)) + world.commit()) == [9]
    world.settle_down()
    assert [body for body, *_ in again(world.effects)] == [b"000", b"001"], "the RETURN covered them"
    assert refused(world.settle(1, lost)) == [Code.NO_SUCH_DELIVERY]
    assert refused(world.settle(1, i[2])) == []
    assert settled(world) == [(i[2], i[2])]


def test_held_messages_count_against_both_windows():
    world, i = loaded(4, runs=4)
    world.publish("q", *bodies(4), durable=True)
    fail_over(world)
    world.effects.clear()
    world.attach(1, [(i[0], i[3])], ack=INDIVIDUAL, credit_messages=5, credit_bytes=16, overhead=1)
    world.settle_down()
    assert got(world.effects) == [], "4 × (3 + 1) bytes are out"
    world.settle(1, i[0])
    world.settle_down()
    assert got(world.effects) == [b"000"]
    world.settle(1, i[1])
    world.settle_down()
    assert got(world.effects) == [b"000", b"001"]


@pytest.mark.parametrize("new_leader", [True, False])
def test_what_was_taken_in_auto_mode_is_settled_and_the_rest_comes_again(new_leader):
    world, i = loaded(6, ack=AUTO, runs=3)
    world.confirm(1, 0)
    if new_leader:
        fail_over(world)
    world.effects.clear()
    world.appended.clear()
    world.attach(1, taken=[(i[0], i[0]), (i[2], i[3])])
    world.settle_down()
    assert sorted(settled(world)) == [(i[0], i[0]), (i[2], i[3])]
    assert [(body, marked) for body, _, marked in again(world.effects)] == [
        (b"001", True), (b"004", True), (b"005", True)
    ]  # fmt: skip
    for _ in range(3):
        world.confirm(1, 1)
    world.commit()
    world.restart()
    assert world.stats()[0]["paged"] == 0


def test_a_tied_queue_outlives_a_broken_stream_with_everything_in_it():
    world = World()
    world.attach(1, address="t", routing=MULTICAST, ack=INDIVIDUAL, credit_messages=2)
    for body in bodies(4):
        world.publish("t", body, routing=MULTICAST)
    i = ids(world.effects)
    world.effects.clear()
    world.attach(1, spans(i[1:]), address="t", routing=MULTICAST, ack=INDIVIDUAL, credit_messages=9)
    assert again(world.effects) == [(b"000", 0, True), (b"002", 0, False), (b"003", 0, False)]
    assert refused(world.settle(1, i[1])) == []
    assert len(world.stats()) == 1 and world.queue("t::1")["consumers"] == 1
    world.disconnect(1)
    assert world.stats() == []


def test_a_consumer_that_had_ended_takes_back_what_nobody_got_meanwhile():
    world, i = loaded(5, redelivery_delay_ms=100)
    world.settle(1, i[4], outcome=Outcome.NACK)
    world.disconnect(1)
    world.attach(1, [(i[1], i[2]), (i[4], i[4])], ack=INDIVIDUAL)
    assert got(world.effects)[5:] == [b"000", b"003"]
    assert world.queue()["delayed"] == 0
    assert refused(world.settle(1, i[1], i[2], i[4])) == []
    world.commit()
    world.restart()
    world.subscribe(2)
    world.settle_down()
    assert got(world.effects) == [b"000", b"003"]


def test_a_page_that_is_being_read_does_not_bring_held_messages():
    world, i = loaded(8)
    fail_over(world)
    world.auto_commit = False
    world.subscribe(2, ack=INDIVIDUAL)
    assert world.fetches and world.queue()["paged"] == 8
    world.attach(1, [(i[2], i[5])], ack=INDIVIDUAL, credit_messages=4)
    world.auto_commit = True
    world.settle_down()
    assert got(world.effects) == [b"000", b"001", b"006", b"007"]
    assert world.queue()["delivering"] == 8


def test_sparse_runs_after_a_compaction():
    world, i = loaded(6, runs=6)
    for _, record in world.log:
        if hasattr(record, "run") and not record.run.flags & TRANSIENT and len(record.run.ids) == 6:
            kept = [0, 1, 3, 5]
            record.run.ids = [i[n] for n in kept]
            record.run.records = [record.run.records[n] for n in kept]
            world.runs[record.run.position] = record.run
    fail_over(world)
    world.attach(1, [(i[0], i[5])], ack=INDIVIDUAL)
    world.appended.clear()
    assert refused(world.settle(1, *i)) == []
    assert settled(world) == [(i[0], i[1]), (i[3], i[3]), (i[5], i[5])]


def test_a_refused_resume_leaves_the_old_attachment():
    world, i = loaded(2)
    world.subscribe(5, "t", routing=MULTICAST, queue="c.s", durable=True)
    effects = world.attach(1, spans(i), ack=INDIVIDUAL, address="other", queue="c.s", durable=True, routing=MULTICAST)
    assert refused(effects) == [Code.SUBSCRIPTION_CONFLICT]
    assert refused(world.settle(1, *i)) == []


def test_pages_already_served_to_others_are_not_looked_for_again():
    world, i = loaded(12, page_bytes=9, queue_memory_bytes=9)
    fail_over(world)
    world.effects.clear()
    world.subscribe(2, ack=INDIVIDUAL, credit_messages=4)
    world.settle_down()
    assert got(world.effects) == bodies(4)
    world.attach(1, [(i[0], i[2])], ack=INDIVIDUAL, credit_messages=3)
    world.appended.clear()
    assert refused(world.settle(1, i[0], i[1], i[2])) == [Code.NO_SUCH_DELIVERY] and settled(world) == []
    world.settle(2, *i[:4])
    world.subscribe(3)
    world.settle_down()
    assert sorted(got(world.effects)[4:]) == bodies(12)[4:]


def test_what_came_back_in_the_same_turn_is_found():
    world, i = loaded(3)
    back = Subscribe(7, 1, 0, 1, "q", ANYCAST, INDIVIDUAL)
    back.resume = Resume([(i[1], i[1])], [])
    effects = world.do(Disconnect(7, 1), back)
    assert [body for body, *_ in again(effects)] == [b"000", b"002"]
    assert refused(world.settle(1, *i)) == []


def test_a_repeated_subscribe_is_answered_when_its_queue_counts_and_gets_nothing_before():
    world = World()
    world.auto_commit = False
    first = Subscribe(7, 1, 4, 1, "t", MULTICAST, INDIVIDUAL, queue="sub", durable=True)
    assert done(world.do(first)) == []
    second = Subscribe(7, 1, 5, 1, "t", MULTICAST, INDIVIDUAL, queue="sub", durable=True)
    second.resume = Resume([], [])
    assert done(world.do(second)) == []
    world.publish("t", b"body", durable=True, routing=MULTICAST)
    world.grant(1, 10)
    assert got(world.effects) == [] and done(world.commit()) == [4, 5]
    world.settle_down()
    assert got(world.effects) == [b"body"]


@pytest.mark.parametrize("consumer", [0, 1])
def test_a_repeated_end_of_a_durable_subscription_is_answered_when_the_first_counts(consumer):
    world = World()
    world.do(Subscribe(7, 1, 0, 1, "t", MULTICAST, INDIVIDUAL, queue="sub", durable=True))
    if not consumer:
        world.disconnect(1)
    world.auto_commit = False
    for seq in (4, 5):
        effects = world.unsubscribe(consumer, session=1, seq=seq, address="t", delete="sub")
        assert done(effects) == [] and refused(effects) == []
    effects = world.commit()
    assert done(effects) == [4] and refused(effects) == [Code.NO_SUCH_SUBSCRIPTION]


@pytest.mark.parametrize("leader", ["old", "new", "on its way back"])
@pytest.mark.parametrize("ack", [CLIENT, AUTO])
@pytest.mark.parametrize("kind", [{}, {"non_destructive": True}])
@pytest.mark.parametrize("span", [(1, 1 << 40), (0, (1 << 64) - 1)])
def test_two_numbers_of_an_edge_are_not_walked(leader, ack, kind, span):
    """They stopped the owner for hours, or took all its memory. What is here of them is the consumer's."""
    world, i = loaded(3 * BACK, ack=CLIENT, **kind)
    world.settle(1, i[0])
    if leader == "new":
        fail_over(world)
    elif leader == "on its way back":
        world.in_pieces = True
        world.settle(1, i[-1], outcome=Outcome.NACK, delay=60_000)
        assert kind or world.engine.shown.queues[1].returning[0].left
    world.attach(1, [span], [span] if ack is AUTO else (), ack=ack, firm=[span], credit_messages=0)
    if ack is CLIENT and not kind:
        here = i[1:] if leader != "on its way back" else i[1 + BACK :]
        ledger = world.engine.shown.consumers[1].ledger
        assert [n for n in ledger if n in here] == here and len(ledger) < len(i)
        assert refused(world.settle(1, i[-1])) == []
        world.settle_down()
        assert spans_of(i) == merged(settled(world)) or leader != "old"


def test_of_more_than_a_client_may_have_its_order_counts_all_the_same():
    world, i = loaded(6, ack=CLIENT)
    fail_over(world)
    world.attach(1, [(i[4], i[5]), (i[0], i[1]), (i[5] + 1, 1 << 40)], ack=CLIENT, credit_messages=0)
    assert list(world.engine.shown.consumers[1].ledger) == [i[4], i[5], i[0], i[1]]
    world.settle(1, i[5])
    assert settled(world) == [(i[4], i[5])]
