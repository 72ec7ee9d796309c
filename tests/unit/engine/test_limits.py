"""Bounds of addresses: who is refused, who waits, what is dropped, and that the usages are right whatever happens."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.core.address import Outcome
from broker.core.commands import Decide, Hold, Prepare, Publish, Settle
from broker.core.effects import AddressBlocked
from broker.core.errors import Code, RefusedError
from broker.engine.state import limits

from .world import ANYCAST, AUTO, CLIENT, INDIVIDUAL, MULTICAST, World, ids, refused, run_of


def crowds(effects: list) -> list[tuple[int, bool]]:
    return [(e.session, e.full) for e in effects if isinstance(e, AddressBlocked)]


def quota(world: World, address: str = "q") -> tuple[int, int]:
    found = world.engine._slot.addresses[address].quota
    return found.messages, found.nbytes


def reconfigure(world: World, **changes: object) -> None:
    world.settings = replace(world.settings, address=replace(world.settings.address, **changes))
    world.engine.configure(world.settings)


def test_who_waits_goes_on_when_an_eighth_is_free():
    world = World(full_policy="BLOCK", max_size_bytes=80)
    world.subscribe(1, ack=INDIVIDUAL)
    for _ in range(8):
        world.publish("q", b"0123456789")
    names = ids(world.effects, 1)
    world.effects.clear()
    world.settle(1, names[0])
    assert crowds(world.effects) == [(1, False)]


@pytest.mark.parametrize("policy", ["FAIL", "DROP"])
def test_paging_ends_at_its_own_limit(policy: str):
    world = World(page_limit_messages=2, max_size_messages=1, page_full_policy=policy, queue_memory_bytes=1)
    for body in (b"a", b"b", b"c"):
        world.publish("q", body, durable=True)
    assert refused(world.effects) == ([Code.ADDRESS_FULL] if policy == "FAIL" else [])
    assert quota(world)[0] == 2


def test_partitions_share_the_limit():
    world = World(full_policy="FAIL", max_size_messages=8, partitions=4)
    world.publish("q", b"a", b"b")
    assert refused(world.publish("q", b"c")) == [Code.ADDRESS_FULL]


def test_dead_letters_are_never_refused():
    world = World(max_delivery_attempts=1, addresses={"DLQ": {"full_policy": "FAIL", "max_size_messages": 1}})
    world.subscribe(1, ack=INDIVIDUAL)
    world.publish("q", b"a", b"b", b"c")
    world.settle(1, *ids(world.effects, 1), outcome=Outcome.NACK)
    assert world.queue("DLQ")["ready"] == 3
    assert quota(world, "DLQ")[0] == 3
    assert refused(world.publish("DLQ", b"x")) == [Code.ADDRESS_FULL]


@pytest.mark.parametrize("outcome", [Outcome.ACK, Outcome.NACK, Outcome.REJECT])
def test_what_leaves_for_another_address_makes_room(outcome):
    world = World(max_delivery_attempts=1, addresses={"q": {"full_policy": "BLOCK", "max_size_messages": 1}})
    world.subscribe(1, ack=INDIVIDUAL)
    world.publish("q", b"a")
    world.settle(1, *ids(world.effects, 1), outcome=outcome)
    assert quota(world) == (0, 0)
    assert crowds(world.effects) == [(1, True), (1, False)]


def test_the_books_are_right_after_a_restart():
    world = World(full_policy="BLOCK", max_size_messages=3)
    world.publish("q", b"a", b"b", durable=True)
    world.publish("q", b"c", durable=True)
    world.restart()
    assert quota(world) == (3, 3)
    assert crowds(world.publish("q", b"d")) == [(1, True)]
    world.subscribe(1)
    assert crowds(world.effects)[-1] == (1, False)
    assert quota(world) == (0, 0)


def test_a_limit_that_comes_or_goes_while_messages_wait():
    world = World()
    world.subscribe(1, ack=CLIENT, credit_messages=1)
    world.publish("q", b"a", b"b", b"c")
    reconfigure(world, full_policy="BLOCK", max_size_messages=3)
    assert quota(world) == (3, 3)
    assert crowds(world.publish("q", b"d")) == [(1, True)]
    reconfigure(world, full_policy="PAGE")
    assert crowds(world.tick(1)) == [(1, False)]
    assert crowds(world.publish("q", b"e")) == []


def test_a_deleted_address_keeps_nobody_waiting():
    world = World(full_policy="BLOCK", max_size_messages=1)
    world.subscribe(1, "t", ack=CLIENT, routing=MULTICAST)
    assert crowds(world.publish("t", b"a", routing=MULTICAST)) == [(1, True)]
    assert crowds(world.disconnect(1)) == [(1, False)]


def test_a_transaction_is_refused_as_a_whole():
    world = World(full_policy="FAIL", max_size_messages=1)
    part = Publish(7, 1, 0, "q", ANYCAST, run_of(b"x"))
    world.engine.check(part, {})
    world.publish("q", b"a")
    with pytest.raises(RefusedError, match='Address "q" is full'):
        world.engine.check(part, {})


def test_a_transaction_over_several_slots_cannot_wait():
    world = World(full_policy="BLOCK", max_size_messages=1)
    world.publish("q", b"a")
    effects = world.do(Prepare(7, 1, 5, "tx", 3, [Publish(7, 9, 0, "q", ANYCAST, run_of(b"x"))]))
    assert refused(effects) == [Code.ADDRESS_FULL]
    world.engine.check(Publish(7, 9, 0, "q", ANYCAST, run_of(b"x")), {})  # but one in this slot alone is told to


def test_what_a_decided_transaction_publishes_is_counted():
    world = World(full_policy="BLOCK", max_size_messages=5)
    world.publish("q", b"a")
    world.do(Prepare(7, 1, 5, "tx", 3, [Publish(7, 9, 0, "q", ANYCAST, run_of(b"x"))]))
    assert quota(world)[0] == 1
    world.do(Decide(7, 1, 6, "tx", True))
    assert quota(world)[0] == 2


def test_only_so_many_waiting_sessions_are_remembered(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(limits, "MOST_WAITING", 2)
    world = World(full_policy="BLOCK", max_size_messages=1)
    for session in (1, 2, 3):
        world.do(Publish(7, session, 0, "q", ANYCAST, run_of(b"x")))
    assert crowds(world.effects) == [(1, True), (2, True), (1, False), (3, True)]


def test_a_last_value_queue_that_is_empty_takes_messages_after_new_settings():
    """Replaced values still stood in the page index, and were counted anew."""
    world = World(full_policy="FAIL", max_size_messages=6, queue_memory_bytes=40, page_bytes=20, last_value=True)
    for number in (2, 1, 1):
        world.publish("q", *[b"_AMQ_LVQ_NAME:%d\n\n" % n + b"x" * (3 * n + 1) for n in range(number)], durable=True)
    before = quota(world)
    reconfigure(world, max_size_messages=before[0] + 1)
    assert quota(world) == before
    assert refused(world.publish("q", b"_AMQ_LVQ_NAME:9\n\nx", seq=5)) == []


@pytest.mark.parametrize("routing", [ANYCAST, MULTICAST])
@pytest.mark.parametrize("limit", [{"max_size_messages": 5}, {"max_size_bytes": 5}])
@pytest.mark.parametrize("exists", [0, 1, 2])
def test_a_transaction_that_does_not_fit_is_refused(routing, limit, exists):
    """FAIL: its parts were checked one by one, each against what was there before all of them."""
    world = World(full_policy="FAIL", **limit)
    for n in range(exists if routing is MULTICAST else 0):
        world.subscribe(n + 1, routing=MULTICAST, queue=f"me.{n}", durable=True, ack=CLIENT, credit_messages=0)
    world.publish("q", *[b"x"] * (exists if routing is ANYCAST else 0))
    asked: limits.Asked = {}
    fits = {ANYCAST: 5 - exists, MULTICAST: {0: 5, 1: 5, 2: 3}[exists]}[routing]
    for _ in range(fits):
        world.engine.check(Publish(7, 1, 0, "q", routing, run_of(b"x")), asked)
    world.engine.check(Publish(7, 1, 0, "other", routing, run_of(b"x")), asked)
    with pytest.raises(RefusedError, match=f"{asked['q'][0]} of this transaction"):
        world.engine.check(Publish(7, 1, 0, "q", routing, run_of(b"x")), asked)
    with pytest.raises(RefusedError, match="is full"):
        world.engine.check(Publish(7, 1, 0, "q", routing, run_of(*[b"x"] * 10)), {})
    world.engine.check(Publish(7, 0, 0, "q", routing, run_of(*[b"x"] * 10)), {})  # a dead letter: never refused


def test_a_part_of_a_transaction_over_slots_that_does_not_fit_is_refused():
    world = World(full_policy="FAIL", max_size_messages=5)
    parts = [Publish(7, 1, 0, "q", ANYCAST, run_of(b"x")) for _ in range(6)]
    assert refused(world.do(Prepare(7, 1, 5, "tx", 3, parts))) == [Code.ADDRESS_FULL]
    assert refused(world.do(Prepare(7, 1, 6, "tx", 3, parts[:5]))) == []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 3), st.booleans(), st.sampled_from(["q", "t"])),
        st.tuples(st.just("subscribe"), st.sampled_from([AUTO, CLIENT, INDIVIDUAL]), st.sampled_from(["q", "t"])),
        st.tuples(st.just("settle"), st.integers(0, 99), st.sampled_from([Outcome.ACK, Outcome.NACK, Outcome.REJECT])),
        st.tuples(st.just("hold"), st.integers(0, 99)),
        st.tuples(st.just("leave"), st.integers(0, 99)),
        st.tuples(st.just("tick"), st.integers(1, 3000)),
        st.tuples(st.just("restart"), st.booleans()),
    ),
    max_size=40,
)


KINDS = [{}, {"ring_size": 3}, {"ring_bytes": 70}, {"ring_size": 2, "ring_dead_letters": True},
         {"last_value": True}, {"non_destructive": True, "ring_size": 4},
         {"purge_on_no_consumers": True}, {"exclusive": True, "expiry_delay_ms": 900}]  # fmt: skip


@settings(max_examples=300, deadline=None)
@example(
    [("subscribe", CLIENT, "q"), *[("publish", n, False, "q") for n in (1, 3, 2, 1)], ("subscribe", AUTO, "q")],
    {"last_value": True},
)
@example([("publish", n, True, "q") for n in (2, 1, 1)], {"last_value": True})
@example([("publish", n, False, "q") for n in (2, 1, 1)], {"last_value": True})
@given(steps, st.sampled_from(KINDS))
def test_books_are_what_a_recount_finds(plan: list, kind: dict):
    world = World(
        full_policy="BLOCK", max_size_messages=6, queue_memory_bytes=40, page_bytes=20, redelivery_delay_ms=500,
        max_delivery_attempts=3, auto_delete=False, **kind,
    )  # fmt: skip
    consumers: dict[int, str] = {}
    numbers = count(10)
    for step in plan:
        if step[0] == "publish":
            _, number, durable, name = step
            bodies = [b"_AMQ_LVQ_NAME:%d\n\n" % n + b"x" * (3 * n + 1) for n in range(number)]
            world.publish(name, *bodies, durable=durable, routing=ANYCAST if name == "q" else MULTICAST)
        elif step[0] == "subscribe":
            number = next(numbers)
            routing = ANYCAST if step[2] == "q" else MULTICAST
            world.subscribe(number, step[2], ack=step[1], routing=routing, credit_messages=3)
            consumers[number] = step[2]
        elif step[0] in ("settle", "hold", "leave") and consumers:
            number = sorted(consumers)[step[1] % len(consumers)]
            consumer = world.engine._slot.consumers.get(number)
            if step[0] == "leave":
                world.disconnect(number)
                del consumers[number]
            elif consumer is not None and consumer.ledger:
                named = [list(consumer.ledger)[step[1] % len(consumer.ledger)]]
                if step[0] == "settle":
                    world.do(Settle(7, number, 0, number, named, step[2]))
                else:
                    world.do(Hold(7, number, 0, number, named))
        elif step[0] == "tick":
            world.tick(step[1])
        elif step[0] == "restart":
            world.restart(clean=step[1])
            consumers.clear()
    slot = world.engine._slot
    kept = {name: (a.quota.messages, a.quota.nbytes) for name, a in slot.addresses.items()}
    usages = {q.id: (q.usage.messages, q.usage.nbytes) for q in slot.queues.values()}
    limits.configure(slot)
    again = {q.id: (q.usage.messages, q.usage.nbytes) for q in slot.queues.values()}
    assert {i: b[0] for i, b in usages.items()} == {i: b[0] for i, b in again.items()}
    assert {name: (a.quota.messages) for name, a in slot.addresses.items()} == {n: k[0] for n, k in kept.items()}
    if not any(step[0] == "restart" for step in plan):
        # Of what a last-value queue has paged out sizes are means: a byte more or less for each message.
        rounded = "last_value" in kind
        assert all(abs(usages[i][1] - again[i][1]) <= usages[i][0] * rounded for i in usages)
    reshape(world, full_policy="PAGE")
    assert all(q.usage is None for q in slot.queues.values())
    reshape(world, full_policy="BLOCK")
    assert again == {q.id: (q.usage.messages, q.usage.nbytes) for q in slot.queues.values()}


def reshape(world: World, most: int = 1, **changes: object) -> int:
    """The same as reconfigure() in pieces, as it is done while the slot serves. How many there were."""
    world.settings = replace(world.settings, address=replace(world.settings.address, **changes))
    change, pieces = world.engine.reconfigure(world.settings), 1
    while not world.engine.reshape(change, world.turn(), most):
        pieces += 1
    return pieces


def test_the_books_of_a_slot_are_made_some_queues_a_turn(monkeypatch: pytest.MonkeyPatch):
    world = World(auto_delete=False)
    for n in range(100):
        world.publish(f"q{n}", b"body")
    counted = []
    real = limits._count
    monkeypatch.setattr(limits, "_count", lambda queue: counted.append(queue) or real(queue))
    world.settings = replace(
        world.settings, address=replace(world.settings.address, full_policy="FAIL", max_size_messages=2)
    )
    change, most = world.engine.reconfigure(world.settings), 0
    while True:
        before = len(counted)
        left = world.engine.reshape(change, world.turn(), 10)
        most = max(most, len(counted) - before)
        world.publish("q99", b"more")  # anything may happen in between
        if left:
            break
    assert len(counted) == 100 and most <= 10
    sent = quota(world, "q99")[0]
    assert quota(world, "q0")[0] == 1 and sent > 10, "what came while it was not counted yet is"
    assert refused(world.publish("q99", b"more", seq=5)) == [Code.ADDRESS_FULL]
    # From one limit to another nothing is counted: the usages are right.
    reshape(world, 10, max_size_messages=100)
    assert len(counted) == 100 and refused(world.publish("q99", b"more", seq=5)) == []


@pytest.mark.parametrize("memory", [1 << 20, 30])
def test_a_queue_is_counted_with_what_waits_for_the_log_and_nothing_is_walked_over_for_that(memory):
    """What waits is as much as a slow disk lets gather: a walk over it for each piece of a change of settings was as
    long as clients had made it."""
    world = World(auto_commit=False, auto_delete=False, queue_memory_bytes=memory)
    for _ in range(10):
        world.publish("q", b"twelve bytes", durable=True)
    walked = []

    class Watched(type(world.engine.pending)):
        def __iter__(self):
            walked.append(1)
            return super().__iter__()

    pending, world.engine._slot.pending = world.engine.pending, Watched(world.engine.pending)
    reshape(world, 10, full_policy="FAIL", max_size_messages=100)
    assert quota(world) == (10, 120) and not walked
    world.engine._slot.pending = pending
    world.commit()
    world.settle_down()
    assert quota(world) == (10, 120)


def test_settings_that_change_in_the_middle_of_a_change_of_settings():
    world = World(auto_delete=False)
    for consumer in (1, 2, 3):
        world.subscribe(consumer, "t", ack=CLIENT, routing=MULTICAST, credit_messages=1)
    world.publish("t", b"a", b"b", routing=MULTICAST)
    assert len(world.engine.shown.addresses["t"].queues) == 3

    def begun(pieces: int, **changes: object) -> None:
        world.settings = replace(world.settings, address=replace(world.settings.address, **changes))
        change = world.engine.reconfigure(world.settings)
        for _ in range(pieces):
            world.engine.reshape(change, world.turn(), 1)

    for turn, (one, another) in enumerate(product(range(5), repeat=2), 1):
        begun(one, full_policy="BLOCK", max_size_messages=1000)
        begun(another, full_policy="PAGE")
        world.publish("t", b"c", routing=MULTICAST)
        begun(one, full_policy="FAIL", max_size_messages=2000)
        world.publish("t", b"d", routing=MULTICAST)
        reshape(world, full_policy="FAIL", max_size_messages=3000)
        kept = quota(world, "t")
        limits.configure(world.engine._slot)
        assert kept == quota(world, "t") and kept[0] == 3 * (2 + 2 * turn)
        reshape(world, full_policy="PAGE")


def test_of_what_consumers_hold_some_thousands_are_looked_at():
    world = World()
    world.subscribe(1, ack=CLIENT, credit_messages=10_000)
    for _ in range(80):
        world.publish("q", *[b"x" * 10] * 100)
    queue = next(iter(world.engine.shown.queues.values()))
    reshape(world, full_policy="FAIL", max_size_messages=20_000)
    assert limits._held(queue)[0] == limits._HELD < queue.delivering
    each = next(iter(world.engine.shown.consumers[1].ledger.values())).size_of(0)
    assert quota(world) == (8000, 8000 * each)


def test_what_waits_behind_selectors_is_counted_after_new_settings():
    world = World(full_policy="FAIL", max_size_messages=2000, queue_memory_bytes=4000, page_bytes=1000)
    world.subscribe(1, selector="color = 'red'")
    for _ in range(100):
        world.publish("q", *[b"color:blue\n\nbody\0"] * 10)
    assert next(iter(world.engine._slot.queues.values())).far
    before = quota(world)
    reconfigure(world, max_size_messages=1000)
    assert before[0] == quota(world)[0] == 1000 and quota(world)[1] > before[1] * 0.9
    assert refused(world.publish("q", b"one more", seq=5)) == [Code.ADDRESS_FULL]


class Ids(list):
    """Of a run of which others have left: nobody may look through them for each message."""

    def index(self, *_):
        raise AssertionError("a walk for each message that is held is the square of what a client holds")


def test_what_is_held_is_counted_without_a_walk_for_each_message():
    world = World(full_policy="FAIL", max_size_messages=10)
    world.subscribe(1, ack=CLIENT)
    world.publish("q", b"a", b"bb", b"ccc", b"dddd")
    held = world.engine.shown.consumers[1].ledger
    for run in held.values():
        run.ids = Ids(run.ids)
    before = quota(world)
    reconfigure(world, max_size_messages=20)
    assert quota(world) == before and before[0] == 4
    world.settle(1, list(held)[-1])
    assert quota(world) == (0, 0)


def test_what_comes_back_and_what_waits_for_its_redelivery_is_counted_anew():
    world = World(max_size_messages=100, full_policy="FAIL", redelivery_delay_ms=60_000)
    world.attach(1, ack=INDIVIDUAL)
    world.publish("q", b"a", b"b", b"c", durable=True)
    world.settle(1, ids(world.effects)[0], outcome=Outcome.NACK)
    before = quota(world)
    reconfigure(world, max_size_messages=50)
    assert quota(world) == before and before[0] == 3


def test_books_are_made_anew_so_many_addresses_at_a_time_and_so_many_queues():
    world = World(auto_delete=False, full_policy="FAIL", max_size_messages=10)
    for n in range(10):
        world.publish(f"q{n}", b"body")
    slot = world.engine._slot
    assert [sum(1 for _ in limits.recounting(slot, most)) for most in (1, 5, 100)] == [10 + 10, 2 + 2, 0]


def test_a_queue_with_many_deliveries_counts_as_several():
    world = World(full_policy="FAIL", max_size_messages=1000)
    world.subscribe(1, ack=INDIVIDUAL)
    for n in range(60):
        world.publish("q", b"%d" % n)  # runs of their own
    slot = world.engine._slot
    queue = next(iter(slot.queues.values()))
    queue.open_usage(None)
    assert limits.recount(slot, queue) == 4
