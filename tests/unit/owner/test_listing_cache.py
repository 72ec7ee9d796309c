"""What is kept of slots at rest is what is so: whatever happens, an answer with it is the answer without."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.address import Outcome
from broker.core.commands import Act, Disconnect, Manage, Settle
from broker.owner.shard import listing_cache
from broker.owner.shard.listing_cache import FORGET_S, GROUP, KnownSlots
from broker.owner.shard.views import Views
from tests.unit.engine.world import INDIVIDUAL, World, bodies

JOURNAL = SimpleNamespace(disk_bytes=lambda: 7, free_bytes=9, space=SimpleNamespace(name="ENOUGH"))
QUESTIONS: tuple[dict[str, Any], ...] = (
    {"kind": "totals"},
    {"kind": "queues", "limit": 3, "sort": "messages", "descending": True},
    {"kind": "queues", "limit": 2, "sort": "name", "descending": False, "filled": True},
    {"kind": "queues", "limit": 9, "sort": "delivering", "descending": True, "paused": False},
    {"kind": "addresses", "limit": 2, "sort": "name", "descending": False},
)


def answer(views: Views, question: dict[str, Any]) -> Any:
    work = views.answer(question)
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def act(world: World, chance: random.Random) -> None:
    name = f"q{chance.randrange(6)}"
    match chance.randrange(7):
        case 0 | 1:
            world.publish(name, *bodies(chance.randrange(1, 4)), durable=chance.random() < 0.5)
        case 2:
            world.attach(chance.randrange(1, 1000), ack=INDIVIDUAL, address=name, credit_messages=2)
        case 3 if world.engine._slot.consumers:
            consumer = chance.choice([*world.engine._slot.consumers.values()])
            held = [*(consumer.ledger or ())]
            if held:
                outcome = chance.choice((Outcome.ACK, Outcome.NACK))
                world.do(Settle(7, consumer.session, 0, consumer.id, held[:1], outcome))
        case 4 if world.engine._slot.sessions:
            world.do(Disconnect(7, chance.choice([*world.engine._slot.sessions])))
        case 5:
            found = [queue for queue in world.engine._slot.queues.values() if not queue.hidden]
            if found:
                queue, what = chance.choice(found), chance.choice((Act.PAUSE, Act.RESUME, Act.PURGE, Act.DELETE))
                world.do(Manage(7, 5, 0, what, queue.address, queue.name, force=True))
        case _:
            world.settle_down()


@pytest.mark.parametrize("seed", range(6))
def test_an_answer_is_the_same_with_and_without(seed):
    chance, world = random.Random(seed), World()
    quiet = World()
    quiet.publish("still", *bodies(2))
    quiet.settle_down()

    def shard() -> Any:
        return SimpleNamespace(
            engines={7: world.engine, 8: quiet.engine},
            journal=JOURNAL,
            latencies=None,
        )

    quiet.engine.number = quiet.engine._slot.number = 8
    clock = SimpleNamespace(wall_ms=lambda: 1_000_000, monotonic=lambda: 0.0)
    kept = Views(shard(), clock, later=lambda seconds, then: None)
    for _ in range(120):
        act(world, chance)
        for question in QUESTIONS:
            assert answer(kept, question) == answer(Views(shard(), clock), question)


def led(number: int) -> Any:
    return SimpleNamespace(number=number, changes=0, pending=[], shown=SimpleNamespace(number=number))


class Looks:
    """Slots, and how often each was looked at."""

    def __init__(self, count: int) -> None:
        self.slots: list[Any] = [led(n) for n in range(count)]
        self.seen: list[int] = []
        self.timers: list[Any] = []
        self.now = 0.0
        self.joined = 0
        self.known = KnownSlots(lambda: self.now, lambda seconds, then: self.timers.append(then))

    def work(self, slot: Any) -> Any:
        self.seen.append(slot.number)
        yield
        return [slot.number]

    def join(self, parts: Any) -> list[int]:
        self.joined += 1
        return [number for part in parts for number in part]

    def given_up(self) -> int:
        """Slots whose findings are still held."""
        return sum([len(group.slots) for group in self.known._given_up])

    def free(self) -> int:
        """As the loop's timers do; how many steps."""
        self.timers.clear()
        steps = 0
        while self.known._given_up:
            self.known._free()
            steps += 1
        self.timers.clear()
        return steps

    def ask(self, question: bytes = b"q", between: Any = None) -> list[int]:
        self.seen.clear()
        work = self.known.look(question, iter(self.slots), self.work, self.join)
        while True:
            try:
                next(work)
                if between is not None:
                    between()
            except StopIteration as end:
                return end.value


def test_only_what_has_changed_is_looked_at_again():
    looks = Looks(5)
    assert looks.ask() == [0, 1, 2, 3, 4] == looks.seen
    looks.slots[3].changes += 1
    assert looks.ask() == [0, 1, 2, 3, 4] and looks.seen == [3]
    looks.slots[2].pending.append("waits for its commit")
    assert looks.ask() and looks.seen == [2]
    looks.slots[1] = led(1)
    assert looks.ask() and looks.seen == [1], "led anew: another slot of the same number"
    looks.slots.pop()
    assert looks.ask() == [0, 1, 2, 3] and looks.seen == []
    assert looks.ask(b"other") and looks.seen == [0, 1, 2, 3]
    looks.slots.reverse()
    assert looks.ask() == [3, 2, 1, 0] and looks.seen == [], "each has moved to another place"
    del looks.slots[0]
    looks.slots[0].changes += 1
    assert looks.ask() == [2, 1, 0] and looks.seen == [2]


def test_queues_come_and_go_between_the_pieces():
    world = World()
    for number in range(40):
        world.publish(f"q{number:02}", b"x")
    world.settle_down()
    shard: Any = SimpleNamespace(engines={7: world.engine}, journal=JOURNAL, latencies=None)
    views = Views(shard, SimpleNamespace(wall_ms=lambda: 1_000_000, monotonic=lambda: 0.0))
    work = views.answer({"kind": "queues", "limit": 50, "sort": "name", "descending": False})
    for _ in range(3):
        next(work)
    world.do(Manage(7, 5, 0, Act.DELETE, "q38", "q38", force=True))
    world.publish("q40", b"x")
    with pytest.raises(StopIteration) as end:
        while True:
            next(work)
    told = [row["name"] for row in end.value.value["rows"]]
    assert told == [f"q{number:02}" for number in range(40) if number != 38]


def test_what_happens_while_it_is_looked_at_makes_it_old():
    looks = Looks(2)

    def happens() -> None:
        looks.slots[0].changes += 1

    looks.ask(between=happens)
    assert looks.ask() and looks.seen == [0]


def test_what_was_found_is_joined_where_something_has_happened():
    looks = Looks(3 * GROUP + 1)
    everything = looks.ask()
    assert looks.joined == 4 + 1, "each group, and these"
    looks.joined = 0
    assert looks.ask() is everything and looks.joined == 0
    looks.slots[GROUP].changes += 1
    assert looks.ask() == everything and looks.joined == 2
    del looks.slots[GROUP:]
    looks.joined = 0
    assert looks.ask() == list(range(GROUP)) and looks.joined == 1, "the last groups have gone"
    looks.slots.clear()
    assert looks.ask() == []


def test_what_is_given_up_goes_bit_by_bit(monkeypatch):
    monkeypatch.setattr(listing_cache, "QUESTIONS", 1)
    looks = Looks(3 * GROUP)
    looks.ask(b"a")
    looks.ask(b"b")
    (known,) = looks.known._known
    assert known == b"b" and looks.given_up() == 3 * GROUP - 1, "one in each step"
    steps = looks.free()
    assert not looks.known._given_up and steps == 3 * GROUP - 1 + 3, "each slot, and what was joined of each group"
    for slot in looks.slots:
        slot.changes += 1
    looks.ask(b"b")
    assert looks.given_up() == 3 * GROUP - 1, "what was found before, too"


def test_what_is_given_up_is_not_taken_from_an_answer_that_goes_on():
    looks = Looks(2 * GROUP)
    looks.ask()
    slow = looks.known.look(b"q", iter(looks.slots), looks.work, looks.join)
    for _ in range(1):
        next(slow)  # the first group is at rest: this answer will keep it
    looks.slots[GROUP - 1].changes += 1
    looks.ask()
    looks.free()
    with pytest.raises(StopIteration):
        while True:
            next(slow)
    (kept,) = looks.known._known.values()
    assert [len(group.slots) for group in kept.groups] == [GROUP, GROUP]


def test_nothing_is_held_for_longer_than_somebody_asks(monkeypatch):
    looks = Looks(2)
    looks.ask()
    assert len(looks.timers) == 1
    looks.now = FORGET_S
    looks.timers.pop()()
    assert not looks.known._known
    looks.free()
    monkeypatch.setattr(listing_cache, "QUESTIONS", 2)
    for question in (b"a", b"b", b"c"):
        looks.ask(question)
    assert list(looks.known._known) == [b"b", b"c"]
    assert looks.timers.count(looks.known._forget) == 1
