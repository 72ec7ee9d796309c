"""Registrations: one name one process, what a lost lease means, and what an outage of the store does not."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker.core.errors import Code, RefusedError
from broker.metadata.port import Delete

from .control_world import check_history, ready
from .world import KEYS, World, simulate


def test_who_is_declared_dead_stops_first_registers_again_and_accuses_nobody_for_a_while():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        a, b, c = (world.owners[one] for one in "abc")
        lease = a.membership.me.lease
        for owner in (b, c):
            owner.place.run(owner.suspicions.report, "a", a.boot, lease, "silent")
        await world.until(lambda: bool(a.lost))
        assert a.membership.me.lease == lease, "told before it is registered anew"
        await world.until(lambda: a.membership.up)
        assert a.membership.me.lease != lease and a.membership.on_probation
        a.place.run(a.suspicions.report, "b", b.boot, b.membership.me.lease, "silent")
        await asyncio.sleep(1)
        assert world.store.range(f"{KEYS.suspects}b/")[0] == []
        await world.until(lambda: world.led_by("a", "b", "c"))
        assert len(world.store.leases) == 3, "the old lease is given back"

    simulate(scenario)


def test_who_must_not_be_a_member_goes_by_itself_is_handed_nothing_and_comes_back_when_it_may():
    """An owner whose certificate is revoked was declared dead, registered anew, and was handed slots again."""

    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        c = world.owners["c"]
        c.barred = "its certificate is revoked"
        await world.until(lambda: bool(c.lost) and world.led_by("a", "b"))
        for _ in range(60):
            await asyncio.sleep(1)
            assert world.led_by("a", "b") and not c.membership.up
            assert not [record for record in world.records().values() if "c" in (record.target, record.leader)]
        assert len(world.store.range(KEYS.owners)[0]) == 2
        c.barred = ""
        await world.until(lambda: world.led_by("a", "b", "c"), 300)

    simulate(scenario)


def test_who_must_not_be_a_member_from_the_start_is_waited_for_and_asked_for_nothing():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b")
        c = world.owner("c")
        c.barred = "its certificate is revoked"
        c.begin()
        await asyncio.sleep(30)
        assert len(world.store.range(KEYS.owners)[0]) == 2
        assert not [record for record in world.records().values() if "c" in record.replicas]
        c.barred = ""
        await world.until(lambda: world.led_by("a", "b", "c"), 300)

    simulate(scenario)


def test_an_outage_of_the_store_changes_nothing():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        before = {slot: replace(record, revision=0) for slot, record in world.records().items()}
        world.store.stop()
        await asyncio.sleep(60)
        world.store.start()
        await asyncio.sleep(20)
        assert {slot: replace(record, revision=0) for slot, record in world.records().items()} == before
        assert all(owner.lost == [] for owner in world.owners.values())
        assert sum(owner.controller.held for owner in world.owners.values()) == 1

    simulate(scenario)


def test_when_the_store_was_cut_off_from_all_they_come_back_without_a_storm():
    """It went on without us: all leases ran out, everybody's key is gone."""

    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        for owner in world.owners.values():
            owner.metadata.cut()
        await asyncio.sleep(60)
        assert world.store.range(KEYS.owners)[0] == []
        for owner in world.owners.values():
            owner.metadata.heal()
            await asyncio.sleep(0.6)
        await asyncio.sleep(20)
        assert all(owner.membership.up for owner in world.owners.values())
        assert all(record.epoch == 1 for record in world.records().values()), "nobody was failed over"

    simulate(scenario)


def test_the_store_forgets_history_and_loses_answers():
    async def scenario(world: World) -> None:
        chance = world.loop.random
        for owner in [world.owner(name) for name in "abc"]:
            owner.metadata.lose_answer = lambda: chance.random() < 0.02
            owner.begin()
        await world.until(lambda: world.led_by("a", "b", "c"), 300)
        world.owners["b"].metadata.cut()
        await asyncio.sleep(30)
        await world.until(lambda: world.led_by("a", "c"), 300)
        world.store.compact(world.store.revision)
        world.owners["b"].metadata.heal()
        await world.until(lambda: world.led_by("a", "b", "c"), 300)
        await asyncio.sleep(10)
        assert world.owners["b"].slots.records == world.records()

    check_history(simulate(scenario, limit_s=2000))


def test_a_second_process_of_the_same_name_is_refused_and_harms_nobody():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        first = world.owners["a"]
        second = world.owner("a", disk="another")
        with pytest.raises(RefusedError, match="already running at a:1") as refused:
            await second.place.spawn(second.run())
        assert refused.value.code is Code.DUPLICATE_IDENTITY
        assert first.membership.up and all("a" in record.isr for record in world.records().values())

    simulate(scenario)


def test_a_successor_waits_for_the_lease_of_its_dead_predecessor():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        world.owners["a"].kill()
        again = world.owner("a").begin()
        await asyncio.sleep(1)
        took = await world.until(lambda: again.membership.up)
        assert took < 6

    simulate(scenario)


def test_a_name_that_was_taken_meanwhile_ends_the_process():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        first = world.owners["a"]
        first.metadata.cut()
        await asyncio.sleep(10)
        second = world.owner("a").begin()
        await asyncio.sleep(10)
        first.metadata.heal()
        await world.until(lambda: bool(first.refused))
        assert first.lost and second.membership.up

    simulate(scenario)


def test_a_key_that_somebody_removed_is_written_again():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        world.store.commit([], [Delete(KEYS.member("owner", "a"))])
        await world.until(lambda: bool(world.owners["a"].lost))
        await world.until(lambda: world.store.keys.get(KEYS.member("owner", "a")) is not None)
        await asyncio.sleep(5)
        assert len(world.store.leases) == 3

    simulate(scenario)
