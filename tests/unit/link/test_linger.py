"""SENDs that nobody waits for wait for company where they are dense; nothing else does, and nothing stays behind."""

from __future__ import annotations

import pytest

from broker.core.address import Routing
from broker.core.commands import Publish, Transact
from broker.link.edge_side.linger import DENSE, ENOUGH_BYTES, Linger
from tests.unit.link.test_owner_link import One, publish
from tests.unit.link.world import run_of

MS = 0.001


def batches(one, since):
    return [len(up.commands) for up in one.ups()[since:] if up.batch]


def one_by_one(one, count, every=0.2 * MS, seq=0):
    """So many SENDs, each in a turn of its own."""
    for n in range(count):
        one.port.submit([publish(session=1, seq=seq and seq + n)])
        one.world.run()
        one.world.pass_time(every)


@pytest.fixture
def one():
    return One(linger_ms=1)


def test_dense_sends_gather_and_all_of_them_arrive(one):
    since = len(one.up.sent)
    one_by_one(one, 100)
    one.world.pass_time(2 * MS)
    # The owner of this world answers at once: without a rest each would be a batch.
    assert len(batches(one, since)) < 40
    assert len(one.owner.shard.of(Publish)) == 100


def test_a_rest_is_no_longer_than_it_says(one):
    one_by_one(one, 20)
    since = len(one.owner.shard.of(Publish))
    one.port.submit([publish()])
    one.world.pass_time(1.01 * MS)
    assert len(one.owner.shard.of(Publish)) == since + 1


def test_a_send_with_a_receipt_leaves_at_once_and_takes_the_others_with_it(one):
    one_by_one(one, 20)
    one.port.submit([publish()])
    one.world.run()
    since = len(one.owner.shard.of(Publish))
    one.port.submit([publish(seq=5)])
    one.world.run()
    assert len(one.owner.shard.of(Publish)) >= since + 1
    assert one.owner.shard.of(Publish)[-1].seq
    assert not one.port._routes.links["a", "a:1"]._queues


def test_sends_with_receipts_never_rest(one):
    since = len(one.up.sent)
    one_by_one(one, 40, seq=1)
    assert batches(one, since) == [1] * 40


def test_few_sends_never_rest(one):
    since = len(one.up.sent)
    one_by_one(one, 20, every=0.4 * MS)
    assert batches(one, since) == [1] * 20


def test_behind_a_pause_the_first_one_leaves_at_once(one):
    one_by_one(one, 20)
    one.world.pass_time(1)
    since = len(one.up.sent)
    one_by_one(one, 1, every=0)
    assert batches(one, since) == [1]


def test_much_leaves_at_once(one):
    one_by_one(one, 20)
    one.world.pass_time(0.9 * MS)
    before = len(one.owner.shard.of(Publish))
    for _ in range(2):
        one.port.submit([Publish(1, 1, 0, "a1", Routing.ANYCAST, run_of(b"x" * ENOUGH_BYTES))])
        one.world.run()
    assert len(one.owner.shard.of(Publish)) >= before + 2


def test_a_rest_of_a_broken_stream_ends_no_rest_of_the_next(one):
    one_by_one(one, 20)
    link = one.port._routes.links["a", "a:1"]
    old = link._linger
    assert old.resting
    one.world.cut()
    one.world.pass_time(5 * MS)
    assert link._linger is not old
    assert not old.resting
    one.world.pass_time(1)
    one_by_one(one, 3, every=0.5 * MS)
    assert len(one.owner.shard.of(Publish)) >= 23


def test_without_it_each_leaves_at_once():
    one = One(linger_ms=0)
    since = len(one.up.sent)
    one_by_one(one, 50)
    assert batches(one, since) == [1] * 50


def test_dense_is_what_the_last_rests_time_says():
    linger = Linger(MS)
    assert not linger.begins(1, 10.0)  # the first one behind a long pause
    for n in range(1, DENSE + 1):
        assert not linger.begins(1, 10.0 + n * 0.2 * MS)
    assert linger.begins(1, 10.0 + 1.1 * MS)
    assert not linger.begins(1, 10.0 + 1.2 * MS), "it rests already"
    linger.over()
    assert not linger.begins(1, 10.0 + 9 * MS), "two in eight milliseconds"


@pytest.mark.parametrize("linger_ms", [0, 1, 20])
def test_a_commit_over_slots_does_not_wait_for_a_rest(linger_ms):
    """It leaves when the SENDs of its session there are answered, and somebody waits for it."""
    one = One(linger_ms=linger_ms)
    one_by_one(one, 200)
    one.port.submit([publish(slot=2)])
    one.port.submit([Transact(1, 1, 9, [publish(slot=1), publish(slot=2)])])
    one.world.run()
    assert one.owner.shard.of(Transact)
