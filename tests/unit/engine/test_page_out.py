"""Putting out of memory what queues have, and the account of what they have."""

from __future__ import annotations

import random

import pytest

from broker.core.address import Outcome
from broker.core.effects import Deliver
from broker.core.memory import MESSAGE, RUN, UNACKNOWLEDGED
from broker.core.message import PART, TRANSIENT
from broker.core.records import RunRecord
from broker.engine.messages.page_index import PageIndex
from broker.engine.messages.runs import copy

from .world import AUTO, CLIENT, INDIVIDUAL, MULTICAST, World, again, bodies, got, ids


def squeeze(world: World, room: int = 1, most: int = 1000, spill: bool = True, returned: bool = True) -> int:
    """As the owner does it when memory is short."""
    slot = world.engine._slot
    slot.budget.room = room
    world.engine.make_room()
    turn = world.turn()
    gone = sum([world.engine.put_away(q, most, turn, spill, returned) for q in world.engine.queues()])
    world.finish(turn)
    return gone


def ease(world: World) -> None:
    world.engine._slot.budget.room = 1 << 62
    world.engine.make_room()


def recount(world: World) -> int:
    """What the account is to have of the queues, from what is really there."""
    total = 0
    for queue in world.engine.queues():
        runs = [run for store in queue.stores() for run in store]
        waiting = [run for held in world.engine._slot.pending for q, run, paged in held.entries if q is queue]
        resting = [run for h in world.engine._slot.pending for q, run, paged in h.entries if q is queue and not paged]
        delayed = [run for _, run in queue.delayed]
        total += sum(run.nbytes for run in [*runs, *resting, *delayed])
        total += RUN * (len(runs) + len(waiting) + len(delayed)) + MESSAGE * sum(len(run.ids) for run in runs)
        for consumer in queue.consumers:
            held = dict(consumer.ledger or {})
            total += sum(run.size_of(run.ids.index(i)) + UNACKNOWLEDGED for i, run in held.items())
            for run in consumer.flight or ():
                total += run.nbytes + UNACKNOWLEDGED * len(run.ids)
        total += 8 * len(queue.pages.index) + 100 * len(queue.tries.counts)
    return total


@pytest.mark.parametrize("front", [0, 1, 700, 1024, 3000])
def test_an_index_takes_positions_at_its_front(front):
    index, expected = PageIndex(), []
    for position in range(2500):
        index.append(position)
        expected.append(position)
    for drop, add in ((0, front), (700, front), (2000, 5), (1, front)):
        index.drop(min(drop, len(index)))
        del expected[:drop]
        more = list(range(10_000, 10_000 + add))
        index.prepend(more)
        expected[:0] = more
        assert list(index) == expected and len(index) == len(expected)
        assert all(index.at(at) == expected[at] for at in range(0, len(expected), 97))
        assert list(index.first(1500)) == expected[:1500]
    index.append(7)
    assert list(index) == [*expected, 7]


@pytest.mark.parametrize("durable", [True, False])
def test_a_queue_within_its_own_limit_goes_to_disk_and_comes_back_in_order(durable):
    world = World()
    for body in bodies(100):
        world.publish("q", body, durable=durable)
    queue = world.engine._slot.queues[1]
    before = world.engine._slot.budget.memory.queues
    assert squeeze(world) == 100
    assert not queue.count and len(queue.pages.index) == 100 and queue.pages.fetching is None
    assert world.engine._slot.budget.memory.queues < before / 20
    for body in bodies(20, 100):
        world.publish("q", body, durable=durable)  # behind them, whatever room there is by now
    ease(world)
    world.subscribe(1)
    assert got(world.effects) == bodies(120)
    assert not queue.pages.paging


def test_what_was_paged_before_stays_behind_what_is_put_away():
    world = World(queue_memory_bytes=60, page_bytes=24)
    for body in bodies(60):
        world.publish("q", body)
    queue = world.engine._slot.queues[1]
    assert queue.count == 20 and len(queue.pages.index) == 40
    assert squeeze(world, most=7) == 7 and squeeze(world) == 13
    ease(world)
    world.subscribe(1)
    assert got(world.effects) == bodies(60)


def test_nothing_is_out_of_order_while_it_is_written():
    world = World(auto_commit=False)
    for body in bodies(10):
        world.publish("q", body)
    squeeze(world, room=5 * (RUN + MESSAGE + 3))
    queue = world.engine._slot.queues[1]
    assert 0 < queue.count < 10 and queue.gate.pages == 10 - queue.count and not len(queue.pages.index)
    world.publish("q", b"new")
    world.subscribe(1)
    assert not world.fetches
    ease(world)
    world.auto_commit = True
    world.settle_down()
    world.settle_down()
    assert got(world.effects) == [*bodies(10), b"new"]


def test_a_queue_that_is_deleted_while_it_is_written_is_gone():
    world = World(auto_commit=False, auto_delete=False)
    world.subscribe(1, "t", routing=MULTICAST, room=1)
    for body in bodies(10):
        world.publish("t", body, routing=MULTICAST)
    assert squeeze(world)
    world.unsubscribe(1, address="t")
    world.settle_down()
    assert world.stats() == [] and world.engine._slot.budget.memory.queues == 0


def test_without_room_on_the_disk_only_what_it_has_is_put_away():
    world = World()
    for body in bodies(10):
        world.publish("q", body)
    assert not squeeze(world, spill=False)
    ease(world)
    for body in bodies(10):
        world.publish("d", body, durable=True)
    assert squeeze(world, spill=False) == 10


def test_the_rest_of_a_run_is_not_put_away_for_the_whole():
    world = World()
    world.publish("q", *bodies(10), durable=True)
    world.publish("q", *bodies(10, 10), durable=True)
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=3)
    assert got(world.effects) == bodies(3)
    assert squeeze(world) == 1
    queue = world.engine._slot.queues[1]
    assert queue.count == 7 and len(queue.pages.index) == 1
    ease(world)
    world.subscribe(2)
    assert got(world.effects, 2) == bodies(17, 3)


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("mode", [CLIENT, INDIVIDUAL])
def test_deliveries_that_came_back_go_to_disk_with_what_is_known_of_them(durable, mode):
    world = World()
    for body in bodies(50):
        world.publish("q", body, durable=durable)
    world.subscribe(1, ack=mode)
    world.settle(1, *ids(world.effects)[:1])
    world.settle(1, ids(world.effects)[1], outcome=Outcome.NACK)
    world.effects.clear()
    world.disconnect(1)
    queue = world.engine._slot.queues[1]
    before = queue.count
    gone = squeeze(world)
    # What is not durable bears its history in memory alone.
    assert gone == (before if durable else 0)
    world.effects.clear()
    ease(world)
    world.subscribe(2)
    found = again(world.effects)
    assert [body for body, *_ in found] == bodies(50)[50 - len(found) :]
    assert all(redelivered for *_, redelivered in found) and found[-1][1] == 1
    assert not squeeze(world, returned=False)


def test_what_came_back_stays_where_others_may_ask_for_it():
    world = World()
    for body in bodies(10):
        world.publish("q", body, durable=True)
    world.subscribe(1, ack=INDIVIDUAL)
    world.disconnect(1)
    assert not squeeze(world, returned=False)


def test_priorities_go_from_below_and_come_back_by_rank():
    world = World()
    for n, body in enumerate(bodies(40)):
        world.publish("q", body, durable=bool(n % 2), priority=9 if n % 4 < 2 else 1)
    expected = [b for n, b in enumerate(bodies(40)) if n % 4 < 2] + [b for n, b in enumerate(bodies(40)) if n % 4 > 1]
    assert squeeze(world) == 40
    ease(world)
    world.subscribe(1)
    assert got(world.effects) == expected


def test_a_run_that_compaction_has_taken_apart_does_not_come_twice():
    world = World()
    world.publish("q", *bodies(4), durable=True)
    world.publish("q", *bodies(2, 4), durable=True)
    squeeze(world)
    world.auto_commit = False
    ease(world)
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    fetch = world.fetches.pop()
    runs = [copy(world.runs[position]) for position in fetch.positions]
    turn = world.turn()
    parts = [runs[0].cut(slice(1)), runs[0].cut(slice(1, None))]
    for part in parts:
        part.flags &= ~PART  # as the journal gives them
    world.engine.fetched(fetch.queue, [*parts, runs[1]], turn)
    world.finish(turn)
    world.auto_commit = True
    squeeze(world)
    ease(world)
    world.subscribe(2, ack=INDIVIDUAL)
    world.settle(1, *ids(world.effects, 1))
    world.settle_down()
    assert sorted(got(world.effects)) == bodies(6)


def test_what_was_put_away_survives_a_crash_and_what_is_not_durable_does_not():
    world = World()
    for n, body in enumerate(bodies(40)):
        world.publish("q", body, durable=n % 3 > 0)
    squeeze(world)
    world.restart()
    world.subscribe(1)
    assert got(world.effects) == [body for n, body in enumerate(bodies(40)) if n % 3]


def test_a_consumer_that_waits_for_credit_keeps_what_it_gets_next():
    world = World()
    for body in bodies(30):
        world.publish("q", body, durable=True)
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    squeeze(world)
    assert world.engine._slot.queues[1].count
    seen = 0
    while seen < 30:
        named = ids(world.effects)[seen:]
        assert named
        seen += len(named)
        world.settle(1, *named)
    assert got(world.effects) == bodies(30)


def test_under_pressure_pages_are_small_and_everything_still_comes():
    world = World()
    for body in bodies(300):
        world.publish("q", body, durable=True)
    squeeze(world, room=10 * (RUN + MESSAGE))
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=2)
    seen, most = 0, 0
    while seen < 300:
        named = ids(world.effects)[seen:]
        assert named
        seen += len(named)
        world.settle(1, *named)
        most = max(most, world.engine._slot.queues[1].count)
    assert got(world.effects) == bodies(300) and most <= 20


def test_what_comes_back_later_is_not_overtaken():
    world = World()
    for body in bodies(6):
        world.publish("q", body, durable=True)
    world.subscribe(1, ack=INDIVIDUAL, credit_messages=1)
    world.subscribe(2, ack=INDIVIDUAL, credit_messages=1)
    world.disconnect(1)
    assert got(world.effects) == bodies(2)
    squeeze(world)
    world.disconnect(2)
    ease(world)
    world.effects.clear()
    world.subscribe(3)
    assert got(world.effects) == bodies(6)


@pytest.mark.parametrize("seed", range(12))
def test_the_account_is_what_a_recount_finds_and_order_holds(seed):
    """Random operations; messages of one size, so that means are exact."""
    draw = random.Random(seed)
    world = World(
        max_delivery_attempts=-1, auto_delete=False, queue_memory_bytes=draw.choice([90, 4000]), page_bytes=64
    )
    sent: dict[str, list[bytes]] = {"q": [], "r": []}
    out: list[tuple[int, int]] = []
    seen, consumer, alive = 0, 0, {}
    first: dict[str, list[bytes]] = {"q": [], "r": []}
    number = 0

    def drain() -> None:
        nonlocal seen
        new = [
            (i, e.consumer, record)
            for e in world.effects[seen:]
            if isinstance(e, Deliver)
            for i, record in zip(e.run.ids, e.run.records, strict=True)
        ]
        for i, who, record in sorted(new):  # two consumers of a turn have each their share of a run
            if record not in first[alive[who]]:
                first[alive[who]].append(record)
            out.append((who, i))
        seen = len(world.effects)

    for _ in range(300):
        kind = draw.random()
        if kind < 0.4:
            name = draw.choice("qr")
            more = bodies(draw.randint(1, 4), number)
            number += len(more)
            sent[name] += more
            world.publish(name, *more, durable=draw.random() < 0.6)
        elif kind < 0.5 and len(alive) < 3:
            consumer += 1
            alive[consumer] = draw.choice("qr")
            world.subscribe(consumer, alive[consumer], ack=INDIVIDUAL, credit_messages=draw.randint(1, 9))
        elif kind < 0.75 and out:
            who, what = out.pop(draw.randrange(len(out)))
            world.settle(who, what)
        elif kind < 0.8 and alive:
            who = draw.choice(list(alive))
            drain()
            name = alive.pop(who)
            out = [(c, i) for c, i in out if c != who]
            world.disconnect(who)
        elif kind < 0.95:
            squeeze(world, draw.choice([1, 300, 1500]), draw.randint(1, 9), draw.random() < 0.7)
            if draw.random() < 0.5:
                ease(world)
        drain()
        assert world.engine._slot.budget.memory.queues == recount(world)
    ease(world)
    for who in list(alive):
        world.disconnect(who)
    for name in "qr":
        if sent[name]:
            alive[consumer := consumer + 1] = name
            world.subscribe(consumer, name, ack=AUTO)
    drain()
    for name in "qr":
        assert first[name] == sent[name]
    assert world.engine._slot.budget.memory.queues == recount(world)


def test_what_is_written_on_its_way_out_is_of_no_restart():
    world = World()
    for body in bodies(3):
        world.publish("q", body)
    squeeze(world)
    spilled = [r.run for _, r in world.log if isinstance(r, RunRecord)]
    assert len(spilled) == 3 and all(run.flags & TRANSIENT for run in spilled)
