"""Many browsers with selectors over a long queue: a turn asks a bounded number of questions, and each in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.core.commands import Subscribe
from broker.core.effects import BrowseEnd, Effect
from broker.engine.consumers.browsers import TURN_NS
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
    """A queue all of whose messages have been looked at and wait, in a bucket for each colour."""
    world = World(**settings)
    world.do(
        *[Subscribe(7, 1, 0, 100 + n, "q0", ANYCAST, CLIENT, room=0, selector=f"c = '{n}'") for n in range(colours)]
    )
    world.do(Subscribe(7, 1, 0, 99, "q0", ANYCAST, CLIENT, selector="c = 'none'"))  # for whom all are looked at
    for n in range(messages):
        world.publish("q0", b"%04d" % n, lines=b"c:%d\n" % (n * 7 % colours), durable=True)
    world.in_pieces = True
    return world
