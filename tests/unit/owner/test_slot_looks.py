"""Whatever happens, a look that reads only what has changed tells what one tells that reads everything."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings
from broker.core.address import Outcome
from broker.core.commands import Act, Decide, Disconnect, Manage, Prepare, Publish, Settle
from broker.core.pages import Ask
from broker.engine.engine import Engine
from broker.engine.state import queue_changes
from broker.engine.state.queue_views import QUEUE_VALUES
from broker.owner.shard.slot_looks import QueueListLook, TotalsLook
from broker.owner.shard.views import Views
from tests.unit.engine.world import ANYCAST, AUTO, INDIVIDUAL, MULTICAST, World, bodies, run_of

JOURNAL = SimpleNamespace(disk_bytes=lambda: 7, free_bytes=9, space=SimpleNamespace(name="ENOUGH"))
CLOCK: Any = SimpleNamespace(wall_ms=lambda: 1_000_000, monotonic=lambda: 0.0)
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"kind": "totals"},
    {"kind": "queues", "limit": 3, "sort": "messages", "descending": True},
    {"kind": "queues", "limit": 2, "sort": "name", "descending": False, "filled": True},
    {"kind": "queues", "limit": 9, "sort": "delivering", "descending": True, "paused": False},
    {"kind": "queues", "limit": 2, "sort": "consumers", "descending": True, "consumed": True},
    {"kind": "queues", "limit": 4, "sort": "bytes", "descending": False, "after": [2, ["q2", "q2", 7]]},
    {"kind": "queues", "limit": 2, "sort": "waiting", "descending": True, "q": "q1"},
    {"kind": "queues", "limit": 2, "sort": "scheduled", "descending": True, "type": "subscription"},
    {"kind": "addresses", "limit": 2, "sort": "name", "descending": False},
    {"kind": "addresses", "limit": 2, "sort": "queues", "descending": True, "q": "q"},
)
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"addresses": {"q1": {"paused": True}, "q2": {"ring_size": 2}}},
    {"queues": {"q3": {"address": "q3"}, "made": {"address": "made"}}, "addresses": {"q4": {"non_destructive": True}}},
)


def answer(views: Views, question: dict[str, Any]) -> Any:
    work = views.answer(question)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


class History:
    """A broker of two slots, to one of which things happen; the other rests."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World(
            self.chance.random() < 0.5, queue_memory_bytes=60, page_bytes=30, max_delivery_attempts=2,
            dead_letter_address="q0", redelivery_delay_ms=self.chance.choice((0, 50)), auto_delete_delay_ms=200,
        )  # fmt: skip
        quiet = World()
        quiet.publish("still", *bodies(2))
        quiet.engine.number = quiet.engine._slot.number = 8
        self.shard: Any = SimpleNamespace(
            engines={7: self.world.engine, 8: quiet.engine}, journal=JOURNAL, latencies=None
        )
        self.prepared: list[str] = []

    @property
    def engine(self) -> Engine:
        return self.world.engine

    def act(self) -> None:
        """Anything that may happen to a slot."""
        chance, world = self.chance, self.world
        self.name = f"q{chance.randrange(6)}"
        chance.choice((
            self._publish, self._publish, self._consume, self._settle, self._confirm, self._leave, self._manage,
            self._subscribe, self._time, self._commit, self._prepare, self._decide, self._settings, self._to_another,
            self._give_room,
        ))()  # fmt: skip
        self.shard.engines[7] = world.engine

    def _publish(self) -> None:
        chance = self.chance
        kinds: dict[str, Any] = {"durable": chance.random() < 0.5, "priority": chance.choice((4, 4, 9))}
        if chance.random() < 0.2:
            kinds["expires"] = self.world.now + 30
        run = run_of(*bodies(chance.randrange(1, 5)), **kinds)
        if chance.random() < 0.2:
            run.due = self.world.now + chance.choice((10, 1000))
        routing = chance.choice((ANYCAST, ANYCAST, MULTICAST))
        self.world.do(Publish(7, 1, 0, self.name if routing is ANYCAST else "topic", routing, run))

    def _consume(self) -> None:
        number, ack = self.chance.randrange(1, 1000), self.chance.choice((INDIVIDUAL, INDIVIDUAL, AUTO))
        self.world.attach(number, ack=ack, address=self.name, credit_messages=2)

    def _subscribe(self) -> None:
        name = f"s{self.chance.randrange(3)}"
        if self.chance.random() < 0.7:
            self.world.subscribe(
                self.chance.randrange(1000, 2000), "topic", INDIVIDUAL, MULTICAST, queue=name, durable=True
            )  # fmt: skip
        else:
            self.world.unsubscribe(0, session=1, address="topic", delete=name)

    def _consumer(self) -> Any:
        consumers = [*self.engine.shown.consumers.values()]
        return self.chance.choice(consumers) if consumers else None

    def _settle(self) -> None:
        consumer = self._consumer()
        held = [*(consumer.ledger or ())] if consumer else []
        if held:
            outcome = self.chance.choice((Outcome.ACK, Outcome.NACK, Outcome.RETURN, Outcome.REJECT))
            self.world.do(Settle(7, consumer.session, 0, consumer.id, held[:1], outcome))

    def _confirm(self) -> None:
        if (consumer := self._consumer()) is not None:
            self.world.confirm(consumer.id, 1)

    def _give_room(self) -> None:
        if (consumer := self._consumer()) is not None:
            self.world.grant(consumer.id, 50)

    def _leave(self) -> None:
        if sessions := [*self.engine.shown.sessions]:
            self.world.do(Disconnect(7, self.chance.choice(sessions)))

    def _manage(self) -> None:
        found = [queue for queue in self.engine.shown.queues.values() if not queue.hidden]
        if found:
            queue, what = self.chance.choice(found), self.chance.choice((Act.PAUSE, Act.RESUME, Act.PURGE, Act.DELETE))
            self.world.do(Manage(7, 5, 0, what, queue.address, queue.name, force=True))

    def _time(self) -> None:
        self.world.tick(self.chance.choice((1, 60, 1500)))

    def _commit(self) -> None:
        if self.world.fetches and self.chance.random() < 0.5:
            self.world.serve()
        else:
            self.world.commit()

    def _prepare(self) -> None:
        consumer = self._consumer()
        parts: list[Any] = [Publish(7, 50, 0, self.name, ANYCAST, run_of(*bodies(2), durable=True))]
        if consumer is not None and consumer.ledger:
            parts.append(Settle(7, consumer.session, 0, consumer.id, [*consumer.ledger][:1]))
        tx = f"t{self.chance.randrange(10_000)}"
        self.prepared.append(tx)
        self.world.do(Prepare(7, 50, 1, tx, 99, parts))

    def _decide(self) -> None:
        if self.prepared:
            self.world.do(Decide(7, 50, 2, self.prepared.pop(), self.chance.random() < 0.5))

    def _settings(self) -> None:
        """Half of the time with a look between two pieces."""
        new = EngineSettings(address=AddressSettings(auto_delete=False), **self.chance.choice(SETTINGS))
        turn = self.world.turn()
        change = self.engine.reconfigure(new)
        while not self.engine.reshape(change, turn, 3):
            if self.chance.random() < 0.5:
                break
        self.engine.declare(turn)
        if self.chance.random() < 0.5:
            self.check(Views(self.shard, CLOCK, later=lambda seconds, then: None))
        self.world.finish(turn)

    def _to_another(self) -> None:
        """Another owner leads the slot, and has it from the log."""
        if self.chance.random() < 0.1:
            self.world.settle_down()
            self.world.restart()

    def check(self, views: Views) -> None:
        for question in QUESTIONS:
            fresh = answer(Views(self.shard, CLOCK), question)
            assert answer(views, question) == fresh, question


@pytest.mark.parametrize("most", [500, 3])
@pytest.mark.parametrize("seed", range(10))
def test_an_answer_is_the_same_with_and_without(seed, most, monkeypatch):
    monkeypatch.setattr(queue_changes, "MOST", most)
    history = History(seed)
    views = Views(history.shard, CLOCK, later=lambda seconds, then: None)
    for _ in range(150):
        history.act()
        history.check(views)


@pytest.mark.parametrize("seed", range(10))
def test_many_look_at_once_while_things_happen(seed, monkeypatch):
    monkeypatch.setattr(queue_changes, "MOST", 20)
    history = History(seed)
    views = Views(history.shard, CLOCK, later=lambda seconds, then: None)
    under_way: list[Any] = []
    for _ in range(150):
        for _ in range(history.chance.randrange(4)):
            history.act()
        under_way += [views.answer(history.chance.choice(QUESTIONS)) for _ in range(history.chance.randrange(3))]
        for work in list(under_way):
            for _ in range(history.chance.randrange(6)):
                if next(work, None) is None and work.gi_frame is None:
                    under_way.remove(work)
                    break
        if history.chance.random() < 0.1:
            under_way.clear()  # who has asked went away
        if history.chance.random() < 0.2:
            history.check(views)


def read(look: Any) -> Any:
    """What it finds, and how many queues were read for that."""
    seen: list[int] = []
    real = type(look)._read
    look._read = lambda ids, first: (seen.extend(ids), real(look, ids, first))
    work = look.again()
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, len(seen)


@pytest.fixture
def many() -> World:
    world = World(auto_delete=False)
    for n in range(300):
        world.publish(f"q{n:03}", *bodies(1 + n % 3))
    return world


def busiest(world: World, **more: Any) -> QueueListLook:
    return QueueListLook(world.engine.shown, Ask(8, "messages", True, **more), QUEUE_VALUES["messages"], None)


def test_only_what_has_changed_is_read(many):
    totals, list = TotalsLook(many.engine.shown), busiest(many)
    assert read(totals)[1] == read(list)[1] == 300
    many.publish("q007", b"x")
    many.publish("new", b"x")
    many.do(Manage(7, 5, 0, Act.DELETE, "q299", "q299"))
    (sums, _), count = read(totals)
    assert count == 3 and sums["queues"] == 300 and sums["waiting"] == 600 + 2 - 3
    page, count = read(list)
    assert count == 3 and page.total == 300
    assert read(list) == (page, 0) and read(list)[0] is page, "the same one"
    many.publish("q001", *bodies(9))
    page, count = read(list)
    assert count == 1 and page.entries[0][1][1].name == "q001"


def test_a_queue_that_comes_to_the_top_again_and_again_costs_a_read_each_time(many):
    list = busiest(many)
    read(list)
    for turn in range(200):
        many.publish("q000", *bodies(5))
        page, count = read(list)
        assert count == 1 and page.entries[0][1][1].name == "q000"
        many.do(Manage(7, 5, 0, Act.PURGE, "q000", "q000"))
        page, count = read(list)
        assert count == 2 and page.entries[0][1][1].name != "q000", turn


def test_all_are_read_when_too_few_are_known_to_be_at_the_top(many):
    list = busiest(many)
    read(list)
    counts = []
    for n in range(2, 300, 3):  # those with the most
        many.do(Manage(7, 5, 0, Act.PURGE, f"q{n:03}", f"q{n:03}"))
        page, count = read(list)
        assert [entry[1].count for _, entry in page.entries] == sorted(
            [queue.count for queue in many.engine.shown.queues.values()], reverse=True
        )[:8]
        counts.append(count)
    assert sorted(counts)[-3] == 2 and counts.count(2) > 95, "and seldom"


def test_all_are_read_when_too_many_have_changed(many, monkeypatch):
    monkeypatch.setattr(queue_changes, "MOST", 10)
    totals = TotalsLook(many.engine.shown)
    read(totals)
    for n in range(11):
        many.publish(f"q{n:03}", b"x")
    assert not many.engine.shown.changed.on, "nobody marks any more what is read as a whole"
    (sums, _), count = read(totals)
    assert count == 300 and sums["waiting"] == 611


def test_what_others_have_read_is_not_read_again(many):
    """Five consoles that ask at the same moment."""
    totals = TotalsLook(many.engine.shown)
    looks = [totals.again() for _ in range(5)]
    seen: list[int] = []
    real = TotalsLook._read
    totals._read = lambda ids, first: (seen.extend(ids), real(totals, ids, first))  # type: ignore[method-assign]
    told = []
    while looks:
        for look in list(looks):
            try:
                next(look)
            except StopIteration as end:
                told.append(end.value)
                looks.remove(look)
    assert len(seen) == 300 and all(each == told[0] for each in told)
    assert json.dumps(told[0]) == json.dumps(read(TotalsLook(many.engine.shown))[0])
