"""What is kept of slots is looked at anew where something has happened, and given up bit by bit."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.commands import Act, Manage
from broker.engine.state.queue_changes import QueueChanges
from broker.owner.shard import listing_cache
from broker.owner.shard.listing_cache import FORGET_S, GROUP, KnownSlots
from broker.owner.shard.slot_looks import Anew
from broker.owner.shard.views import Views
from tests.unit.engine.world import World

from .test_slot_looks import JOURNAL


def led(number: int) -> Any:
    shown = SimpleNamespace(number=number, changed=QueueChanges())
    return SimpleNamespace(number=number, changes=0, pending=[], shown=shown)


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

    def looking(self, slot: Any) -> Anew:
        return Anew(lambda: self.work(slot))

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
        work = self.known.look(question, iter(self.slots), self.looking, self.join)
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
    held = 3 * GROUP + 3 * GROUP  # what was found, and how each slot is looked at
    assert known == b"b" and looks.given_up() == held - 1, "one in each step"
    steps = looks.free()
    assert not looks.known._given_up and steps == held - 1 + 3 + 1, "each slot, and what was joined of each group"
    for slot in looks.slots:
        slot.changes += 1
    looks.ask(b"b")
    assert looks.given_up() == 3 * GROUP - 1, "what was found before, too"


def test_what_is_given_up_is_not_taken_from_an_answer_that_goes_on():
    looks = Looks(2 * GROUP)
    looks.ask()
    slow = looks.known.look(b"q", iter(looks.slots), looks.looking, looks.join)
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


def test_slots_that_have_moved_away_are_not_held():
    """Engines of slots that are led elsewhere stayed as long as their question was asked: for days."""
    looks = Looks(4)
    looks.ask()
    gone = looks.slots.pop()
    looks.ask()
    (known,) = looks.known._known.values()
    assert gone.number not in known.looks and len(known.looks) == 3
    looks.free()
    assert not looks.known._given_up


def test_what_takes_long_is_remembered_until_it_may_be_asked_again():
    """A console rests ten times as long as an answer took."""
    looks = Looks(2)

    def slow() -> None:
        looks.now += 4

    looks.ask(between=slow)
    took = looks.now
    looks.now += 10 * took + 2
    looks.timers.pop()()
    assert looks.known._known and looks.ask() and looks.seen == [], "nothing has happened, so nothing is read"


def test_a_question_under_way_is_not_forgotten():
    looks = Looks(2)
    slow = looks.known.look(b"q", iter(looks.slots), looks.looking, looks.join)
    next(slow)
    looks.now += 100 * FORGET_S
    looks.timers.pop()()
    with pytest.raises(StopIteration):
        while True:
            next(slow)
    assert looks.ask() == [0, 1] and looks.seen == [], "what the slow one has read is there"


class Marking(Anew):
    marks = True


def test_changes_are_marked_as_long_as_one_question_needs_it_and_no_longer():
    """Quotas ask each second for ever, and need no marks: they had them made after one look of a console."""
    looks = Looks(2)
    marking: Any = SimpleNamespace(kind=Anew)

    def looking(slot: Any) -> Anew:
        if marking.kind.marks:
            slot.changed.begin()
        return marking.kind(lambda: looks.work(slot))

    looks.looking = looking  # type: ignore[method-assign]
    looks.ask(b"quotas")
    marking.kind = Marking
    looks.ask(b"console")
    looks.ask(b"other console")
    looks.now += FORGET_S / 2
    looks.ask(b"quotas")
    looks.ask(b"console")
    looks.now += FORGET_S / 2
    looks.known._forget()
    assert set(looks.known._known) == {b"quotas", b"console"} and all(slot.shown.changed.on for slot in looks.slots)
    looks.now += FORGET_S / 2
    looks.ask(b"quotas")
    looks.known._forget()
    assert set(looks.known._known) == {b"quotas"} and not any(slot.shown.changed.on for slot in looks.slots)
