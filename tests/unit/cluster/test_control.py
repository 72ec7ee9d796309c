"""Members, fail-over, restarts, outages: the control side of a cluster as a whole, on a virtual clock."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker.cluster.identity import ghost

from .control_world import check_history, ready
from .world import KEYS, World, simulate


@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_comes_up_even_and_rests(seed):
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        records = world.records()
        assert all(record.epoch == 1 and len(record.isr) == 3 for record in records.values())
        assert sum(owner.controller.held for owner in world.owners.values()) == 1
        revision = world.store.revision
        await asyncio.sleep(60)
        assert world.store.revision == revision, "nothing is written while nothing happens"

    check_history(simulate(scenario, seed))


@pytest.mark.parametrize("seed", range(4))
def test_a_suspected_owner_is_replaced_within_a_tenth_of_a_second(seed):
    """Killed: both others find nobody there, its lease is revoked, all its slots move at once."""

    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        dead = world.owners[["a", "b", "c"][seed % 3]]
        member = dead.membership.me
        dead.kill()
        others = [owner for owner in world.owners.values() if owner is not dead]
        for owner in others:
            owner.place.run(owner.suspicions.report, dead.me.id, member.boot, member.lease, "refused")
        took = await world.until(lambda: world.led_by(*(owner.me.id for owner in others)))
        assert took < 0.1
        await asyncio.sleep(30)
        assert all(dead.me.id in record.replicas for record in world.records().values()), "it may come back"
        world.owner(dead.me.id).begin()
        await world.until(lambda: world.led_by("a", "b", "c"))
        await world.until(lambda: all(len(record.isr) == 3 for record in world.records().values()))

    check_history(simulate(scenario, seed))


def test_one_of_three_cannot_declare_another_dead():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        a, b = world.owners["a"], world.owners["b"]
        for _ in range(50):
            b.place.run(b.suspicions.report, "a", a.boot, a.membership.me.lease, "silent")
            await asyncio.sleep(0.1)
        assert a.lost == [] and world.led_by("a", "b", "c")
        assert len(world.store.range(KEYS.suspects)[0]) == 1
        written = world.store.revision
        b.place.run(b.suspicions.clear, "a")
        await asyncio.sleep(0.1)
        assert world.store.range(KEYS.suspects)[0] == [], "it talks again"
        assert written - world.store.revision < 10, "not written at every report"

    simulate(scenario)


def test_old_suspicions_and_those_of_another_life_do_not_add_up():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        a, b, c = (world.owners[one] for one in "abc")
        lease = a.membership.me.lease
        b.place.run(b.suspicions.report, "a", a.boot, lease, "silent")
        await asyncio.sleep(0.1)
        b.place.frozen = True  # so that it does not take it back
        await asyncio.sleep(3.2)
        assert len(world.store.range(KEYS.suspects)[0]) == 1
        c.place.run(c.suspicions.report, "a", a.boot, lease, "silent")
        c.place.run(c.suspicions.report, "a", "another-boot", lease, "silent")
        await asyncio.sleep(1)
        assert a.lost == []

    simulate(scenario)


def test_an_owner_with_a_new_disk_leaves_every_isr_before_it_is_seen():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        world.owners["a"].kill()
        again = world.owner("a", disk="new").begin()
        await world.until(
            lambda: KEYS.disk("a") in world.store.keys and world.store.keys[KEYS.disk("a")].value == b"new"
        )
        assert not again.membership.up
        assert all("a" not in (*record.replicas, record.leader) for record in world.records().values())
        await world.until(lambda: world.led_by("a", "b", "c"))
        await asyncio.sleep(5)
        assert all(len(record.isr) == 3 for record in world.records().values()), "seeded anew everywhere"

    check_history(simulate(scenario))


def test_the_only_copy_becomes_a_ghost_and_comes_back_with_its_disk():
    async def scenario(world: World) -> None:
        world.settings = replace(world.settings, replicas=1, min_in_sync=1)
        world.start("a")
        await world.until(lambda: world.led_by("a"))
        await asyncio.sleep(1)
        world.owners["a"].kill()
        world.owner("a", disk="new").begin()
        name = ghost("a", "disk-a")
        await world.until(lambda: all(r.isr == r.replicas == (name,) for r in world.records().values()))
        await asyncio.sleep(90)
        assert all(not record.leader and record.isr == (name,) for record in world.records().values()), "offline"
        world.owners["a"].kill()
        world.owner("a", disk="disk-a").begin()
        await world.until(lambda: world.led_by("a"))
        assert all(record.isr == ("a",) for record in world.records().values())

    check_history(simulate(scenario))


@pytest.mark.parametrize("seed", range(3))
def test_whatever_dies_it_heals(seed):
    async def scenario(world: World) -> None:
        chance = world.loop.random
        await ready(world, "a", "b", "c", "d")
        for _ in range(6):
            owner = world.owners[chance.choice("abcd")]
            match chance.randrange(4):
                case 0:
                    owner.kill()
                    await asyncio.sleep(chance.uniform(0, 8))
                    world.owner(owner.me.id, disk=chance.choice(["", f"disk{chance.random()}"])).begin()
                case 1:
                    owner.metadata.cut()
                    await asyncio.sleep(chance.uniform(0, 8))
                    owner.metadata.heal()
                case 2:
                    owner.place.frozen = True
                    await asyncio.sleep(chance.uniform(0, 8))
                    owner.place.frozen = False
                case 3:
                    world.store.stop()
                    await asyncio.sleep(chance.uniform(0, 8))
                    world.store.start()
            await asyncio.sleep(chance.uniform(0, 3))
        await world.until(lambda: world.led_by("a", "b", "c", "d"), 120)
        await world.until(lambda: all(len(r.isr) == 3 for r in world.records().values()), 120)
        assert all(not owner.refused for owner in world.owners.values())

    check_history(simulate(scenario, seed, 2000))
