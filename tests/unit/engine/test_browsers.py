"""Many browsers with selectors over a long queue: a turn asks a bounded number of questions, and each in turn."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.commands import Subscribe
from broker.core.effects import BrowseEnd, Effect
from broker.engine.consumers import match_buckets
from broker.engine.consumers.browsers import TURN_NS
from broker.engine.consumers.match_buckets import Far
from broker.engine.queue import queue as queue_module
from broker.selector import Predicate

from .world import ANYCAST, AUTO, CLIENT, World, bodies, browse_ends, got

BROWSERS, MESSAGES = 50, 400


@pytest.fixture
def asked(monkeypatch) -> list[int]:
    """Of how many messages selectors were asked, call by call."""
    counts: list[int] = []
    select = Predicate.select

    def counted(self, run, address):
        counts.append(len(run.ids))
        return select(self, run, address)

    monkeypatch.setattr(Predicate, "select", counted)
    return counts


def full(queues: int = 1) -> World:
    world = World()
    for n in range(queues):
        world.publish(f"q{n}", *bodies(MESSAGES))
    world.in_pieces = True
    return world


def browse(*numbers: int, queue: str = "q0") -> list[Subscribe]:
    selectors = {n: f"nothing = 'x' OR other = '{n}'" for n in numbers}
    return [Subscribe(7, 1, 0, n, queue, ANYCAST, AUTO, browse=True, selector=selectors[n]) for n in numbers]


def turns(world: World, commands: list[Subscribe]) -> Iterator[list[Effect]]:
    """The effects of the turn with these, and of all that follow by themselves."""
    yield world.do(*commands)
    while world.engine.unfinished:
        yield world.do()


def test_no_turn_asks_more_than_it_may_and_everybody_comes_to_an_end(asked):
    """200 browsers of 50,000 messages stopped everybody for eleven seconds."""
    per_turn, ends = [], 0
    for effects in turns(full(), browse(*range(1, BROWSERS + 1))):
        per_turn.append(sum(asked))
        asked.clear()
        ends += browse_ends(effects)
        assert got(effects) == []
    assert ends == BROWSERS and sum(per_turn) == BROWSERS * MESSAGES
    assert max(per_turn) <= 1.3 * TURN_NS / 1000, "a question is thought to cost a microsecond"


def test_browsers_of_another_queue_have_their_turn_before_the_first_queue_is_done():
    order = [
        effect.consumer
        for effects in turns(full(2), [*browse(*range(1, BROWSERS + 1)), *browse(100, queue="q1")])
        for effect in effects
        if isinstance(effect, BrowseEnd)
    ]
    assert len(order) == BROWSERS + 1 and order.index(100) <= 3, order


def test_who_has_no_room_rests_and_goes_on_when_it_has():
    world = World()
    world.publish("q", *bodies(20))
    world.subscribe(1, browse=True, ack=CLIENT, room=3, selector="nothing IS NULL")
    assert not world.engine.unfinished
    while not browse_ends(world.effects):
        seen = len(got(world.effects))
        world.grant(1, 10)
        assert len(got(world.effects)) > seen or browse_ends(world.effects)
    assert got(world.effects) == bodies(20)


def test_who_leaves_in_the_middle_is_asked_no_more(asked):
    world = full()
    world.do(*browse(*range(1, BROWSERS + 1)))
    assert world.engine.unfinished
    world.disconnect(1)
    asked.clear()
    world.do()
    assert not world.engine.unfinished and asked == [] and not world.engine._slot.consumers


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


@pytest.mark.parametrize("selector", [None, "nothing IS NULL"])
def test_a_consumer_of_what_is_on_the_disk_and_a_browser_have_pages_by_turns(selector):
    """Whoever consumed had the next page asked for before a browser could: it saw nothing until all was consumed."""
    world = World(queue_memory_bytes=60, page_bytes=24)
    count = 600
    for body in bodies(count):
        world.publish("q", body, durable=True)
    world.auto_commit = False
    world.subscribe(2, browse=True, room=1 << 20)
    world.subscribe(1, selector=selector)
    pages = {1: 0, 2: 0}
    while world.engine.pending or world.fetches or world.engine.unfinished:
        before = len(world.effects)
        if world.engine.pending:
            world.commit()
        if world.fetches:
            world.serve()
        for number in pages:
            pages[number] += bool(got(world.effects[before:], number))
        if len(got(world.effects, 1)) > count // 2:
            break
    assert pages[2] >= pages[1] // 2 - 3, "one after the other"
    world.auto_commit = True
    world.settle_down()
    assert got(world.effects, 1) == bodies(count) and browse_ends(world.effects) == 1


def sorted_out(messages: int, colours: int = 40, **settings: int) -> World:
    """A queue all of whose messages have been looked at and wait, in a lane for each colour."""
    world = World(**settings)
    world.do(
        *[Subscribe(7, 1, 0, 100 + n, "q0", ANYCAST, CLIENT, room=0, selector=f"c = '{n}'") for n in range(colours)]
    )
    world.do(Subscribe(7, 1, 0, 99, "q0", ANYCAST, CLIENT, selector="c = 'none'"))  # for whom all are looked at
    for n in range(messages):
        world.publish("q0", b"%04d" % n, lines=b"c:%d\n" % (n * 7 % colours), durable=True)
    world.in_pieces = True
    return world


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
    first = far.take(1500)
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
                assert far.take(value) == model[:value]
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
