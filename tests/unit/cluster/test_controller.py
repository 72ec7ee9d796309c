"""The controller: few plans for many changes, none from a store that is not to be believed, none out of office."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from broker.cluster import controller
from broker.cluster.planning.arrange import arrange
from broker.cluster.planning.view import Step, StepKind
from broker.metadata.port import Put

from .control_world import check_history, ready
from .world import KEYS, Owner, World, simulate


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


def test_without_suspicions_the_lease_decides():
    async def scenario(world: World) -> None:
        await ready(world, "a", "b", "c")
        world.owners["a"].kill()
        assert 3 < await world.until(lambda: world.led_by("b", "c")) < 6

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
