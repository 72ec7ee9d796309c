"""ACK, NACK, return, hold, redelivery, dead letters, expiry."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Disconnect, Hold, Publish, Settle
from broker.core.errors import Code, RefusedError
from broker.core.records import SettleRecord

from .world import ANYCAST, AUTO, CLIENT, INDIVIDUAL, World, again, done, got, ids, refused, run_of


def loaded(count: int, ack=INDIVIDUAL, durable: bool = False, **more) -> tuple[World, list[int]]:
    world = World(**more)
    world.subscribe(1, ack=ack)
    world.publish("q", *[b"%03d" % n for n in range(count)], durable=durable)
    numbers = ids(world.effects)
    world.effects.clear()
    world.appended.clear()
    return world, numbers


def settles(world: World) -> list[list[tuple[int, int]]]:
    return [list(r.spans) for r in world.appended if isinstance(r, SettleRecord)]


def test_individual_acks_touch_only_the_named_ones_and_contiguous_ids_are_one_span():
    world, i = loaded(6, durable=True)
    world.auto_commit = False
    assert done(world.settle(1, i[4], i[0], i[1], seq=3)) == []
    assert settles(world) == [[(i[0], i[1]), (i[4], i[4])]]
    assert done(world.commit()) == [3]
    assert world.queue()["delivering"] == 3


def test_client_mode_acks_everything_before():
    world, i = loaded(6, ack=CLIENT, durable=True)
    world.settle(1, i[3])
    assert settles(world) == [[(i[0], i[3])]]
    world.settle(1, i[5])
    assert world.queue()["delivering"] == 0


def test_acks_of_non_durable_messages_write_nothing_and_answer_at_once():
    world, i = loaded(3)
    assert done(world.settle(1, i[0], seq=1)) == [1] and world.appended == []


@pytest.mark.parametrize("ack", [CLIENT, INDIVIDUAL])
def test_an_unknown_or_repeated_id_refuses_the_whole_command(ack):
    world, i = loaded(3, ack=ack)
    for wrong in ([i[0], 999], [999, i[0]], [i[0], i[0]]):
        assert refused(world.settle(1, *wrong, seq=1)) == [Code.NO_SUCH_DELIVERY]
    assert refused(world.settle(1, i[0], session=5)) == [Code.NO_SUCH_DELIVERY]
    assert refused(world.settle(6, i[0])) == [Code.NO_SUCH_DELIVERY]
    assert world.queue()["delivering"] == 3
    assert refused(world.settle(1, i[2])) == []


def test_a_second_cumulative_ack_of_something_covered_is_refused():
    world, i = loaded(4, ack=CLIENT)
    assert refused(world.settle(1, i[2], i[1])) == [Code.NO_SUCH_DELIVERY]
    assert refused(world.settle(1, i[1], i[2])) == []
    assert world.queue()["delivering"] == 1


def test_acks_from_the_front_of_a_long_ledger_stay_cheap_and_right():
    world, i = loaded(5000)
    for number in i:
        assert refused(world.settle(1, number)) == []
    assert world.queue()["delivering"] == 0


def leave(world, end, consumer):
    if end == "unsubscribe":
        world.unsubscribe(consumer)
    else:
        world.do(Disconnect(7, consumer, calm=True))


def test_hold_gives_credit_back_and_keeps_others_away():
    world = World()
    world.subscribe(1, ack=CLIENT, credit_messages=2)
    world.publish("q", b"a", b"b", b"c", b"d")
    i = ids(world.effects)
    assert got(world.do(Hold(7, 1, 0, 1, [i[1]]))) == [b"c", b"d"]
    assert refused(world.do(Hold(7, 1, 0, 1, [i[1]]))) == [Code.NO_SUCH_DELIVERY]
    assert refused(world.settle(1, i[1])) == refused(world.settle(1, i[0])) == [Code.NO_SUCH_DELIVERY]
    assert world.queue()["delivering"] == 4


def test_a_transaction_settles_what_it_holds_and_only_that():
    world, i = loaded(6, ack=CLIENT)
    world.do(Hold(7, 1, 0, 1, [i[1]]))
    world.do(Hold(7, 1, 0, 1, [i[3]]))
    part = Settle(7, 1, 0, 1, [i[3]])
    world.engine.check(part, {})
    world.do(part)
    assert world.queue()["delivering"] == 4
    assert refused(world.settle(1, i[1])) == [Code.NO_SUCH_DELIVERY]
    with pytest.raises(RefusedError):
        world.engine.check(Settle(7, 1, 0, 1, [i[3]]), {})
    world.effects.clear()
    assert [body for body, *_ in again(world.settle(1, i[1], outcome=Outcome.RETURN))] == [b"000", b"001"]


def test_what_was_held_goes_back_when_the_session_ends_and_a_late_return_is_harmless():
    world, i = loaded(2)
    world.do(Hold(7, 1, 0, 1, [i[0]]))
    world.disconnect(1)
    assert world.queue()["ready"] == 2
    assert refused(world.settle(1, i[0], outcome=Outcome.RETURN)) == []


@pytest.mark.parametrize("address", ["", "EXP"])
def test_expired_messages_are_never_delivered(address):
    world = World(expiry_address=address)
    world.publish("q", b"old", expires=world.now + 50)
    world.publish("q", b"young", durable=True)
    world.now += 50
    assert got(world.subscribe(1)) == [b"young"]
    assert world.engine.counters()["expired"] == 1
    assert (world.queue("EXP") is not None) == bool(address)


def test_expired_messages_go_without_any_consumer():
    world = World(expiry_address="EXP", auto_delete_delay_ms=10_000)
    world.publish("q", b"old", durable=True, expires=world.now + 50)
    world.publish("q", b"young")
    world.tick(2000)
    assert world.queue()["ready"] == 1 and world.queue("EXP")["ready"] == 1
    assert world.engine.due == 0
    world.publish("q", b"dead on arrival", expires=1)
    assert world.tick(2000) is not None and world.queue()["ready"] == 1


def test_parts_of_a_transaction_may_publish_and_settle_in_one_group():
    world, i = loaded(1, durable=True)
    parts = [Publish(7, 1, 0, "r", ANYCAST, run_of(b"x", durable=True)), Settle(7, 1, 0, 1, i)]
    for part in parts:
        world.engine.check(part, {})
    world.do(*parts)
    assert world.queue("r")["ready"] == 1 and world.queue()["delivering"] == 0


def test_nobody_sets_aside_what_a_consumer_of_another_session_holds():
    world = World()
    world.attach(1, ack=INDIVIDUAL)
    world.publish("q", b"a")
    for session, consumer in ((2, 1), (1, 9)):
        assert refused(world.do(Hold(7, session, 5, consumer, ids(world.effects)))) == [Code.NO_SUCH_DELIVERY]
    assert done(world.do(Hold(7, 1, 5, 1, ids(world.effects)))) == [5]


def test_what_is_confirmed_is_settled_where_messages_leave_and_stays_where_they_do_not():
    for stays in (False, True):
        world = World(non_destructive=stays)
        world.attach(1, ack=AUTO)
        world.publish("q", b"a", durable=True)
        world.confirm(1, 1)
        assert settles(world) == ([] if stays else [[(ids(world.effects)[0],) * 2]]), stays


@pytest.mark.parametrize("kind", ["plain", "last_value", "non_destructive"])
def test_an_ack_settles_where_messages_leave_and_gives_credit_back_where_they_stay(kind):
    world, i = loaded(3, durable=True, **({} if kind == "plain" else {kind: True}))
    assert done(world.settle(1, i[0], seq=3)) == [3]
    assert settles(world) == ([] if kind == "non_destructive" else [[(i[0], i[0])]])
    assert world.queue()["delivering"] == 2
