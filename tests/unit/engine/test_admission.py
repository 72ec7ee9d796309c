"""What an address does with messages before queues see them: full ones refuse, drop or have the sender wait."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish
from broker.core.errors import Code

from .test_limits import crowds, quota
from .world import ANYCAST, CLIENT, INDIVIDUAL, MULTICAST, World, done, got, ids, refused, run_of, whole


def test_block_takes_what_comes_and_tells_the_sender_to_wait():
    world = World(full_policy="BLOCK", max_size_messages=3)
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    assert crowds(world.publish("q", b"a", b"b")) == []
    effects = world.publish("q", b"c", seq=5)
    assert crowds(effects) == [(1, True)] and done(effects) == [5]
    assert done(world.publish("q", b"d", seq=6)) == [6]
    assert crowds(world.settle(1, *ids(world.effects, 1))) == []  # 3 of 3: still full
    assert crowds(world.settle(1, ids(world.effects, 1)[-1])) == [(1, False)]
    assert crowds(world.publish("q", b"e")) == [(1, True)]


def test_above_the_reject_threshold_block_refuses():
    world = World(full_policy="BLOCK", max_size_bytes=10, reject_threshold_bytes=20)
    assert refused(world.publish("q", b"0123456789")) == []
    assert refused(world.publish("q", b"0123456789")) == []
    assert refused(world.publish("q", b"x")) == [Code.ADDRESS_FULL]


def test_fail_refuses_by_the_name_of_the_address_and_takes_again_when_there_is_room():
    world = World(full_policy="FAIL", max_size_messages=1)
    world.publish("q", b"a")
    world.effects.clear()
    effects = world.publish("q", b"b", seq=4)
    assert refused(effects) == [Code.ADDRESS_FULL] and effects[0].seq == 4
    assert effects[0].detail.startswith('Address "q" is full')
    world.subscribe(1)
    assert got(world.publish("q", b"c"), 1) == [b"c"]


def test_drop_keeps_what_fits_and_answers_all_the_same():
    world = World(full_policy="DROP", max_size_messages=3)
    assert done(world.publish("q", b"a", b"b", b"c", b"d", b"e", seq=3)) == [3]
    assert done(world.publish("q", b"f", seq=4)) == [4]
    assert world.engine.counters()["dropped_full"] == 3
    world.subscribe(1)
    assert got(world.effects, 1) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("durable", [True, False])
def test_what_does_not_fit_may_be_a_dead_letter(durable):
    world = World(addresses={"q": {"full_policy": "DEAD_LETTER", "max_size_messages": 2}})
    assert done(world.publish("q", b"\n\na", b"\n\nb", b"\n\nc", durable=durable, expires=world.now + 9, seq=3)) == [3]
    assert done(world.publish("q", b"\n\nd", durable=durable, seq=4)) == [4]
    world.tick(10)
    assert (world.queue("DLQ")["ready"], world.engine.counters()["dropped_full"]) == (2, 0)
    assert world.engine.counters()["dead_lettered"] == 2
    world.subscribe(1, "DLQ")
    letters = whole(world.effects)
    assert [letter[-1:] for letter in letters] == [b"c", b"d"]
    assert all(b"dead-letter-reason:maxlen\n" in letter and b"_AMQ_ORIG_ADDRESS:q\n" in letter for letter in letters)


@pytest.mark.parametrize("letters", ["", "q", "p"])
def test_full_addresses_that_lead_nowhere_or_to_each_other_drop(letters):
    full = {"full_policy": "DEAD_LETTER", "max_size_messages": 1}
    world = World(addresses={"q": {**full, "dead_letter_address": letters}, "p": {**full, "dead_letter_address": "q"}})
    for n in range(4):
        assert done(world.publish("q", b"%d" % n, durable=True, seq=n + 1)) == [n + 1]
    assert world.queue("q")["ready"] == 1
    assert world.engine.counters()["dropped_full"] == (3 if letters != "p" else 2)


def test_parts_of_a_transaction_that_do_not_fit_are_dead_letters_too():
    world = World(addresses={"q": {"full_policy": "DEAD_LETTER", "max_size_messages": 1}})
    parts = [Publish(7, 1, 0, "q", ANYCAST, run_of(b"%d" % n, durable=True)).within() for n in range(3)]
    for part in parts:
        world.engine.check(part, {})
    world.do(*parts)
    assert refused(world.effects) == []
    assert (world.queue("q")["ready"], world.queue("DLQ")["ready"]) == (1, 2)


def test_drop_counts_a_message_in_every_queue_of_a_topic():
    world = World(full_policy="DROP", max_size_messages=4)
    world.subscribe(1, "t", ack=CLIENT, routing=MULTICAST)
    world.subscribe(2, "t", ack=CLIENT, routing=MULTICAST)
    world.publish("t", b"a", b"b", b"c", routing=MULTICAST)
    assert got(world.effects, 1) == got(world.effects, 2) == [b"a", b"b"]
    assert quota(world, "t")[0] == 4


def test_drop_does_not_count_queues_that_do_not_want_a_message():
    world = World(full_policy="DROP", max_size_messages=4)
    world.subscribe(1, "t", ack=CLIENT, routing=MULTICAST)
    for consumer in (2, 3, 4):
        world.subscribe(consumer, "t", ack=CLIENT, routing=MULTICAST, selector=f"n = {consumer}")
    world.publish("t", *[b"n:%c\n\nx\0" % n for n in b"121"], routing=MULTICAST)
    assert (quota(world, "t")[0], world.engine.counters()["dropped_full"]) == (4, 0)
    world.publish("t", b"n:1\n\ny\0", b"n:3\n\nz\0", routing=MULTICAST)
    assert (quota(world, "t")[0], world.engine.counters()["dropped_full"]) == (4, 2)
    assert len(got(world.effects, 1)) == 3


def test_drop_lets_pass_what_no_queue_wants():
    """It is not lost for want of room: the settings may send it elsewhere."""
    world = World(full_policy="DROP", max_size_messages=1, send_to_dla_on_no_route=True)
    world.subscribe(2, "t", ack=CLIENT, routing=MULTICAST, selector="n = 2")
    world.publish("t", b"n:2\n\na\0", routing=MULTICAST)
    world.publish("t", b"n:2\n\nb\0", b"n:1\n\nc\0", routing=MULTICAST)
    assert world.engine.counters()["dropped_full"] == 1
    assert [body[-2:] for body in got(world.subscribe(3, "DLQ"))] == [b"c\0"]
