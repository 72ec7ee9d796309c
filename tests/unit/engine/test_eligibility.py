"""Who gets which message: the cases users know by name (the model of test_choice_model.py has the rest)."""

from __future__ import annotations

import pytest

from broker.core.address import Outcome
from broker.core.commands import Publish, Resume, Subscribe
from broker.core.effects import Deliver
from broker.core.errors import Code
from broker.core.message import DURABLE, GROUPED, NO_IDS, Run
from broker.engine.consumers import match_buckets
from broker.engine.consumers.message_groups import Groups
from broker.selector.heads import head_of, key, raw

from .world import ANYCAST, CLIENT, INDIVIDUAL, MULTICAST, World, browse_ends, got, ids, refused


def batch(*messages: dict, durable=False, body=b"x", priority=4) -> Run:
    records = [
        "".join(f"{name}:{value}\n" for name, value in m.items()).encode() + b"\n" + body + b"\0" for m in messages
    ]
    flags = (DURABLE if durable else 0) | (GROUPED if any("JMSXGroupID" in m for m in messages) else 0)
    return Run(NO_IDS, b"", records, sum(map(len, records)), flags, priority)


def send(world: World, *messages: dict, session=99, address="q", routing=ANYCAST, **more) -> list:
    return world.do(Publish(7, session, 0, address, routing, batch(*messages, **more)))


def groups(*names: str) -> list[dict]:
    return [{"JMSXGroupID": name, "n": n} for n, name in enumerate(names)]


def values(effects: list, name: str, consumer: int | None = None) -> list[str]:
    found = [
        raw(head_of(e.run, at), key(name))
        for e in effects
        if isinstance(e, Deliver) and consumer in (None, e.consumer)
        for at in range(len(e.run))
    ]
    return [value.decode() for value in found if value is not None]


# ── selectors ──────────────────────────────────────────────────────────────────────────────────────────


def test_each_gets_what_it_asked_for_and_the_rest_waits_for_others():
    w = World()
    w.subscribe(1, selector="a = 'x'")
    effects = send(w, {"a": "x"}, {"a": "y"}, {"a": "x"}, {}, durable=True)
    assert values(w.effects, "a") == ["x", "x"] and w.queue()["ready"] == 2
    effects = w.subscribe(2)
    assert ids(effects, 2) == [2, 4]


@pytest.mark.parametrize("name", ["AMQTimestamp", "JMSTimestamp"])
def test_the_time_of_a_message_is_known_to_all_selectors(name):
    """It was 0 where a message is looked at before it is numbered: topics, durable subscriptions, diverts."""
    w = World(diverts={"d": {"address": "q", "forward": "copies", "selector": f"{name} = 1000000"}})
    w.subscribe(1, routing=MULTICAST, selector=f"{name} = 1000000")
    w.subscribe(2, routing=MULTICAST, queue="me.s", durable=True, selector=f"{name} BETWEEN 999999 AND 1000001")
    w.subscribe(3, address="#", routing=MULTICAST, selector=f"{name} > 0")
    w.subscribe(4, address="copies", selector=f"{name} = 1000000")
    w.subscribe(5, routing=MULTICAST, selector=f"{name} = 0")
    send(w, {"a": 1}, routing=MULTICAST)
    assert [len(ids(w.effects, n)) for n in range(1, 6)] == [1, 1, 1, 1, 0]


def test_a_bad_selector_is_refused_and_makes_no_queue():
    w = World()
    for consumer, routing in ((1, ANYCAST), (2, MULTICAST)):
        assert refused(w.subscribe(consumer, "q", routing=routing, selector="a =")) == [Code.BAD_SELECTOR]
    assert w.queue() is None and not w.engine._slot.consumers


def test_a_hundred_selectors_take_turns_with_one_who_takes_all():
    w = World()
    for n in range(100):
        w.subscribe(n + 1, selector=f"type = 't{n}'")
    effects = send(w, *[{"type": f"t{n % 100}"} for n in range(300)])
    for n in range(100):
        assert ids(effects, n + 1) == [n + 1, n + 101, n + 201]
    w.subscribe(500, priority=1)
    assert len(ids(send(w, *[{"type": f"t{n}"} for n in range(100)]), 500)) == 100


@pytest.mark.parametrize("durable", [True, False])
def test_the_red_one_behind_thousands_of_blue_ones(durable):
    """Nobody takes the blue ones: they are paged past, kept as numbers, and still there for who comes later."""
    w = World(queue_memory_bytes=4000, page_bytes=1000, mark_messages=64)
    w.subscribe(1, selector="color = 'red'")
    for _ in range(100):
        send(w, *[{"color": "blue"}] * 10, durable=durable)
    send(w, {"color": "red"}, durable=durable)
    assert ids(w.effects) == [1001]
    q = next(iter(w.engine._slot.queues.values()))
    assert q.nbytes <= 4000 + 1000 and q.far > 500
    fetches = len(w.fetches)
    send(w, {"color": "red"}, durable=durable)
    w.subscribe(2, selector="color = 'red'")  # the same question: nothing is looked at again
    assert len(w.fetches) == fetches and ids(w.effects)[1:] == [1002]
    w.subscribe(3, ack=INDIVIDUAL, credit_messages=10)
    for _ in range(100):
        w.settle(3, *ids(w.effects, 3)[-10:])
    assert ids(w.effects, 3) == list(range(1, 1001))
    assert w.queue() is None or w.queue()["ready"] + w.queue()["paged"] + w.queue()["delivering"] == 0


def test_a_new_selector_looks_at_what_was_put_away_once():
    w = World(queue_memory_bytes=2000, page_bytes=500, mark_messages=1000)
    w.subscribe(1, selector="color = 'red'")
    for n in range(200):
        send(w, {"color": "blue", "n": n}, durable=True)
    w.subscribe(2, selector="n = 7 OR n = 150")
    assert values(w.effects, "n", 2) == ["7", "150"]
    assert w.queue()["ready"] + w.queue()["paged"] == 198


def test_selectors_come_and_go_and_their_bits_are_used_again():
    w = World()
    w.subscribe(1000, selector="keep = 1")
    send(w, {"keep": 0})
    for n in range(50):
        w.subscribe(n + 1, selector=f"id = 'r{n}'")
        assert ids(send(w, {"id": f"r{n}"}), n + 1)
        w.unsubscribe(n + 1)
    choice = w.engine._slot.queues[1].choice
    assert choice.known < 1 << 12 and len(choice.lanes) < 12
    assert ids(w.subscribe(2000), 2000) == [1]


def test_a_client_that_comes_back_with_its_selector_gets_what_waited_and_in_order():
    w = World()
    w.subscribe(1, ack=CLIENT, selector="a = 'x'")
    effects = send(w, {"a": "x"}, {"a": "y"}, {"a": "x"}, {"a": "x"})
    assert ids(effects) == [1, 3, 4]
    w.settle(1, 1)
    w.disconnect(1)
    send(w, {"a": "x"}, {"a": "y"})
    assert ids(w.subscribe(2, ack=CLIENT, selector="a = 'x'"), 2) == [3, 4, 5]


def test_what_is_new_and_of_higher_priority_comes_before_what_waits():
    w = World()
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1, selector="a IS NOT NULL")
    send(w, {"a": 1}, {"a": 2}, {"a": 3})
    send(w, {"a": "high"}, priority=9)
    send(w, {"b": 0}, priority=8)
    for _ in range(3):
        w.settle(1, ids(w.effects, 1)[-1])
    assert values(w.effects, "a") == ["1", "high", "2", "3"]


def test_what_waits_in_lanes_expires():
    w = World()
    w.subscribe(1, selector="a = 'x'")
    run = batch({"a": "y"}, {"a": "y"})
    run.expires = w.now + 500
    w.do(Publish(7, 9, 0, "q", ANYCAST, run))
    assert w.queue()["ready"] == 2
    w.tick(3000)
    assert w.queue()["ready"] == 0 and w.engine.counters()["expired"] == 2


def test_browsing_with_a_selector_over_memory_and_what_was_put_away():
    w = World(queue_memory_bytes=1000, page_bytes=300)
    w.subscribe(1, selector="color = 'red'")
    for n in range(60):
        send(w, {"color": "blue", "n": n}, {"color": "red"}, durable=True)
    assert w.queue()["ready"] + w.queue()["paged"] == 60
    w.effects = []
    w.subscribe(2, browse=True, selector="n BETWEEN 10 AND 50")
    assert values(w.effects, "n", 2) == [str(n) for n in range(10, 51)] and browse_ends(w.effects) == 1
    w.subscribe(3, browse=True)
    assert sorted(int(n) for n in values(w.effects, "n", 3)) == list(range(60))


def test_browsing_by_address():
    w = World()
    w.publish("q", b"m")
    for consumer, wanted in ((1, "q"), (2, "other")):
        w.subscribe(consumer, browse=True, selector=f"AMQAddress = '{wanted}'")
    assert got(w.effects, 1) == [b"m"] and got(w.effects, 2) == []


def test_a_topic_subscription_never_keeps_what_it_does_not_want():
    w = World()
    w.subscribe(1, "t", routing=MULTICAST, selector="a = 'x'", room=1)
    effects = send(w, {"a": "y"}, {"a": "x"}, {"a": "y"}, {"a": "x"}, address="t", routing=MULTICAST)
    assert values(effects, "a") == ["x"]
    assert [q["ready"] for q in w.stats()] == [1]


def test_after_a_restart_selectors_find_their_messages():
    w = World(queue_memory_bytes=1000, page_bytes=300)
    w.subscribe(1, ack=INDIVIDUAL, selector="color = 'red'")
    for n in range(40):
        send(w, {"color": "blue", "n": n}, {"color": "red", "n": n}, durable=True)
    held = ids(w.effects, 1)
    w.settle(1, *held[:10], seq=1)
    w.restart()
    w.settle_down()
    w.effects = []
    w.attach(1, held=[(i, i) for i in held[10:]], ack=INDIVIDUAL, selector="color = 'red'")
    w.settle_down()
    assert ids(w.effects) == []
    w.settle(1, *held[10:])
    w.subscribe(2, selector="color = 'blue'")
    w.settle_down()
    assert values(w.effects, "n", 2) == [str(n) for n in range(40)]
    assert w.queue()["ready"] + w.queue()["paged"] + w.queue()["delivering"] == 0


def test_an_edge_that_comes_back_claims_messages_from_lanes_wherever_they_wait():
    w = World(queue_memory_bytes=1000, page_bytes=300)
    w.subscribe(1, selector="color = 'red'")
    for n in range(60):
        send(w, {"color": "blue", "n": n}, durable=True)
    assert next(iter(w.engine._slot.queues.values())).far
    w.attach(5, held=[(3, 5), (58, 58)], ack=INDIVIDUAL, selector="color = 'green'")
    assert w.queue()["delivering"] == 4 and w.queue()["ready"] + w.queue()["paged"] == 56
    w.settle(5, 4)
    w.settle(5, 3, outcome=Outcome.NACK)
    w.settle_down()
    w.disconnect(5)
    w.settle_down()
    w.effects = []
    w.subscribe(6)
    w.settle_down()
    assert ids(w.effects, 6) == [i for i in range(1, 61) if i != 4]


# ── no-local ───────────────────────────────────────────────────────────────────────────────────────────


def test_no_local_on_a_queue_leaves_its_own_messages_to_others():
    w = World()
    w.subscribe(1, no_local=True)
    send(w, {"n": 1}, session=1)
    assert values(send(w, {"n": 2}), "n") == ["2"] and w.queue()["ready"] == 1
    assert values(w.subscribe(2), "n", 2) == ["1"]


def test_what_is_ones_own_is_remembered_as_long_as_any_consumer_of_the_session_asks():
    w = World()
    w.subscribe(1, session=5, ack=CLIENT, credit_messages=0, no_local=True)
    w.subscribe(2, session=5, ack=CLIENT, credit_messages=1, no_local=True, selector="a = 'x'")
    send(w, {"a": "x"}, session=5)
    w.unsubscribe(2, session=5)
    send(w, {"a": "y"}, session=6)
    w.effects.clear()
    w.subscribe(3, session=5, ack=CLIENT, no_local=True, selector="a LIKE '_'")
    assert values(w.effects, "a") == ["y"]


def test_whose_messages_they_were_is_forgotten_when_all_of_them_have_gone():
    w = World()
    w.subscribe(1, session=5, ack=INDIVIDUAL, no_local=True)
    w.subscribe(2, session=6, ack=INDIVIDUAL)
    for _ in range(50):
        for session in (5, 7):
            effects = send(w, {}, session=session)
            for consumer in (1, 2):
                for i in ids(effects, consumer):
                    assert not refused(w.settle(consumer, i, session=consumer + 4))
    assert ids(send(w, {}, session=5), 1) == []
    assert sum(map(len, w.engine._slot.queues[1].choice._origins.values())) == 1
    w.unsubscribe(2, session=6)
    assert w.queue()["ready"] == 1  # it is still its own


@pytest.mark.parametrize("pattern", ["t", "t.*"])
def test_no_local_on_a_topic_drops_its_own_messages_and_only_its(pattern):
    w = World()
    address = pattern.replace("*", "a")
    w.subscribe(1, pattern, routing=MULTICAST, no_local=True, selector="n > 0")
    w.subscribe(2, pattern, routing=MULTICAST, session=1)
    effects = send(w, {"n": 1}, session=1, address=address, routing=MULTICAST)
    effects += send(w, {"n": 2}, session=3, address=address, routing=MULTICAST)
    assert values(effects, "n", 1) == ["2"] and values(effects, "n", 2) == ["1", "2"]
    assert all(q["ready"] == 0 for q in w.stats())
    w.disconnect(1)
    assert not w.engine._slot.strangers


# ── groups ─────────────────────────────────────────────────────────────────────────────────────────────


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
    size = w.engine._slot.addresses["q"].stock.nbytes // 2
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    w.settle(1, *ids(w.effects, 1))
    assert w.engine._slot.addresses["q"].stock.nbytes == size


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


# ── exclusive ──────────────────────────────────────────────────────────────────────────────────────────


def test_an_exclusive_queue_has_one_consumer_at_a_time():
    w = World(exclusive=True)
    w.subscribe(1, ack=INDIVIDUAL, credit_messages=2)
    w.subscribe(2, ack=INDIVIDUAL, priority=9)
    effects = send(w, {}, {}, {}, {})
    assert ids(effects, 1) == [1, 2] and not ids(effects, 2)
    effects = w.disconnect(1)
    assert ids(effects, 2) == [1, 2, 3, 4]
    w.subscribe(3)
    assert ids(send(w, {}), 2) == [5]


def test_settings_make_a_queue_exclusive_and_end_it():
    w = World()
    w.subscribe(1)
    w.subscribe(2)
    for exclusive in (True, False):
        settings = World(exclusive=exclusive).settings
        w.engine.configure(settings)
        effects = send(w, {}, {}, {}, {})
        assert (sorted([len(ids(effects, 1)), len(ids(effects, 2))]) == [0, 4]) is exclusive


# ── lanes ──────────────────────────────────────────────────────────────────────────────────────────────


def test_far_is_sorted_whatever_comes_when():
    far = match_buckets.Far()
    far.add([5, 6, 9], 1)
    far.add([1, 7], 2)
    assert far.take(3) == [(1, 2), (5, 1), (6, 1)] and far.first() == 7
    assert far.withdraw([(8, 20)]) == [(9, 1)] and list(far.all()) == [(7, 2)] and len(far) == 1
    far.add(range(10_000, 30_000), 3)
    assert len(far.take(19_000)) == 19_000 and far.first() == 28_999
