"""What comes back: at the head, counted and marked, later and later, and after too many attempts not at all."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.effects import Deliver
from broker.core.message import ESCAPED
from broker.core.records import GroupRecord, MetaRecord

from .test_settle import leave, loaded, settles
from .world import CLIENT, INDIVIDUAL, UNSET, World, again, done, got, ids


def test_nack_comes_again_at_the_head_counted_and_marked():
    world, i = loaded(2)
    world.publish("q", b"new")
    world.effects.clear()
    assert again(world.settle(1, i[0], outcome=Outcome.NACK)) == [(b"000", 1, True)]
    assert again(world.settle(1, i[0], outcome=Outcome.NACK)) == [(b"000", 2, True)]
    assert world.engine.counters()["nacked"] == 2 and world.engine.counters()["redelivered"] == 2


def test_nack_is_cumulative_in_client_mode():
    world, i = loaded(3, ack=CLIENT)
    assert [body for body, *_ in again(world.settle(1, i[1], outcome=Outcome.NACK))] == [b"000", b"001"]


def test_the_delay_grows_and_is_bounded_and_the_command_may_override_it():
    world, i = loaded(1, redelivery_delay_ms=100, redelivery_multiplier=2.0, max_redelivery_delay_ms=300)
    for wait in (100, 200, 300, 300):
        world.settle(1, i[0], outcome=Outcome.NACK)
        assert got(world.tick(wait - 1)) == [] and world.queue()["delayed"] == 1
        assert got(world.tick(1)) == [b"000"]
    world.settle(1, i[0], outcome=Outcome.NACK, delay=5)
    assert got(world.tick(5)) == [b"000"]
    assert got(world.settle(1, i[0], outcome=Outcome.NACK, delay=0)) == [b"000"]


def test_the_bound_of_the_delay_is_ten_times_the_first_unless_set():
    world, i = loaded(1, redelivery_delay_ms=10, redelivery_multiplier=1e200, max_delivery_attempts=-1)
    for wait in (10, 100, 100, 100):
        world.settle(1, i[0], outcome=Outcome.NACK)
        assert got(world.tick(wait - 1)) == [] and got(world.tick(1)) == [b"000"]


@pytest.mark.parametrize("durable", [True, False])
def test_too_many_attempts_go_to_the_dead_letter_address_with_their_origin(durable):
    world, i = loaded(2, durable=durable, max_delivery_attempts=2)
    world.subscribe(2, "DLQ", routing=UNSET)
    world.settle(1, i[0], outcome=Outcome.NACK)
    world.effects.clear()
    effects = world.settle(1, i[0], outcome=Outcome.NACK, seq=4)
    (dead,) = [e.run for e in world.effects if isinstance(e, Deliver)]
    frame = dead.lines + dead.records[0]
    assert frame.startswith(b"_AMQ_ORIG_ADDRESS:q\n_AMQ_ORIG_QUEUE:q\ndead-letter-reason:delivery-limit\n")
    assert b"_AMQ_ORIG_MESSAGE_ID:%d\n" % i[0] in frame and frame.endswith(b"000")
    assert dead.nbytes == len(frame) and dead.attempts == 0 and not dead.expires
    assert done(effects) == [4] and world.queue()["delivering"] == 1
    groups = [g for g in world.appended if isinstance(g, GroupRecord)]
    assert len(groups) == durable
    if durable:
        assert {type(r).__name__ for r in groups[0].records} >= {"RunRecord", "SettleRecord"}
    assert world.engine.counters()["dead_lettered"] == 1


def test_reject_is_a_dead_letter_at_once_and_return_never_waits():
    world, i = loaded(3, redelivery_delay_ms=1000)
    world.settle(1, i[0], outcome=Outcome.REJECT)
    assert world.queue("DLQ")["ready"] == 1
    assert again(world.settle(1, i[1], outcome=Outcome.RETURN)) == [(b"001", 1, True)]


def test_without_a_dead_letter_address_the_message_is_dropped():
    world, i = loaded(1, durable=True, dead_letter_address="")
    world.settle(1, i[0], outcome=Outcome.REJECT)
    assert settles(world) == [[(i[0], i[0])]] and world.queue("DLQ") is None


def test_a_consumer_that_ends_over_and_over_dead_letters_too():
    world, _ = loaded(1, max_delivery_attempts=2)
    world.disconnect(1)
    world.subscribe(2, ack=INDIVIDUAL)
    world.disconnect(2)
    assert world.queue("DLQ")["ready"] == 1 and world.queue()["ready"] == 0


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("end", ["unsubscribe", "disconnect"])
def test_one_that_ends_in_order_has_not_failed_and_nothing_is_counted(end, durable):
    """Who takes one message and goes, over and over, has no fault to find with those it was handed ahead."""
    world, _ = loaded(2, max_delivery_attempts=2, durable=durable)
    out_before = [(b"000", 0, True), (b"001", 0, True)]
    for consumer in range(1, 6):
        world.effects.clear()
        effects = world.subscribe(consumer, ack=INDIVIDUAL) if consumer > 1 else []
        assert again(effects) == (out_before if consumer > 1 else [])
        world.appended.clear()
        leave(world, end, consumer)
        counted = [r for r in world.appended if isinstance(r, MetaRecord) and r.kind == "count"]
        assert len(counted) == (durable and consumer == 1), "said once: it comes again"
    if durable:
        world.commit()
        world.restart()
    world.effects.clear()
    world.subscribe(9, ack=INDIVIDUAL)
    world.settle_down()
    assert again(world.effects) == out_before
    first = ids(world.effects)[0]
    assert again(world.settle(9, first, outcome=Outcome.NACK)) == [(b"000", 1, True)]
    assert again(world.settle(9, first, outcome=Outcome.NACK)) == []
    assert world.queue("DLQ")["ready"] == 1, "failures count as ever, and they alone"


@pytest.mark.parametrize("snapshot", [True, False])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("first", ["unsubscribe", "NACK"])
def test_that_it_was_out_before_and_how_often_in_vain_survive_each_other(first, clean, snapshot):
    """An orderly return before or behind a failure changes nothing of its count, whoever reads the log."""
    world, i = loaded(2, durable=True)
    if first == "NACK":
        world.settle(1, i[0], outcome=Outcome.NACK)
        world.unsubscribe(1)
    else:
        world.unsubscribe(1)
        world.subscribe(2, ack=INDIVIDUAL)
        world.settle(2, i[0], outcome=Outcome.NACK)
        world.unsubscribe(2)
    world.commit()
    for _ in range(2):  # nor does a second one of the log
        if snapshot:
            kept = [(n, r) for n, r in world.log if not isinstance(r, MetaRecord)]
            world.log = [(0, record) for record in world.engine.snapshot()] + kept
        world.restart(clean=clean)
    world.effects.clear()
    world.subscribe(3, ack=INDIVIDUAL)
    world.settle_down()
    assert again(world.effects) == [(b"000", 1, True), (b"001", 0, True)]


def test_names_with_special_bytes_are_escaped_in_the_origin():
    world = World()
    world.subscribe(1, "a:b", ack=INDIVIDUAL)
    world.publish("a:b", b"x")
    world.subscribe(2, "DLQ")
    world.settle(1, *ids(world.effects, 1), outcome=Outcome.REJECT)
    (dead,) = [e.run for e in world.effects if isinstance(e, Deliver) and e.consumer == 2]
    assert b"_AMQ_ORIG_ADDRESS:a\\cb\n" in dead.lines and dead.flags & ESCAPED


@pytest.mark.parametrize("ack", [CLIENT, INDIVIDUAL])
def test_a_message_that_cannot_be_read_goes_to_the_dead_letters_alone_and_from_there_for_good(ack):
    world = World(dead_letter_address="DLQ")
    world.subscribe(1, ack=ack, credit_messages=3)
    for body in (b"a", b"b", b"c", b"d"):
        world.publish("q", body, durable=True)
    first, bad, last = ids(world.effects)
    world.effects.clear()
    world.settle(1, bad, outcome=Outcome.UNREADABLE)
    assert got(world.effects) == [b"d"]  # its credit has come back
    assert world.queue("DLQ")["ready"] == 1
    world.settle(1, bad, 99, outcome=Outcome.UNREADABLE)  # not held: nothing
    for i in (first, last) if ack is INDIVIDUAL else (last,):
        world.settle(1, i)
    assert world.queue()["delivering"] == 1
    world.effects.clear()
    world.subscribe(2, "DLQ", ack=ack)
    [letter] = ids(world.effects)
    world.settle(2, letter, outcome=Outcome.UNREADABLE)
    assert world.queue("DLQ") is None or not sum(world.queue("DLQ")[n] for n in ("ready", "delivering", "paged"))


@pytest.mark.parametrize("unread", [False, True])
def test_dead_letters_that_nobody_takes_weigh_what_they_take(unread):
    """Those of a full address wait for days, in memory, and counted nothing."""
    world = World(max_delivery_attempts=1, dead_letter_address="dead")
    memory, size = world.engine.shown.budget.memory, 10_000
    world.subscribe(1, ack=CLIENT)
    world.publish("q", *[b"x" * size] * 20, durable=True)
    held = ids(world.effects)
    if unread:
        world.restart(first_id=1 << 40)
        world.attach(1, held=[(held[0], held[-1])], ack=CLIENT)
        memory = world.engine.shown.budget.memory
        assert memory.queues < 20 * size
    moves = []
    finish = world.finish

    def waits(turn):
        world.engine.flush(turn)
        moves.extend(turn.take_moves())
        return finish(turn)

    world.finish = waits
    world.settle(1, held[-1], outcome=Outcome.REJECT)
    world.settle_down()
    assert sum(len(move.ids) for move in moves) == 20 and 20 * size < memory.queues < 22 * size
    for move in moves:
        turn = world.turn()
        world.engine.moved(move, turn)
        finish(turn)
    assert memory.queues == sum(queue.weight for queue in world.engine.queues()) < 1000
