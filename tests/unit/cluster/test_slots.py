"""The slot table: compare-and-swap, and many changes at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker.cluster.slots import SlotTable
from broker.core.slots import SlotRecord
from broker.metadata.port import MetadataUnavailable, Put

from .world import KEYS, World, simulate


async def table(world: World, slots: int = 256) -> SlotTable:
    for slot in range(slots):
        record = SlotRecord(slot, 1, "a", ("a", "b"), ("a", "b"))
        world.store.commit([], [Put(KEYS.slot(slot), record.encode())])
    found = SlotTable(world.client(), KEYS)
    await found.start()
    return found


def test_of_two_that_decide_upon_the_same_record_one_wins():
    async def scenario(world: World) -> None:
        one, two = await table(world), SlotTable(world.client(), KEYS)
        await two.start()
        record = one.records[3]
        won, lost = await asyncio.gather(
            one.cas(record, replace(record, isr=("a",))), two.cas(record, replace(record, target="b"))
        )
        assert (won is None) != (lost is None)
        assert one.records[3] == two.records[3] == world.records()[3] == (won or lost)

    simulate(scenario)


def test_an_answer_that_got_lost_is_not_taken_for_a_failure():
    async def scenario(world: World) -> None:
        one = await table(world)
        record = one.records[3]
        one._metadata.lose_answer = lambda: True
        with pytest.raises(MetadataUnavailable):
            await one.cas(record, replace(record, target="b"))
        one._metadata.lose_answer = lambda: False
        await asyncio.sleep(1)
        assert one.records[3].target == "b", "the watch has told"
        assert await one.cas(record, replace(record, target="a")) is None

    simulate(scenario)


def test_many_changes_are_few_transactions_and_one_that_is_late_spoils_no_other():
    async def scenario(world: World) -> None:
        one = await table(world)
        stale = one.records[7]
        world.store.commit([], [Put(KEYS.slot(7), replace(stale, target="b").encode())])
        await asyncio.sleep(0.1)
        told: dict[int, SlotRecord | None] = {}
        before = world.store.revision
        for slot in range(256):
            record = stale if slot == 7 else one.records[slot]
            one.change(record, replace(record, isr=("a",)), lambda new, slot=slot: told.setdefault(slot, new))
        await world.until(lambda: len(told) == 256)
        assert told[7] is None and all(new.isr == ("a",) for slot, new in told.items() if slot != 7)
        assert world.store.revision - before <= 2 + 99

    simulate(scenario)


def test_changes_without_a_store_are_answered():
    async def scenario(world: World) -> None:
        one = await table(world)
        world.store.stop()
        told: list[SlotRecord | None] = []
        for slot in (1, 2, 1):
            one.change(one.records[slot], replace(one.records[slot], target="b"), told.append)
        await world.until(lambda: len(told) == 3)
        assert told == [None] * 3
        world.store.start()
        one.change(one.records[1], replace(one.records[1], target="b"), told.append)
        await world.until(lambda: len(told) == 4)
        assert told[3] == one.records[1] == world.records()[1]

    simulate(scenario)


def test_a_change_that_is_asked_for_in_an_answer_is_carried_out_once():
    async def scenario(world: World) -> None:
        one = await table(world)
        told: list[SlotRecord | None] = []

        def again(new: SlotRecord | None) -> None:
            assert new is not None
            one.change(new, replace(new, target="a"), told.append)

        before = world.store.revision
        one.change(one.records[1], replace(one.records[1], target="b"), again)
        await asyncio.sleep(1)
        assert [new.target for new in told if new is not None] == ["a"] and len(told) == 1
        assert world.store.revision - before == 2

    simulate(scenario)


def test_what_is_not_a_record_is_left_out_and_can_be_put_right():
    async def scenario(world: World) -> None:
        one = await table(world)
        good = one.records[3]
        world.store.commit([], [Put(KEYS.slot(3), b"{}")])
        world.store.commit([], [Put(KEYS.slots + "x", b"{}")])
        await asyncio.sleep(0.1)
        assert replace(one.records[3], revision=good.revision) == good
        assert await one.cas(one.records[3], replace(good, epoch=2)) is not None
        assert world.records

    simulate(scenario)
