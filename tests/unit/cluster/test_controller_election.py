"""Who plans: one owner, on the lease of its own registration; who has lost it without knowing changes nothing."""

from __future__ import annotations

import asyncio

import msgspec

from broker.cluster.controller_election import ControllerElection, ElectedController, holder_of
from broker.cluster.planning.view import Policy
from broker.metadata.port import KeyValue, Put

from .members import KEYS, member, membership, stored

POLICY = Policy(3, 2, 8)


class Candidates:
    """Owners that would plan, over one store."""

    def __init__(self) -> None:
        self.store, self.metadata = stored()
        self.changed: list[str] = []

    async def office(self, name: str) -> ControllerElection:
        known = membership(member(name), lease=self.store.grant(60)[0])
        office = ControllerElection(self.metadata, KEYS, known, POLICY, lambda: self.changed.append(name))
        await office.start()
        return office


async def test_the_first_has_it_and_says_by_which_policy_it_plans():
    all_of_them = Candidates()
    a, b = await all_of_them.office("a"), await all_of_them.office("b")
    assert not a.held
    assert await a.acquire() and a.held
    assert not await b.acquire() and not b.held
    item = all_of_them.store.keys[KEYS.controller]
    holder = holder_of(item)
    assert holder == ElectedController("a", "boot-a", 3, 2, 8) and holder.policy == POLICY
    assert a.guard == (KEYS.controller, item.revision)
    await asyncio.sleep(0.05)
    assert all_of_them.changed.count("b") == 1
    for office in (a, b):
        await office.stop()


async def test_it_is_free_again_with_the_lease_of_who_held_it():
    all_of_them = Candidates()
    a, b = await all_of_them.office("a"), await all_of_them.office("b")
    assert await a.acquire()
    await asyncio.sleep(0.05)
    all_of_them.store.revoke(a._membership.lease)
    await asyncio.sleep(0.05)
    assert not a.held and await b.acquire()
    for office in (a, b):
        await office.stop()


async def test_who_comes_too_late_learns_whose_it_is():
    """Both believe that it is free: the store decides, and the loser reads what stands there."""
    all_of_them = Candidates()
    a, b = await all_of_them.office("a"), await all_of_them.office("b")
    assert sorted(await asyncio.gather(a.acquire(), b.acquire())) == [False, True]
    assert [a.held, b.held].count(True) == 1
    for office in (a, b):
        await office.stop()


async def test_who_is_registered_anew_takes_its_own_office_on_the_new_lease():
    all_of_them = Candidates()
    a = await all_of_them.office("a")
    assert await a.acquire()
    a._membership.lease = all_of_them.store.grant(60)[0]
    assert not a.held, "the key hangs on the old lease"
    assert await a.acquire() and a.held
    await a.stop()


async def test_without_a_registration_nobody_takes_it_or_holds_it():
    all_of_them = Candidates()
    a = await all_of_them.office("a")
    assert await a.acquire()
    lease, a._membership.lease = a._membership.lease, 0
    assert not a.held and not await a.acquire()
    a._membership.lease = lease
    a._membership.me = member("a", leaving=True)
    assert a.held
    all_of_them.store.commit([], [Put(KEYS.controller, all_of_them.store.keys[KEYS.controller].value)])
    await asyncio.sleep(0.05)
    assert not a.held, "written by somebody without our lease"
    await a.stop()


def test_of_another_life_of_the_same_name_it_is_not_ours():
    other = msgspec.json.encode(ElectedController("a", "another boot", *POLICY))
    office = ControllerElection(stored()[1], KEYS, membership(member("a")), POLICY, lambda: None)
    assert not office._mine(KeyValue(KEYS.controller, other, 1, 1))


def test_what_cannot_be_read_is_held_by_nobody(caplog):
    assert holder_of(None) is None
    assert holder_of(KeyValue(KEYS.controller, b"{", 1, 0)) is None
    assert KEYS.controller in caplog.text
