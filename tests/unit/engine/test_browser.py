"""Browsers: everything once, in order, and nothing taken or copied."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.commands import Subscribe
from broker.core.errors import Code
from broker.engine.consumers import match_buckets
from broker.engine.consumers.match_buckets import Far
from broker.engine.queue import queue as queue_module

from .test_browsers import sorted_out, turns
from .world import (
    ANYCAST,
    AUTO,
    CLIENT,
    MULTICAST,
    World,
    bodies,
    browse_ends,
    closed,
    got,
    refused,
)


def test_a_browser_sees_everything_once_and_takes_nothing():
    world = World(queue_memory_bytes=30, page_bytes=12)
    world.publish("q", b"urgent", priority=7)
    for n in range(20):
        world.publish("q", *bodies(2, 2 * n), durable=n % 2 == 0)
    assert world.queue()["paged"] > 20
    world.effects.clear()
    world.subscribe(1, browse=True, ack=CLIENT, room=20)
    while not browse_ends(world.effects):
        world.grant(1, 20)
    assert got(world.effects) == [b"urgent", *bodies(40)] and browse_ends(world.effects) == 1
    queue = world.queue()
    assert queue["ready"] + queue["paged"] == 41
    world.unsubscribe(1)
    world.subscribe(2)
    assert got(world.effects, 2) == [b"urgent", *bodies(40)]


def test_a_deleted_queue_closes_browsers_that_watch_it():
    world = World()
    world.subscribe(1, "t", routing=MULTICAST, queue="me.s", durable=True)
    world.do(Subscribe(7, 2, 0, 2, "t", MULTICAST, AUTO, queue="me.s", durable=True, browse=True))
    world.unsubscribe(1, address="t", delete="me.s")
    assert closed(world.effects) == [2]
    assert refused(world.unsubscribe(2, address="t")) == [Code.NO_SUCH_SUBSCRIPTION]


def test_to_look_at_a_million_messages_on_the_disk_copies_nothing():
    """46 ms and 8 MB for each browser that came."""
    world = World()
    world.publish("q", b"0")
    queue = world.engine._slot.queues[1]
    queue.pages.index.extend(range(1, 1_000_001))
    tracemalloc.start()
    world.engine.handle(Subscribe(7, 1, 0, 1, "q", ANYCAST, AUTO, browse=True), world.turn())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    (browser,) = queue.browsers
    queue.pages.index.drop(5000)
    queue.pages.index.append(77)
    assert browser.places.size == 1_000_000 and list(browser.next_positions(3)) == [1, 2, 3]


def test_what_waits_for_selectors_is_put_in_order_while_it_is_shown(compared):
    """A browser that came to a queue whose consumers have selectors sorted all that was ready, 48 ms of it."""
    world = sorted_out(3000)
    seen, per_turn = [], []
    for effects in turns(world, [Subscribe(7, 2, 0, 1, "q0", ANYCAST, AUTO, browse=True, room=1 << 20)]):
        seen += got(effects)
        per_turn.append(compared[0])
        compared[0] = 0
    assert seen == [b"%04d" % n for n in range(3000)], "in their order"
    assert max(per_turn) <= 1700 and sum(per_turn) >= 3000


@pytest.mark.parametrize("memory", [1 << 30, 4000])
def test_what_is_consumed_while_a_browser_looks_moves_nothing_under_it(memory):
    """In memory, or known by number only."""
    world = sorted_out(3000, queue_memory_bytes=memory, page_bytes=memory // 4)
    (queue,) = world.engine.queues()
    assert bool(queue.far) is (memory == 4000)
    seen = got(world.do(Subscribe(7, 2, 0, 1, "q0", ANYCAST, AUTO, browse=True, room=200)), 1)
    for n in range(20):
        world.grant(100 + n, 1 << 20)  # each takes what it wants of all that the browser has still to see
    assert queue.delivering == 1500
    world.effects.clear()
    while not browse_ends(world.effects):
        world.effects.clear()
        world.grant(1, 200)
        seen += got(world.effects, 1)
    if memory == 4000:  # what has gone since may be seen or not; what is in memory comes first
        rest = [b"%04d" % n for n in range(3000) if n * 7 % 40 >= 20]
        assert sorted(body for body in seen if int(body) * 7 % 40 >= 20) == rest and len(set(seen)) == len(seen)
    else:
        assert seen == [b"%04d" % n for n in range(3000)]


def test_to_look_at_a_million_messages_known_by_number_copies_nothing():
    far = Far()
    for position in range(1000):
        far.add(range(position * 1000 + 1, position * 1000 + 1001), position + 1)
    tracemalloc.start()
    shown = far.all()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(far) == 1_000_000 and peak < 100_000
    first = far.pop(1500)
    far.add((1_000_001, 1600), 7)
    assert len(far.withdraw([(1601, 1700)])) == 100
    assert [next(shown) for _ in range(1500)] == first
    rest = list(shown)
    assert [i for i, _ in rest] == list(range(1501, 1_000_001)) and (1600, 2) in rest and (1600, 7) in far.all()


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.lists(st.integers(1, 60), min_size=1, max_size=5, unique=True).map(sorted)),
            st.tuples(st.just("take"), st.integers(0, 20)),
            st.tuples(st.just("withdraw"), st.integers(1, 60)),
            st.tuples(st.just("look"), st.just(0)),
        )
    )
)
def test_far_in_pieces_is_a_sorted_list(steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(match_buckets, "_PIECE", 4)
        far, model, looks = Far(), [], []
        for what, value in steps:
            if what == "add":
                new = [i for i in value if i not in dict(model)]
                far.add(new, 5)
                model = sorted([*model, *((i, 5) for i in new)])
            elif what == "take":
                assert far.pop(value) == model[:value]
                model = model[value:]
            elif what == "withdraw":
                gone = [entry for entry in model if value <= entry[0] < value + 10]
                assert far.withdraw([(value, value + 9)]) == gone
                model = [entry for entry in model if entry not in gone]
            else:
                looks.append((far.all(), model))
            assert len(far) == len(model) and list(far.all()) == model
            assert not model or far.first() == model[0][0]
        for shown, then in looks:
            assert list(shown) == then


@pytest.fixture
def compared(monkeypatch) -> list[int]:
    """How often the place of a run among the others was asked for."""
    count = [0]
    rank = queue_module._rank

    def counted(run):
        count[0] += 1
        return rank(run)

    monkeypatch.setattr(queue_module, "_rank", counted)
    return count
