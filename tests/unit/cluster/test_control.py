"""Members, fail-over, restarts, outages: the control side of a cluster as a whole, on a virtual clock."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from broker.cluster import controller
from broker.cluster.identity import ghost
from broker.cluster.planning.arrange import arrange
from broker.cluster.planning.view import Step, StepKind
from broker.core.errors import Code, RefusedError
from broker.core.slots import SlotRecord
from broker.metadata.port import Delete, Put

from .world import KEYS, Owner, World, simulate


async def ready(world: World, *names: str) -> None:
    world.start(*names)
    await world.until(lambda: world.led_by(*names))
    await asyncio.sleep(2)


def check_history(world: World) -> None:
    """Every owner saw every slot's revisions and epochs grow, never an isr without members."""
    for owner in world.owners.values():
        last: dict[int, SlotRecord] = {}
        for record in filter(None, owner.changes):
            before = last.get(record.slot)
            assert before is None or (before.revision < record.revision and before.epoch <= record.epoch)
            assert record.isr
            last[record.slot] = record


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


def test_how_long_plans_take_is_measured_where_they_are_made():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        made = {owner.controller.held: owner.plans.histogram()[1] for owner in world.owners.values()}
        assert sum(made[True]) >= 2 and not sum(made[False]), "what is urgent, and what is to be moved"

    simulate(scenario)


def test_leaders_go_to_where_the_edges_reach_them_and_come_back():
    """The edges say it with their registration; what they say survives that their lease is lost."""

    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        edges = [Owner(world, name, kind="edge").begin() for name in ("e0", "e1")]
        await world.until(lambda: all(edge.name_is_known() for edge in edges))
        for edge in edges:
            await edge.call(edge.membership.tell_unreached(("a",)))
        await world.until(lambda: world.led_by("b", "c"))
        world.store.revoke(edges[0].membership.lease)
        await asyncio.sleep(10)
        assert world.led_by("b", "c") and edges[0].name_is_known()
        revision = world.store.revision
        for edge in edges:
            await edge.call(edge.membership.tell_unreached(("a",)))
        await asyncio.sleep(60)
        assert world.store.revision == revision, "nothing is written while nothing changes"
        for edge in edges:
            await edge.call(edge.membership.tell_unreached(()))
        await world.until(lambda: world.led_by("a", "b", "c"))

    check_history(simulate(scenario))


def test_nothing_is_planned_from_a_store_that_has_lost_its_data():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        for owner in world.owners.values():
            owner.metadata.rewound = "it was at revision 9 and is at 1"
        world.owners["a"].kill()
        before = world.records()
        await asyncio.sleep(60)
        assert world.records() == before, "no fail-over"

    simulate(scenario)


def test_a_crowd_of_changes_is_answered_by_few_plans(monkeypatch):
    """A plan takes some milliseconds of a loop that receipts wait for; an owner that comes back changes every slot."""
    planned: list[float] = []

    def counted(view):
        planned.append(asyncio.get_running_loop().time())
        return arrange(view)

    monkeypatch.setattr(controller, "arrange", counted)

    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        planned.clear()
        for slot in range(200):
            record = world.records()[slot]
            world.store.commit([], [Put(KEYS.slot(slot), replace(record, isr=record.isr[::-1]).encode())])
            await asyncio.sleep(0.005)
        assert 2 <= len(planned) <= 1 + 1.0 / controller.PAUSE_S

    simulate(scenario)


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


def test_without_suspicions_the_lease_decides():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        world.owners["a"].kill()
        assert 3 < await world.until(lambda: world.led_by("b", "c")) < 6

    simulate(scenario)


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


def test_a_rolling_restart_copies_nothing():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c", "d")
        before = {slot: set(record.replicas) for slot, record in world.records().items()}
        for name in "abcd":
            await world.owners[name].stop()
            await asyncio.sleep(1)
            world.owner(name).begin()
            await world.until(lambda: world.led_by("a", "b", "c", "d"))
            await asyncio.sleep(1)
        assert {slot: set(record.replicas) for slot, record in world.records().items()} == before

    check_history(simulate(scenario))


def test_a_lost_owner_is_replaced_after_the_grace():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c", "d")
        world.owners["d"].kill()
        await asyncio.sleep(50)
        assert any("d" in record.replicas for record in world.records().values())
        await world.until(lambda: all(set(r.isr) == set(r.replicas) == set("abc") for r in world.records().values()))

    simulate(scenario)


def test_scaling_up_and_draining_down():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        world.start("d", "e")
        await world.until(lambda: world.led_by(*"abcde"))
        await asyncio.sleep(30)
        loads = [sum(one in record.replicas for record in world.records().values()) for one in "abcde"]
        assert sum(loads) == 768 and max(loads) - min(loads) <= 1
        for gone in "e":
            world.store.commit([], [Put(KEYS.cordon(gone), b"")])
            await world.until(lambda gone=gone: all(gone not in r.replicas for r in world.records().values()), 120)
            await world.owners[gone].stop()
        assert all(len(record.isr) >= 3 for record in world.records().values())

    check_history(simulate(scenario))


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


def test_a_stale_controller_changes_nothing():
    """It was frozen, another one took over; what it had decided upon does not count any more."""

    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        stale = next(owner for owner in world.owners.values() if owner.controller.held)
        stale.place.frozen = True
        await asyncio.sleep(10)
        assert sum(owner.controller.held for owner in world.owners.values()) == 2
        stale.place.frozen = False
        await asyncio.sleep(5)
        assert sum(owner.controller.held for owner in world.owners.values()) == 1
        assert stale.lost

    check_history(simulate(scenario))


def test_what_was_planned_in_office_is_not_written_out_of_office():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        owner = next(owner for owner in world.owners.values() if owner.controller.held)
        owner.metadata.latency = lambda: 0.0
        record = world.records()[7]
        target = next(one for one in record.isr if one != record.leader)
        step = Step(StepKind.TRANSFER, record, replace(record, target=target), target)
        late = owner.place.spawn(owner.controller._carry_out([step]))
        world.store.commit([], [Put(KEYS.controller, b"{}")])  # before it has heard of that
        await late
        assert world.records()[7] == record

    simulate(scenario)


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
