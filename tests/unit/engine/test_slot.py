"""What a slot counts and keeps: ids given once, answers in their order, who is served first, when it is time."""

from __future__ import annotations

from collections import OrderedDict
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.settings import EngineSettings
from broker.core.effects import Done, Turn
from broker.core.message import DURABLE, NO_IDS, TRANSIENT, Run
from broker.core.records import Left, MetaRecord, SettleRecord
from broker.engine.address.wildcards import Wildcards
from broker.engine.state.budget import Budget
from broker.engine.state.slot import RESERVE_IDS, SWEEP_MS, Slot

from .world import World, ids


def slot(first_id: int = 0, room: int = 0, **settings: Any) -> Slot:
    budget = Budget(100)
    if room:
        budget.room = room
    return Slot(7, EngineSettings(**settings), budget, first_id, Wildcards())


def turn(number: int = 1) -> Turn:
    return Turn(1000, number)


def run(count: int = 1, flags: int = DURABLE, first: int = 0) -> Run:
    numbers = range(first, first + count) if first else NO_IDS
    return Run(numbers, b"", [b"\nx\0"] * count, 3 * count, flags)


def named(name: str, **more: Any) -> Any:
    """Something that stands for a queue."""
    return SimpleNamespace(name=name, **more)


class Hashed(SimpleNamespace):
    __hash__ = object.__hash__


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────────


def test_ids_are_never_given_twice_whatever_was_lost():
    world = World()
    world.publish("q", b"a", durable=True)
    world.publish("q", *[b"x"] * 50)
    world.subscribe(1)
    before = max(ids(world.effects))
    world.restart()
    world.effects.clear()
    world.subscribe(2)
    world.effects.clear()
    world.publish("q", b"new")
    assert min(ids(world.effects)) > before


def test_ids_are_announced_before_they_are_in_the_log_and_seldom():
    it, first = slot(), run(3)
    it.number_run(first, 55)
    assert (list(first.ids), first.time) == ([1, 2, 3], 55)
    told = turn()
    for _ in range(5):
        it.number_run(run(), 55)
        it.reserve(told)
    (record,) = told.appends
    assert isinstance(record, MetaRecord) and record.data["next"] == 5 + RESERVE_IDS
    it.number_run(run(RESERVE_IDS), 55)
    it.reserve(told)
    assert len(told.appends) == 2


@pytest.mark.parametrize(("clean", "announced", "suspect"), [(False, 500, True), (True, 500, False), (False, 0, False)])
def test_after_a_restart_numbers_go_on_behind_all_that_was_announced(clean, announced, suspect):
    it = slot(first_id=9)
    it.replay_ids(announced)
    it.replay_ids(announced // 2)
    assert it.restart(clean) is suspect
    assert it.next_id == it.first_id == max(announced, 9)
    assert it.crashed_at == (500 if suspect else 0)


def test_ids_of_two_leaders_never_meet():
    assert slot(first_id=1 << 40).next_id == 1 << 40 and slot().next_id == 1


def test_numbers_of_queues_are_not_used_again():
    it = slot()
    it.replay_queues(5)
    it.replay_queues(3)
    assert [it.number_queue(), it.number_queue()] == [5, 6]


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────


def told(of: Turn) -> list[int]:
    return [effect.seq for effect in of.effects if isinstance(effect, Done)]


def test_an_answer_waits_for_what_its_own_command_wrote():
    it, now = slot(), turn()
    it.answer(1, 5, now, before=0)
    assert told(now) == [5] and not it.pending
    now.appends.append(MetaRecord(7, "x", {}))
    it.answer(1, 6, now, before=0)
    it.answer(1, 0, now, before=0)
    assert told(now) == [5] and [held.number for held in it.pending] == [1]


def test_an_answer_that_stands_for_earlier_ones_does_not_overtake_them():
    it, now = slot(), turn()
    it.after(Done(1, 5), now)
    assert told(now) == [5]
    it.barrier(Done(1, 6), now)
    it.after(Done(1, 7), now)
    assert told(now) == [5] and len(it.pending) == 2
    other, writing = slot(), turn()
    writing.appends.append(MetaRecord(7, "x", {}))
    other.after(Done(1, 8), writing)
    assert told(writing) == []


# ── who is served ────────────────────────────────────────────────────────────────────────────────────


def test_who_waited_longest_is_first_and_who_had_a_piece_is_last():
    it = slot()
    a, b, c, d = (Hashed(name=name) for name in "abcd")
    it.unfinished = OrderedDict.fromkeys([a, b])
    waited = it.serves_again()
    assert list(waited) == [a, b] and not it.unfinished
    waited.popitem(last=False)
    it.unfinished[a] = None  # it had a piece, and has more
    it.puts_off(waited, {c: None, b: None, d: None})
    assert [queue.name for queue in it.unfinished] == ["b", "c", "d", "a"]
    it.puts_off(None, {a: None})
    assert [queue.name for queue in it.unfinished] == ["a", "b", "c", "d"]


def test_what_waits_is_taken_out_once():
    it = slot()
    for take, name, value in (
        (it.take_loose, "loose", [1]), (it.take_latecomers, "latecomers", [2]), (it.take_overran, "overran", {3: "x"}),
    ):  # fmt: skip
        setattr(it, name, value)
        assert take() == value and not take()


# ── memory ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("room", "pressed", "limit", "page"), [(0, False, 1000, 100), (150, True, 150, 75), (1, True, 1, 1)]
)
def test_where_the_process_has_little_left_queues_and_pages_are_smaller(room, pressed, limit, page):
    it = slot(room=room, queue_memory_bytes=1000, page_bytes=100)
    assert (it.pressed, it.limit, it.page_bytes) == (pressed, limit, page)


def test_a_page_is_as_many_as_fit_by_the_mean_and_one_at_least():
    it = slot(queue_memory_bytes=10**6, page_bytes=100)
    queue = named("q", pages=SimpleNamespace(nbytes=90, index=[1] * 10))
    assert it.page_of(queue) == 10
    queue.pages.nbytes = 10_000
    assert it.page_of(queue) == 1
    queue.pages = SimpleNamespace(nbytes=0, index=[])
    assert it.page_of(queue) == 100
    it.pressed = True
    assert it.page_of(queue) < 100, "many small ones are more than their bytes"


# ── what leaves ──────────────────────────────────────────────────────────────────────────────────────


def leaving(durable: bool = True, spilled: bool = True) -> Any:
    forgotten: list[Any] = []
    tries = SimpleNamespace(counts={1: 1}, forget=forgotten.append)
    return named("q", id=3, usage=None, durable=durable, spilled=spilled, tries=tries, forgotten=forgotten)


@pytest.mark.parametrize("whole", [True, False])
def test_each_kind_of_message_leaves_in_a_record_of_its_own(whole):
    """A restart forgets all transient ones by the kind that a record names."""
    it, now, queue = slot(), turn(), leaving()
    runs = [run(2, first=1), run(3, TRANSIENT, first=5), run(1, first=3)]
    if whole:
        it.settle_runs(queue, runs, now, Left.EXPIRED)
    else:
        it.settle_ids(queue, {i: each for each in runs for i in each.ids}, now, Left.EXPIRED)
    lasting, passing = now.appends
    assert isinstance(lasting, SettleRecord) and isinstance(passing, SettleRecord)
    assert (lasting.spans, lasting.durable, lasting.why, lasting.at) == ([(1, 3)], True, Left.EXPIRED, 1000)
    assert (passing.spans, passing.durable) == ([(5, 7)], False)
    assert queue.forgotten == [[(1, 3)]], "and nobody counts how often they failed"


@pytest.mark.parametrize("flags, durable", [(DURABLE, True), (TRANSIENT, False)])
def test_a_run_that_leaves_alone_leaves_in_the_record_of_its_kind(flags, durable):
    of, it = leaving(), turn()
    slot().settle_runs(of, [run(2, flags, first=5)], it)
    assert [(list(each.spans), each.durable) for each in it.appends] == [([(5, 6)], durable)]


def test_nothing_is_written_for_what_the_log_does_not_know():
    it, now = slot(), turn()
    it.settle_runs(leaving(False, False), [run(2, first=1)], now)
    it.settle_ids(leaving(True, False), {5: run(1, TRANSIENT, first=5)}, now)
    assert now.appends == []


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────


def test_it_is_time_when_the_first_of_all_queues_says_so():
    it, a, b = slot(), Hashed(id=1), Hashed(id=2)
    it.wake(a, 50)
    it.wake(b, 30)
    it.wake(a, 90)
    assert it.due == 30
    assert it.ticks() == [b, a] and it.due == 0, "the first is taken from the end"
    assert it.ticks().pop() is a and it.ticks() == [b], "what is left there comes first"
    it.wake(a, 70)
    assert it.ticks() == [b] and it.due == 1, "who has asked meanwhile is not forgotten"
    it.ticks().clear()
    assert it.ticks() == [a] and it.due == 0
    it.ticks().clear()
    assert it.ticks() == []
    it.tick_soon()
    assert it.due == 1


def test_what_expires_is_looked_for_so_often_and_no_more():
    it = slot()
    queue = Hashed(id=1, expiry=100, swept=0)
    it.watch_expiry(queue)
    assert it.due == SWEEP_MS + 1
    it.ticks().clear()
    queue.expiry, queue.swept = 10_000, 100
    it.watch_expiry(queue)
    assert it.due == 10_001


@pytest.mark.parametrize("but", [{}, {"auto_created": False}, {"deleted": True}, {"consumers": [1]}, {"busy": True},
                                 {"keep": True}, {"idle_since": 5}, {"declared": True}], ids=str)  # fmt: skip
def test_a_queue_that_was_made_for_somebody_goes_when_nobody_has_used_it_for_a_while(but):
    it, noted = slot(), []
    settings = SimpleNamespace(auto_delete=not but.get("keep"), auto_delete_delay_ms=70)
    queue = Hashed(
        auto_created=but.get("auto_created", True), deleted=but.get("deleted", False), settings=settings,
        consumers=but.get("consumers", []), idle=lambda: not but.get("busy"), idles=noted.append,
        idle_since=but.get("idle_since", 0), declared=but.get("declared", False),
    )  # fmt: skip
    it.watch_idle(queue, 1000)
    assert (noted, it.due) == (([1000], 1070) if not but else ([], 0))


# ── filters and patterns ─────────────────────────────────────────────────────────────────────────────


def test_filters_are_counted_so_that_a_slot_without_asks_nothing():
    it, filtered, plain = slot(), named("f", filter=object()), named("p", filter=None)
    for queue in (filtered, plain, filtered):
        it.filter_came(queue)
    assert it.filtered == 2
    for queue in (filtered, plain, filtered):
        it.filter_goes(queue)
    assert it.filtered == 0


def test_patterns_are_there_as_long_as_there_is_one():
    it = slot()
    assert it.patterns is None and it.wildcard() is it.wildcard()
    it.wildcard_gone()
    assert it.patterns is None
