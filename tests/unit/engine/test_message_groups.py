"""Groups of messages: each goes to one consumer as long as that is there."""

from __future__ import annotations

import pytest

from broker.core.commands import Resume, Subscribe
from broker.engine.consumers.message_groups import Groups

from .test_eligibility import groups, send, values
from .world import ANYCAST, INDIVIDUAL, World, ids


def test_a_group_stays_with_its_consumer_until_that_ends():
    w = World()
    w.subscribe(1)
    w.subscribe(2)
    effects = send(w, *groups("a", "b", "a", "b", "c"))
    owner = {g: c for c in (1, 2) for g in values(effects, "JMSXGroupID", c)}
    assert len(owner) == 3 and set(owner.values()) == {1, 2}
    for _ in range(5):
        effects = send(w, *groups("c", "b", "a"))
        assert {g: c for c in (1, 2) for g in values(effects, "JMSXGroupID", c)} == owner
    gone, left = owner["a"], 3 - owner["a"]
    w.unsubscribe(gone)
    assert len(ids(send(w, *groups("a", "b", "c")), left)) == 3


def test_a_group_is_not_taken_from_its_consumer_by_one_that_was_given_up_and_comes_back():
    w = World()
    w.subscribe(1, ack=INDIVIDUAL)
    assert ids(send(w, *groups("a", "a")), 1) == [1, 2]
    w.subscribe(2, ack=INDIVIDUAL, credit_messages=1)
    assert ids(w.disconnect(1), 2) == [1]
    w.attach(1, [(2, 2)], ack=INDIVIDUAL, room=0)
    w.subscribe(3, ack=INDIVIDUAL)
    assert ids(w.disconnect(1)) == []
    assert ids(w.settle(2, 1), 2) == [2]


def test_a_group_passes_to_who_else_holds_some_of_it():
    groups = Groups(-1)
    for consumer in (1, 2, 3, 2):
        groups.claim(b"a", consumer)
    groups.leave(2)
    assert groups.owner(b"a") == 1
    groups.leave(1)
    assert groups.owner(b"a") == 3
    groups.leave(3)
    assert groups.owner(b"a") is None


def test_a_group_that_was_closed_passes_to_nobody_who_held_some_of_it_before():
    groups = Groups(-1)
    for consumer in (1, 2):
        groups.claim(b"a", consumer)
    groups.close(b"a", b"JMSXGroupID:a\nJMSXGroupSeq:-1\n\n")
    groups.give(b"a", 3)
    groups.leave(3)
    assert groups.owner(b"a") is None


def test_a_group_waits_for_its_consumer_and_holds_up_nobody_else():
    w = World()
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    assert ids(send(w, *groups("a")), 1) == [1]
    w.subscribe(2, ack=INDIVIDUAL, credit_messages=1)
    effects = send(w, *groups("a", "a", "b", "c"))
    assert ids(effects) == [4]  # b; both have what they may hold
    assert ids(w.settle(2, 4)) == [5]
    assert ids(w.settle(1, 1)) == [2]
    w.disconnect(1)
    assert ids(w.settle(2, 5)) == [2]  # given back, and anybody's now


def test_a_group_that_came_while_nobody_could_take_anything_goes_to_one_consumer():
    w = World()
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    assert ids(send(w, {}), 1) == [1]
    assert ids(send(w, *groups("a", "a"))) == []
    assert ids(w.subscribe(2, ack=INDIVIDUAL, credit_messages=1), 2) == [2]
    assert ids(w.settle(1, 1)) == []  # the group is the other one's
    assert ids(w.settle(2, 2)) == [3]


def test_the_last_message_of_a_group_closes_it():
    w = World()
    w.subscribe(1)
    send(w, *groups("a", "a"))
    w.subscribe(2)
    send(w, *groups("x"))
    first = values(w.effects, "JMSXGroupID", 1)
    assert first.count("a") == 2
    send(w, {"JMSXGroupID": "a", "JMSXGroupSeq": -1})
    choice = w.engine._slot.queues[1].choice
    assert choice.groups.owner(b"a") is None and choice.groups.owner(b"x") is not None


def test_the_first_message_of_a_group_says_so():
    w = World(group_first_key="first:one")
    w.subscribe(1)
    effects = send(w, {"n": 0}, *groups("a", "a", "b"), {"JMSXGroupID": "a"})
    assert ids(effects) == [1, 2, 3, 4, 5]
    assert [values([e], "first:one") for e in effects if values([e], "first:one")] == [["true"], ["true"]]
    assert values([e for e in effects if values([e], "first:one")], "JMSXGroupID") == ["a", "b"]


def test_the_header_of_first_messages_counts_for_limits_while_it_is_there():
    w = World(group_first_key="first", full_policy="FAIL", max_size_messages=100)
    send(w, *groups("a", "a"))
    size = w.engine._slot.addresses["q"].quota.nbytes // 2
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    w.settle(1, *ids(w.effects, 1))
    assert w.engine._slot.addresses["q"].quota.nbytes == size


def test_buckets_and_groups_that_are_ignored():
    w = World(group_buckets=2)
    w.subscribe(1)
    w.subscribe(2)
    send(w, *groups(*[f"g{n}" for n in range(100)]))
    choice = w.engine._slot.queues[1].choice
    assert len(choice.groups) == 2
    w = World(group_buckets=0)
    w.subscribe(1)
    w.subscribe(2)
    effects = send(w, *groups(*["a"] * 10))
    assert len(ids(effects, 1)) == len(ids(effects, 2)) == 5


@pytest.mark.parametrize("pause", [False, True])
def test_groups_are_dealt_out_anew_when_a_consumer_comes(pause):
    w = World(group_rebalance=True, group_rebalance_pause=pause)
    w.subscribe(1, ack=INDIVIDUAL)
    send(w, *groups("a", "b"))
    w.subscribe(2, ack=INDIVIDUAL)
    effects = send(w, *groups("a", "b"))
    if pause:
        assert ids(effects) == []
        w.settle(1, 1)
        effects = w.settle(1, 2)
    assert {len(ids(effects, 1)), len(ids(effects, 2))} == {1}


def test_grouped_messages_read_back_after_a_restart_are_grouped():
    w = World(queue_memory_bytes=1000, page_bytes=200)
    for _ in range(30):
        send(w, *groups("a", "b", "c"), durable=True)
    w.restart()
    w.subscribe(1, ack=INDIVIDUAL)
    w.subscribe(2, ack=INDIVIDUAL)
    w.settle_down()
    got = {c: set(values(w.effects, "JMSXGroupID", c)) for c in (1, 2)}
    assert got[1] | got[2] == {"a", "b", "c"} and not got[1] & got[2]
    assert len(ids(w.effects)) == 90


@pytest.mark.parametrize("restart", [True, False])
def test_a_group_stays_with_who_holds_a_message_of_it_over_a_failure_of_leader_or_edge(restart):
    w = World(queue_memory_bytes=400, page_bytes=200)
    for n in (1, 2, 3):
        w.subscribe(n, ack=INDIVIDUAL, credit_messages=2)
    send(w, *groups("a", "b", "c", "a", "b", "c"), durable=True)
    send(w, *groups(*"abcabcabc"), durable=True)
    owner = {g: n for n in (1, 2, 3) for g in values(w.effects, "JMSXGroupID", n)}
    held = {n: ids(w.effects, n) for n in (1, 2, 3)}
    assert len(owner) == 3
    if restart:
        w.restart(first_id=1 << 40)
    w.effects = []
    commands = [Subscribe(7, n, 0, n, "q", ANYCAST, INDIVIDUAL, credit_messages=3) for n in (3, 1, 2)]
    for command in commands:
        command.resume = Resume([(i, i) for i in held[command.consumer]], [])
    w.do(*commands)  # a new leader hands nothing out before everybody has come back
    w.settle_down()
    for n in (2, 3, 1, 2, 3, 1):
        w.settle(n, held[n].pop(0), seq=1)
    w.settle_down()
    assert len(ids(w.effects)) == 9
    assert {g: n for n in (1, 2, 3) for g in values(w.effects, "JMSXGroupID", n)} == owner
