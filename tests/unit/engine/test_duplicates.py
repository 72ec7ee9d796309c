"""Duplicate ids: each message is taken once, over crashes and in transactions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.address import Outcome
from broker.core.commands import Decide, Prepare, Publish
from broker.core.message import DURABLE, UNIQUE, Run
from broker.core.records import GroupRecord, MetaRecord, RunRecord
from broker.engine.messages.id_cache import Ids

from .world import ANYCAST, INDIVIDUAL, World, done, got, ids


def unique(*named, durable=True, common=b""):
    """A run of (id, body); id None: the message has none."""
    records = [(b"_AMQ_DUPL_ID:%b\n\n%b\0" % (i, body) if i else b"\n%b\0" % body) for i, body in named]
    nbytes = sum(map(len, records)) + len(records) * len(common)
    return Run((), common, records, nbytes, UNIQUE | (DURABLE if durable else 0))


def send(world, *named, seq=0, address="q", **more):
    return world.do(Publish(7, 1, seq, address, ANYCAST, unique(*named, **more)))


def bodies(effects):
    return [record.split(b"\n\n")[-1].strip(b"\n\0") for record in got(effects)]


def drained(world):
    return bodies(world.subscribe(99))


def test_the_second_one_is_dropped_and_answered():
    world = World()
    assert done(send(world, (b"1", b"a"), seq=1)) == [1]
    assert done(send(world, (b"1", b"a"), seq=2)) == [2]
    send(world, (b"2", b"b"), (b"1", b"c"), (None, b"d"), (b"2", b"e"))
    assert drained(world) == [b"a", b"b", b"d"]
    assert world.engine.counters()["duplicates"] == 3


def test_the_id_may_stand_in_the_common_lines():
    world = World()
    for _ in range(2):
        world.do(Publish(7, 1, 0, "q", ANYCAST, Run((), b"_AMQ_DUPL_ID:x\n\n", [b"a\0"], 18, UNIQUE)))
    assert len(got(world.subscribe(1))) == 1


def test_a_repetition_is_answered_when_the_first_one_is_safe():
    world = World(auto_commit=False)
    send(world, (b"1", b"a"), seq=1)
    assert done(send(world, (b"1", b"a"), seq=2)) == []
    assert done(world.commit()) == [1, 2]


def test_an_empty_id_is_none():
    world = World()
    for body in (b"a", b"b"):
        world.do(Publish(7, 1, 0, "q", ANYCAST, Run((), b"_AMQ_DUPL_ID:\n", [b"x:y\n\n%b\0" % body], 21, UNIQUE)))
    assert drained(world) == [b"a", b"b"]


def test_addresses_do_not_share_ids():
    world = World()
    send(world, (b"1", b"a"))
    send(world, (b"1", b"b"), address="r")
    assert bodies(world.subscribe(1)) + bodies(world.subscribe(2, "r")) == [b"a", b"b"]


def test_it_is_known_after_it_was_consumed_its_queue_deleted_and_the_broker_killed():
    world = World()
    world.subscribe(1)
    send(world, (b"1", b"a"))
    world.disconnect(1)
    world.tick(5000)
    assert world.queue() is None
    world.commit()
    world.restart()
    send(world, (b"1", b"a"))
    assert drained(world) == []


def test_message_and_id_are_one_record_of_the_log():
    world = World()
    send(world, (b"1", b"a"))
    [group] = [r for r in world.appended if isinstance(r, GroupRecord)]
    assert {type(r) for r in group.records} >= {RunRecord, MetaRecord}


def test_what_is_not_durable_may_be_sent_again_after_a_crash():
    world = World()
    send(world, (b"1", b"a"), durable=False)
    world.restart()
    send(world, (b"1", b"a"))
    assert drained(world) == [b"a"]


def test_only_so_many_are_remembered_and_none_if_the_settings_say_so():
    world = World(addresses={"q": {"id_cache_size": 2}, "free": {"id_cache_size": 0}})
    for i in (b"1", b"2", b"3", b"1", b"3", b"1"):
        send(world, (i, i))
        send(world, (i, i), address="free")
    assert drained(world) == [b"1", b"2", b"3", b"1"]
    assert len(got(world.subscribe(1, "free"))) == 6


def test_a_snapshot_has_them_in_22_bytes_each():
    world = World()
    send(world, *[(b"%d" % n, b"x") for n in range(1000)])
    [known] = [r for r in world.engine.snapshot() if r.kind == "known"]
    assert len(known.data["ids"]) < 22 * 1000
    world.log = [(0, record) for record in world.engine.snapshot()]
    world.restart()
    send(world, (b"7", b"again"), (b"new", b"new"))
    assert drained(world) == [b"new"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_transaction_over_slots_with_a_known_id_sends_nothing(restart):
    world = World()
    send(world, (b"1", b"first"))
    world.subscribe(1)
    parts = [Publish(7, 1, 0, "q", ANYCAST, unique((i, body))) for i, body in [(b"2", b"new"), (b"1", b"again")]]
    world.do(Prepare(7, 1, 0, "t", 3, parts))
    if restart:
        world.restart()
        world.subscribe(1)
    assert bodies(world.do(Decide(7, 1, 0, "t", True))) == []
    world.do(Prepare(7, 1, 0, "u", 3, [Publish(7, 1, 0, "q", ANYCAST, unique((b"2", b"new")))]))
    assert bodies(world.do(Decide(7, 1, 0, "u", True))) == [b"new"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 8), max_size=60), st.integers(1, 5))
def test_ids_are_a_ring(sent, size):
    ids, model = Ids(), []
    for n in sent:
        digest = b"%016d" % n
        assert (digest in ids) == (n in model)
        if n not in model:
            model = [*model, n][-size:]
        ids.add([digest], size)


def test_a_snapshot_leaves_out_what_the_next_crash_loses():
    world = World()
    send(world, (b"1", b"a"), durable=False)
    send(world, (b"2", b"b"))
    world.log += [(0, record) for record in world.engine.snapshot()]
    world.restart()
    send(world, (b"1", b"a"), durable=False)
    assert drained(world) == [b"b", b"a"]


def test_dead_letters_of_one_id_are_all_kept():
    world = World(max_delivery_attempts=1)
    for consumer, address in enumerate(("q", "r"), 1):
        send(world, (b"1", address.encode()), address=address)
        world.subscribe(consumer, address, ack=INDIVIDUAL)
        world.settle(consumer, *ids(world.effects, consumer), outcome=Outcome.NACK)
    assert bodies(world.subscribe(9, "DLQ")) == [b"q", b"r"]


@pytest.mark.parametrize("limit", [{"max_size_messages": 1}, {"max_size_bytes": 1}])
@pytest.mark.parametrize("policy", ["FAIL", "DROP", "BLOCK"])
def test_a_full_address_answers_what_it_knows_as_a_duplicate(policy, limit):
    world = World(full_policy=policy, reject_threshold_bytes=1 if policy == "BLOCK" else -1, **limit)
    send(world, (b"1", b"a"))
    assert done(send(world, (b"1", b"a"), seq=2)) == [2]
    assert (world.engine.counters()["duplicates"], world.engine.counters()["dropped_full"]) == (1, 0)


@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
def test_what_an_address_had_no_room_for_is_not_known_to_it(policy):
    world = World(full_policy=policy, max_size_messages=1)
    send(world, (b"1", b"a"))
    send(world, (b"1", b"a"), (b"2", b"b"))
    world.subscribe(1)
    send(world, (b"2", b"b"))
    assert bodies(world.effects) == [b"a", b"b"]


def test_a_transaction_that_has_happened_before_needs_no_room_in_another_slot():
    world = World(full_policy="FAIL", max_size_messages=1)
    send(world, (b"1", b"a"))
    parts = [Publish(7, 1, 0, "q", ANYCAST, unique((i, b"x"))) for i in (b"1", b"2")]
    assert done(world.do(Prepare(7, 1, 3, "t", 3, parts))) == [3]
    world.do(Decide(7, 1, 0, "t", True))
    assert drained(world) == [b"a"]
