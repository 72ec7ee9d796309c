"""A slot that stops its leaders is taken out of service by the second one, and comes back when an operator says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from broker.cluster.keys import Keys
from broker.cluster.operate import NotPossible, ask_to_lead, force, unshelve
from broker.cluster.planning.placement import foretold, urgent
from broker.cluster.planning.view import Policy, View, health
from broker.cluster.quarantine import NOTE_S, WITHIN_S, Throw, note, shelved
from broker.cluster.slots import SlotTable
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import Put
from tests.harness.metadata import MemoryMetadata, MemoryStore

KEYS = Keys("/test")
LED = SlotRecord(7, 4, "a", ("a", "b", "c"), ("a", "b", "c"), "b")
NEXT = replace(LED, leader="b", epoch=5, target="")


def throw(owner: str, boot: str = "") -> Throw:
    return Throw(owner, boot or f"boot of {owner}", "internal error: KeyError")


def out_of_service() -> SlotRecord:
    return shelved(NEXT, throw("a"), throw("b"))


def test_what_becomes_of_its_record():
    record = out_of_service()
    assert (record.leader, record.epoch, record.target, record.isr) == ("", 6, "", LED.isr)
    assert "a, b stopped because of it within a minute (internal error: KeyError)" in record.shelved
    assert SlotRecord.decode(7, record.encode(), 0) == record
    assert "a stopped" in shelved(LED, throw("a"), throw("a", "its next life")).shelved


def test_a_record_without_any_of_it_is_what_it_always_was():
    assert b"shelved" not in LED.encode()
    assert SlotRecord.decode(7, LED.encode(), 0) == LED


def test_nobody_is_made_its_leader_until_it_is_back():
    owners = {name: Member(name, "owner", "h:1", "boot") for name in "abc"}
    records = {slot: SlotRecord(slot, 1, "abc"[slot % 3], ("a", "b", "c"), ("a", "b", "c")) for slot in range(256)}
    view = View(owners, {**records, 7: out_of_service()}, Policy())
    assert urgent(view) == [] and 7 not in [step.new.slot for step in foretold(view)]
    assert health(view).shelved == health(view).offline == 1
    gone = replace(view, owners={name: owners[name] for name in "bc"})
    assert 7 not in [step.new.slot for step in urgent(gone)], "nor when owners die"
    back = replace(view, records={**records, 7: replace(out_of_service(), shelved="")})
    assert [(step.new.slot, bool(step.new.leader)) for step in urgent(back)] == [(7, True)]


# ── the note ─────────────────────────────────────────────────────────────────────────────────────────


class Stopping:
    """A store in which slot 7 is led as the record says."""

    def __init__(self, record: SlotRecord) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.store = MemoryStore(self, lambda seconds, then: self.timers.append((self.now + seconds, then)))
        self.put(record)
        self.metadata = MemoryMetadata(self.store, timeout_s=0.1)

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        raise AssertionError("nobody's wall clock counts")

    def pass_time(self, seconds: float) -> None:
        """For the store: leases run out."""
        self.now += seconds
        for due in [timer for timer in self.timers if timer[0] <= self.now]:
            self.timers.remove(due)
            due[1]()

    def put(self, record: SlotRecord) -> None:
        self.store.commit([], [Put(KEYS.slot(7), record.encode())])

    def stands(self) -> SlotRecord:
        return SlotRecord.decode(7, self.store.keys[KEYS.slot(7)].value, 0)

    def notes(self) -> list[str]:
        return [key for key in self.store.keys if key.startswith(KEYS.throws)]

    async def stops(self, owner: str, boot: str = "", stale: SlotRecord | None = None, led: bool = False) -> None:
        """`stale`: what its table had last heard of the slot. `led`: by its own account."""
        table = SlotTable(self.metadata, KEYS)
        if stale is not None:
            table.records[7] = stale
        await note(self.metadata, KEYS, table, 7, throw(owner, boot), led)
        await self.metadata.close()  # its process ends: nobody keeps the note alive
        self.metadata = MemoryMetadata(self.store, timeout_s=0.1)


async def test_the_first_leader_that_stops_leaves_a_note_and_the_next_one_takes_the_slot_out_of_service():
    world = Stopping(LED)
    await world.stops("a")
    assert world.stands() == LED and world.notes() == [KEYS.throw(7)]
    world.put(NEXT)
    await world.stops("b", stale=LED)
    assert world.stands() == out_of_service()


async def test_also_the_same_owner_after_a_restart():
    world = Stopping(LED)
    await world.stops("a")
    await world.stops("a", "its next life")
    assert world.stands().shelved


async def test_two_that_are_more_than_a_minute_apart_have_nothing_to_do_with_each_other():
    world = Stopping(LED)
    await world.stops("a")
    world.pass_time(WITHIN_S + 1)
    assert world.notes() == []
    world.put(NEXT)
    await world.stops("b")
    assert world.stands() == NEXT and world.notes()


async def test_who_leads_it_no_more_shelves_nothing():
    world = Stopping(LED)
    await world.stops("a")
    world.put(replace(NEXT, leader="c"))
    await world.stops("b", stale=NEXT)
    assert world.stands() == replace(NEXT, leader="c")


async def test_who_led_it_while_it_hung_spares_the_third_that_leads_it_by_now():
    """It was declared dead long before it was found out; whoever leads next hangs as well."""
    world = Stopping(LED)
    await world.stops("a", led=True)
    assert world.stands() == LED, "the first of them may have been an accident"
    world.put(replace(NEXT, leader="c", epoch=6))
    await world.stops("b", stale=NEXT, led=True)
    assert world.stands().shelved and world.stands().leader == ""
    out = world.stands()
    await world.stops("c", stale=NEXT, led=True)
    assert world.stands() == out, "once is enough"


async def test_one_whose_note_was_written_but_not_answered_counts_once():
    world = Stopping(LED)
    answers = iter([False, False, True])  # it was asked for, a lease was granted, and the note was written
    world.metadata.lose_answer = lambda: next(answers, False)
    await world.stops("a")
    assert world.stands() == LED and world.notes()


async def test_a_store_that_is_away_is_not_waited_for_long():
    world = Stopping(LED)
    world.store.stop()
    async with asyncio.timeout(NOTE_S + 10):
        await world.stops("a")
    assert world.stands() == LED


# ── the operator ─────────────────────────────────────────────────────────────────────────────────────


async def test_an_operator_has_it_tried_again():
    world = Stopping(out_of_service())
    world.store.commit([], [Put(KEYS.member("owner", "c"), Member("c", "owner", "h:1", "boot").encode())])
    with pytest.raises(NotPossible, match="cluster unshelve 7"):
        await ask_to_lead(world.metadata, KEYS, 7, "c")
    await world.stops("b")
    await unshelve(world.metadata, KEYS, 7)
    assert world.notes() == [], "what was noted before does not count against it"
    assert world.stands() == replace(out_of_service(), shelved="")
    with pytest.raises(NotPossible, match="not shelved"):
        await unshelve(world.metadata, KEYS, 7)


async def test_who_is_forced_to_lead_it_begins_anew():
    world = Stopping(out_of_service())
    world.store.commit([], [Put(KEYS.member("owner", "d"), Member("d", "owner", "h:1", "boot").encode())])
    record = await force(world.metadata, KEYS, 7, "d")
    assert (record.leader, record.shelved) == ("d", "")
