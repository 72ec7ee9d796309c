"""A scan for archives: whose records go out, in which pieces, and with which names of queues."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from broker.admin.log import log_scan
from broker.admin.log.log_rows import HIDDEN, MET, QueueNames, Wanted
from broker.admin.log.log_scan import answers
from broker.core.errors import OffsetExpired
from broker.core.records import DELIVERED, GroupRecord, Left, SettleRecord
from broker.journal.log import format as f
from broker.journal.reads.scanning import SlotPart
from broker.seams.read_turns import ReadTurns
from tests.unit.admin.reading_world import Clock, Live, message, queue, written
from tests.unit.journal.support import meta

ALL = 1 << 20


class Turns(ReadTurns):
    """Counts the turns of the loop; `then` is called in each."""

    def __init__(self) -> None:
        super().__init__(Clock().monotonic)
        self.count = 0

    async def next(self) -> None:
        self.count += 1
        await asyncio.sleep(0)


async def scanned(journal, view="log", addresses=(), may=lambda _: True, live=None, most=1000, budget=ALL, turns=None,
                  **bounds):  # fmt: skip
    """All ScanBatches of slots 1 and 2."""
    parts = {s: SlotPart(1, journal.history.end(s), 0) for s in (1, 2) if journal.history.end(s) > 1}
    wanted = Wanted(view, addresses, may, ".", bounds.get("since", 0), bounds.get("before", 0))
    with ThreadPoolExecutor(1) as pool:
        found = answers(
            journal.history, parts, wanted, QueueNames(Live(live or {})), pool,
            turns or Turns(), most, budget,
        )  # fmt: skip
        return [batch async for batch in found]


def records(batches) -> list[tuple[int, int, int]]:
    """(kind, slot, lsn) of what came."""
    data = b"".join(batch.records for batch in batches)
    return [(kind, slot, lsn) for _, _, kind, _, slot, _, lsn in f.records_in(data, 0, len(data))]


def runs(batches) -> list[tuple[int, int]]:
    return [(slot, lsn) for kind, slot, lsn in records(batches) if kind == f.RUN]


def names(batches) -> list[tuple[int, int, str, str]]:
    return [(each.slot, each.id, each.name, each.address) for batch in batches for each in batch.queues]


async def test_records_come_as_they_stand_and_the_last_answer_says_how_far_it_went():
    journal = written(*(message("a", n, b"x" * n) for n in range(1, 4)), message("b", 9, b"y", slot=2))
    batches = await scanned(journal)
    assert runs(batches) == [(1, 1), (1, 2), (1, 3), (2, 1)]
    assert [batch.done for batch in batches] == [True]
    assert {part.slot: getattr(part, "from") for part in batches[-1].next} == {1: 4, 2: 2}


@pytest.mark.parametrize("most", [1, 2, 1000])
async def test_however_little_a_turn_does_and_an_answer_holds_each_record_comes_once(most):
    journal = written(*(message("a", n, b"x" * 200) for n in range(1, 60)))
    batches = await scanned(journal, most=most, budget=500)
    assert runs(batches) == [(1, n) for n in range(1, 60)]
    assert len(batches) > 5 and [batch.done for batch in batches].index(True) == len(batches) - 1
    assert max(len(batch.records) for batch in batches) < 500 + max(most, 3) * 300 or most == 1000
    went = [getattr(part, "from") for batch in batches for part in batch.next]
    assert went == sorted(went), "a reader goes on from there"


async def test_an_answer_names_the_slots_that_went_on_and_the_last_one_all():
    journal = written(
        message("a", 9, b"x", slot=2),
        *(message("a", n, b"x" * 200) for n in range(1, 5)),
        message("a", 10, b"x", slot=2),
    )
    batches = await scanned(journal, most=1, budget=1)
    assert [sorted(part.slot for part in batch.next) for batch in batches] == [[2], [1], [1], [1], [1], [2], [1, 2]]


async def test_between_two_steps_everybody_else_has_the_loop():
    journal, turns = written(*(message("a", n, b"x") for n in range(1, 40))), Turns()
    await scanned(journal, most=1, turns=turns)
    assert turns.count >= 39


async def test_where_nothing_is_wanted_a_reader_hears_from_time_to_time_how_far_it_is(monkeypatch):
    monkeypatch.setattr(log_scan, "TURNS", 5)
    journal = written(*(message("b", n, b"x") for n in range(1, 40)))
    batches = await scanned(journal, addresses=["a"], most=1)
    assert not records(batches) and len(batches) > 5
    assert all(batch.next for batch in batches)


async def test_of_addresses_that_are_not_his_or_were_not_asked_for_nothing_comes():
    journal = written(message("a", 1, b"x"), message("b", 2, b"x"), message("c", 3, b"x"), message("a", 4, b"x"))
    assert runs(await scanned(journal, may=lambda address: address != "b")) == [(1, 1), (1, 3), (1, 4)]
    assert runs(await scanned(journal, addresses=["b", "c"], may=lambda address: address != "b")) == [(1, 3)]


async def test_of_a_transaction_that_is_not_decided_nothing_comes():
    journal = written(
        queue(5, "tx", HIDDEN), message(HIDDEN, 1, b"x", queue=5), SettleRecord(1, 5, [(1, 1)], why=Left.ACKED, at=9),
        message("a", 2, b"x"),
    )  # fmt: skip
    batches = await scanned(journal, live={1: {5: ("tx", HIDDEN), 1: ("q", "a")}})
    assert runs(batches) == [(1, 4)] and {kind for kind, _, _ in records(batches)} == {f.RUN}
    assert HIDDEN not in {address for _, _, _, address in names(batches)}


async def test_messages_of_another_time_are_left_out():
    journal = written(*(message("a", n, b"x", time=100 * n) for n in range(1, 6)))
    assert runs(await scanned(journal, since=200, before=400)) == [(1, 2), (1, 3)]


EVENTS = [
    SettleRecord(1, 1, [(1, 1)], why=Left.ACKED, at=150),
    SettleRecord(1, 2, [(1, 1)], why=Left.ACKED, at=150),
    SettleRecord(1, 1, [(2, 2)], why=Left.ENDED, at=150),
    meta(DELIVERED, queue=1, at=150, to=[]),
    meta("count", queue=1, attempts=2, spans=[], due=0),
    meta("count", queue=1, attempts=0, spans=[], due=0),
    meta("told", v=1),
]


@pytest.mark.parametrize("view", ["messages", "dlq", "events", "log"])
async def test_events_are_for_who_asked_for_them(view):
    """Of an address of his, and with a meaning: the end of a queue's own, tries that are none, what slots keep to
    themselves are no events."""
    found = records(await scanned(written(*EVENTS), view, ["a"], live={1: {1: ("q", "a"), 2: ("r", "b")}}))
    events = [(f.SETTLE, 1, 1), (f.META, 1, 4), (f.META, 1, 5)]
    assert found == (events if view in ("events", "log") else [])


async def test_events_of_another_time_are_left_out():
    live = {1: {1: ("q", "a"), 2: ("r", "b")}}
    found = records(await scanned(written(*EVENTS), "events", ["a"], live=live, since=200))
    assert found == [(f.META, 1, 5)], "delivery counts have no time"


async def test_the_queues_of_records_are_named_once_before_or_with_them():
    journal = written(
        queue(1, "q", "a"), message("a", 1, b"x"), message("a", 2, b"x"), SettleRecord(1, 1, [(1, 1)], at=5),
        message("a", 3, b"x", queue=7),
    )  # fmt: skip
    batches = await scanned(journal, "events", most=1, budget=1, live={1: {7: ("s", "a")}})
    assert names(batches) == [(1, 1, "q", "a"), (1, 7, "s", "a")]


def test_names_are_told_again_when_too_many_are_remembered():
    """A reader hears a name twice rather than a broker remembering all queues there ever were."""
    wanted_rows = log_scan._ScanFilter(Wanted("log", (), lambda _: True), QueueNames(Live({1: {1: ("q", "a")}})))
    wanted_rows._told = {(9, n) for n in range(100_001)}
    wanted_rows._tell(1, 1)
    assert wanted_rows._told == {(1, 1)}


async def test_queues_of_a_slot_are_met_in_steps_before_they_are_gone():
    """All of a slot's queues were listed in one step, at each row of one that is gone once more: 100,000 take 56 ms."""
    live = Live({1: {number: (f"q{number}", "a") for number in range(1, 1001)}})
    journal = written(
        message("a", 1, b"x", queue=5),
        message("a", 2, b"x", queue=6),
        *(message("a", n, b"x", queue=2000) for n in (3, 4)),
    )
    names, steps = QueueNames(live), []

    class Watching(Turns):
        async def next(self) -> None:
            await super().next()
            steps.append(live.asked - sum(steps))
            if not names.strange and len(steps) > 1 and live.asked > 1000:
                live.queues.clear()

    parts = {1: SlotPart(1, journal.history.end(1), 0)}
    with ThreadPoolExecutor(1) as pool:
        wanted = Wanted("log", (), lambda _: True)
        found = answers(journal.history, parts, wanted, names, pool, Watching(), 1, ALL)
        told = {each.id: each.name async for batch in found for each in batch.queues}
    assert told == {5: "q5", 6: "q6", 2000: ""} and not live.queues, "q6 was gone when its row was read"
    assert max(steps) <= MET + 1 and live.asked <= 1005


async def test_records_of_a_group_are_looked_at_one_by_one():
    journal = written(GroupRecord(1, [message("a", 1, b"x"), message("b", 2, b"y"), message("a", 3, b"z")]))
    assert runs(await scanned(journal, addresses=["a"])) == [(1, 1), (1, 3)]


async def test_runs_of_several_queues_with_their_own_ids_show_their_address():
    run = message("a", 5, b"x", b"y", b"z")
    run.queues[:] = [1, 2, 3]
    run.run.ids = [5, 9, 12]
    journal = written(run, message("b", 20, b"x"))
    batches = await scanned(journal, addresses=["a"], live={1: {1: ("q", "a"), 2: ("r", "a"), 3: ("s", "a")}})
    assert runs(batches) == [(1, 1)] and [name for _, _, name, _ in names(batches)] == ["q", "r", "s"]


async def test_what_is_missing_before_the_high_water_mark_is_an_error_never_a_gap():
    journal = written(message("a", 1, b"x"))
    parts = {1: SlotPart(1, 9, 0)}
    with ThreadPoolExecutor(1) as pool:
        found = answers(
            journal.history, parts, Wanted("log", (), lambda _: True), QueueNames(Live({})), pool, Turns(), 9, ALL
        )  # fmt: skip
        with pytest.raises(OffsetExpired):
            await asyncio.wait_for(anext(found), 5)
