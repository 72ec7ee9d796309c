"""Who may say of whom that it is dead, and when: after the store was away above all. On a virtual clock."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from broker.cluster.controller import MASS_S

from .world import KEYS, Owner, World, simulate


async def ready(world: World) -> list[Owner]:
    owners = world.start("a", "b", "c")
    await world.until(lambda: world.led_by("a", "b", "c"))
    await asyncio.sleep(2)
    return owners


async def outage(world: World, owners: list[Owner], seconds: float = 8.0) -> None:
    """The store stands still for longer than leases last, and everybody has registered anew."""
    for owner in owners:
        owner.metadata.cut()
    await asyncio.sleep(seconds)
    for owner in owners:
        owner.metadata.heal()
    await world.until(lambda: all(owner.lost and owner.membership.up for owner in owners))
    await asyncio.sleep(0.5)


def accuse(by: Owner, whom: Owner, since: float | None = None) -> None:
    of = by.membership.owners.get(whom.me.id)
    if of is not None:
        by.place.run(by.suspicions.report, whom.me.id, of.boot, of.lease, "refused", since)


def test_a_death_soon_after_the_store_was_away_does_not_wait_for_a_lease():
    """Everybody's lease ran out because nobody could be asked: that says nothing about whom we can reach."""

    async def scenario(world: World) -> None:
        a, b, c = owners = await ready(world)
        await outage(world, owners)
        await asyncio.sleep(MASS_S)  # so long nobody is failed over
        a.kill()
        for owner in (b, c):
            accuse(owner, a)
        assert await world.until(lambda: world.led_by("b", "c")) < 0.3

    simulate(scenario)


def test_outages_one_after_the_other_do_not_make_anybody_slower():
    async def scenario(world: World) -> None:
        owners = await ready(world)
        for _ in range(6):
            for owner in owners:
                owner.metadata.cut()
            await asyncio.sleep(8)
            for owner in owners:
                owner.metadata.heal()
            took = await world.until(lambda: all(owner.membership.lease for owner in owners))
            assert took < 1
            await asyncio.sleep(1)

    simulate(scenario)


def test_who_is_still_not_reached_when_the_store_is_back_is_declared_dead_then():
    """Cut off from its peers only, while nobody could write that down: its lease never ends, so nothing else would."""

    async def scenario(world: World) -> None:
        a, b, c = owners = await ready(world)
        for owner in (b, c):
            accuse(owner, a)
            owner.metadata.cut()
        await asyncio.sleep(0.1)
        a.metadata.cut()
        await asyncio.sleep(4)
        for owner in owners:
            owner.metadata.heal()
        for _ in range(5):
            await asyncio.sleep(0.3)
            for owner in (b, c):
                accuse(owner, a, owner.clock.monotonic() - 0.2)
        assert a.lost

    simulate(scenario)


def test_who_came_last_knows_since_when_the_others_are_there():
    async def scenario(world: World) -> None:
        a, b, c = await ready(world)
        a.kill()
        for owner in (b, c):
            accuse(owner, a, owner.clock.monotonic() - 1)
        assert await world.until(lambda: world.led_by("b", "c")) < 0.3

    simulate(scenario)


def test_an_attempt_from_before_a_registration_says_nothing_about_it():
    """Neither about theirs nor, as we may have been the one that nobody could reach, since ours."""

    async def scenario(world: World) -> None:
        a, b, c = owners = await ready(world)
        before = {owner: owner.clock.monotonic() for owner in owners}
        await outage(world, owners)
        for owner in (b, c):
            accuse(owner, a, before[owner])
        await asyncio.sleep(1)
        assert len(a.lost) == 1 and world.store.range(KEYS.suspects)[0] == []
        for owner in (b, c):
            accuse(owner, a, owner.clock.monotonic() - 0.1)
        await world.until(lambda: len(a.lost) == 2, 1)

    simulate(scenario)


SIX = ("a", "b", "c", "d", "e", "f")


async def six(world: World) -> tuple[Owner, list[Owner], list[Owner]]:
    """One of six, those that share slots with it, and the rest."""
    owners = {owner.me.id: owner for owner in world.start(*SIX)}
    await world.until(lambda: world.led_by(*SIX) and all(len(r.isr) == 3 for r in world.records().values()))
    await asyncio.sleep(2)
    peers = owners["b"].slots.peers_of("a")
    assert 2 <= len(peers) < 5
    rest = owners.keys() - peers - {"a"}
    return owners["a"], [owners[name] for name in sorted(peers)], [owners[name] for name in sorted(rest)]


def test_of_many_owners_those_that_have_streams_to_it_declare_one_dead():
    """Nobody else would ever say that it cannot be reached."""

    async def scenario(world: World) -> None:
        suspect, peers, _ = await six(world)
        suspect.kill()
        for owner in peers:
            accuse(owner, suspect)
        assert await world.until(lambda: all(r.leader != "a" for r in world.records().values())) < 0.3

    simulate(scenario)


def test_of_many_owners_one_peer_and_all_strangers_declare_nobody_dead():
    async def scenario(world: World) -> None:
        suspect, peers, rest = await six(world)
        for _ in range(4):
            for owner in (peers[0], *rest):
                accuse(owner, suspect)
            await asyncio.sleep(0.5)
        assert not suspect.lost and suspect.membership.up

    simulate(scenario)


def test_with_a_single_peer_a_majority_of_all_others_is_asked():
    """Each of two that cannot talk would have the other declared dead."""

    async def scenario(world: World) -> None:
        world.settings = replace(world.settings, replicas=2)
        owners = {owner.me.id: owner for owner in world.start("a", "b", "c", "d")}
        await world.until(lambda: world.led_by("a", "b", "c", "d"))
        await asyncio.sleep(3)
        pair = next(
            (one, *owners["a"].slots.peers_of(one)) for one in owners if len(owners["a"].slots.peers_of(one)) == 1
        )
        suspect, peer = owners[pair[0]], owners[pair[1]]
        for _ in range(4):
            accuse(peer, suspect)
            await asyncio.sleep(0.5)
        assert not suspect.lost
        for owner in owners.values():
            if owner is not suspect:
                accuse(owner, suspect)
        await world.until(lambda: bool(suspect.lost), 1)

    simulate(scenario)
