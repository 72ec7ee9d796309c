"""Whose passcode is checked next, and who waits: shares of addresses, and who came in before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from broker.core.errors import RefusedError
from broker.core.states import IllegalMove
from broker.edge.access.login_queue import BUSY, FORGET_S, FREE_OF_ADDRESS, Check, CheckState, LoginQueue, Penalties

from .test_auth import Clock


class Desk:
    """Turns with one thread, at which nobody is ready before the test says so."""

    def __init__(self, most: int = 1000, threads: int = 1) -> None:
        self.blocked: set[tuple[str, str]] = set()
        self.suspects: Callable[[str], bool] = lambda address: False
        self.may_try: Callable[[str], bool] = lambda address: True
        self.turns = LoginQueue(
            threads, most, lambda pair: pair in self.blocked, lambda pair: self.suspects(pair[0]),
            lambda pair: self.may_try(pair[0]),
        )  # fmt: skip
        self.checks: list[Check] = []
        self.done: list[Check] = []

    def ask(self, address: str, name: str = "ada", proven: bool = False, paid: bool = False) -> Check:
        check = Check(name)
        self.checks.append(check)
        self.turns.wait(check, address, proven, paid)
        return check

    def try_first(self, address: str, name: str = "ada") -> Check:
        check = Check(name)
        self.checks.append(check)
        self.turns.try_first(check, address)
        return check

    def order(self) -> list[Check]:
        """Ends one check after the other; who had a turn, in that order."""
        while now := [one for one in self.checks if one.granted.done() and one not in self.done]:
            for check in now:
                self.done.append(check)
                self.turns.over(check)
        return [one for one in self.done if one.granted.exception() is None]


async def test_a_flood_of_one_address_costs_the_next_client_of_another_one_check():
    desk = Desk()
    flood = [desk.ask("attacker") for _ in range(990)]
    client = desk.ask("client")
    assert desk.order().index(client) <= 2 and len(desk.done) == 991
    assert all(one.granted.done() for one in flood)


async def test_who_came_in_before_is_before_all_strangers_and_does_not_stop_them():
    desk = Desk()
    for number in range(400):
        desk.ask(f"attacker {number}")
    client = desk.ask("client", proven=True)
    assert desk.order().index(client) <= 2
    desk = Desk()
    stranger = [desk.ask("client", proven=True) for _ in range(100)] and desk.ask("stranger")
    assert desk.order().index(stranger) <= 5


async def test_when_all_places_are_taken_the_address_with_the_most_gives_way():
    desk = Desk(most=10)
    flood = [desk.ask("attacker") for _ in range(11)]
    with pytest.raises(RefusedError, match=BUSY):
        desk.ask("attacker")
    clients = [desk.ask(f"client {number}") for number in range(5)]
    served = desk.order()
    assert set(clients) <= set(served) and len(served) == 11
    refused = [one.granted.exception() for one in flood if one not in served]
    assert len(refused) == 5 and {str(one) for one in refused} == {f"Login failed: {BUSY}"}


async def test_what_several_ask_for_comes_with_the_first_of_them_and_is_refused_with_the_last():
    desk = Desk(most=4)
    desk.ask("a")
    mine = [desk.ask("a") for _ in range(3)]
    desk.turns.wait(mine[2], "b", False, False)
    assert desk.order().index(mine[2]) == 2
    desk = Desk(most=3)
    desk.ask("a")
    shared, *_ = [desk.ask("a") for _ in range(2)]
    desk.turns.wait(shared, "b", False, False)
    desk.ask("c")  # the place of "a" goes, that of "b" stays
    assert shared in desk.order()
    assert not desk.turns._strangers and not len(desk.turns._places)


async def test_a_login_whose_only_place_gives_way_to_its_next_one_keeps_that_and_no_thread_is_lost():
    desk = Desk(most=3)
    desk.ask("x")
    shared, *_ = [desk.ask("a") for _ in range(3)]
    desk.turns.wait(shared, "b", False, False)  # "a" holds the most, and has waited for this one for longest
    assert shared.state is CheckState.WAITING and shared.entries == {"b": False}
    assert shared in desk.order() and not desk.turns._strangers and not len(desk.turns._places)
    assert desk.ask("c").state is CheckState.GRANTED


async def test_the_end_of_the_broker_ends_a_login_that_waits_as_several_addresses_once():
    desk = Desk()
    desk.ask("x")
    shared, proven = desk.ask("a"), desk.ask("a")
    desk.turns.wait(shared, "b", False, False)
    desk.turns.wait(proven, "c", True, False)
    desk.turns.close()
    assert shared.granted.cancelled() and proven.granted.cancelled()
    desk.turns.over(shared)


async def test_who_failed_too_often_meanwhile_has_no_turn_but_who_served_a_wait_has():
    desk = Desk()
    desk.ask("x")
    guesses = [desk.ask("attacker", "ada") for _ in range(50)]
    waited = desk.ask("attacker", "ada", paid=True)
    other = desk.ask("attacker", "bob")
    desk.blocked = {("attacker", "ada")}
    assert desk.order()[1:] == [waited, other]
    assert all(isinstance(one.granted.exception(), RefusedError) for one in guesses)


async def test_what_is_over_before_its_turn_leaves_its_place_and_close_ends_the_rest():
    desk = Desk()
    first, second, third = (desk.ask("a") for _ in range(3))
    desk.turns.over(second)
    desk.turns.over(first)
    assert third.granted.done() and not second.granted.done()
    fourth, fifth = desk.ask("a"), desk.ask("b", proven=True)
    desk.turns.close()
    assert fourth.granted.cancelled() and fifth.granted.cancelled()
    desk.turns.over(fourth)
    desk.turns.over(third)


async def test_a_storm_from_a_thousand_addresses_costs_a_newcomer_a_check_or_two():
    desk = Desk(threads=2)
    desk.suspects = lambda address: address.startswith("attacker")
    for number in range(900):
        desk.ask(f"attacker {number}")
    client = desk.ask("client")
    assert desk.order().index(client) <= 4 and len(desk.done) == 901, "suspects have their turns all the same"


async def test_who_turns_out_to_be_a_suspect_when_his_turn_comes_waits_behind_who_is_none():
    desk = Desk()
    storm = [desk.ask(f"attacker {number}") for number in range(50)]
    client = desk.ask("client")
    desk.suspects = lambda address: address.startswith("attacker")
    order = desk.order()
    assert order.index(client) <= 2 and set(storm) <= set(order)
    assert not desk.turns._strangers and not desk.turns._suspects and not len(desk.turns._places)


async def test_suspects_have_one_turn_of_four_however_many_newcomers_wait():
    desk = Desk()
    desk.suspects = lambda address: address == "attacker"
    for number in range(100):
        desk.ask(f"newcomer {number}")
    suspect = desk.ask("attacker")
    assert desk.order().index(suspect) <= 4


async def test_a_place_of_a_suspect_goes_to_who_is_none_and_to_no_other_suspect():
    desk = Desk(most=10)
    desk.suspects = lambda address: address.startswith("attacker")
    desk.ask("x")
    storm = [desk.ask(f"attacker {number}") for number in range(10)]
    with pytest.raises(RefusedError, match=BUSY):
        desk.ask("attacker 11")
    clients = [desk.ask(f"client {number}") for number in range(10)]
    with pytest.raises(RefusedError, match=BUSY):
        desk.ask("client 11")  # there is no suspect left, and everybody has one place
    served = desk.order()
    assert set(clients) <= set(served) and not set(storm) & set(served)
    assert all(isinstance(one.granted.exception(), RefusedError) for one in storm)


async def test_who_is_tried_first_is_before_a_storm_of_a_thousand_new_addresses_and_stops_nobody():
    desk = Desk()
    storm = [desk.ask(f"attacker {number}") for number in range(900)]
    client = desk.try_first("client")
    order = desk.order()
    assert order.index(client) <= 2 and set(storm) <= set(order)
    desk = Desk()
    desk.ask("x")
    for number in range(100):
        desk.try_first(f"client {number}")
    stranger = desk.ask("stranger")
    assert desk.order().index(stranger) <= 4
    assert not desk.turns._tries and not desk.turns._tried_from


async def test_addresses_take_turns_at_being_tried_first_and_have_room_of_their_own():
    desk = Desk(most=10)
    desk.ask("x")
    flood = [desk.try_first("attacker") for _ in range(9)]
    assert desk.turns.can_try
    client = desk.try_first("client")
    assert not desk.turns.can_try and desk.turns.busy
    place = desk.ask("elsewhere")  # they take no place of those who wait
    order = desk.order()
    assert order.index(client) <= 3 and place in order and set(flood) <= set(order)


async def test_who_may_not_be_tried_any_more_is_told_when_his_turn_comes_and_one_who_has_gone_leaves_nothing():
    desk = Desk()
    desk.ask("x")
    flood = [desk.try_first(f"attacker {number}") for number in range(50)]
    client = desk.try_first("client")
    gone = desk.try_first("client")
    gone.granted.cancel()
    desk.turns.over(gone)
    desk.checks.remove(gone)
    late = desk.try_first("attacker who has gone, too")
    late.granted.cancel()
    desk.checks.remove(late)
    desk.may_try = lambda address: address == "client"
    assert desk.order()[1:] == [client] and late.state is CheckState.REFUSED
    assert all(isinstance(one.granted.exception(), RefusedError) for one in flood)
    assert not desk.turns._tries and not desk.turns._tried_from
    last = desk.ask("x"), desk.try_first("client")
    desk.turns.close()
    assert last[1].granted.cancelled()


class Office:
    def __init__(self) -> None:
        self.clock = Clock()
        self.slept: list[float] = []
        self.penalties = Penalties(self.clock, self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


async def test_a_guesser_behind_a_balancer_costs_those_nothing_who_came_in_from_there():
    office = Office()
    penalties = office.penalties
    penalties.succeeded(("balancer", "ada"))
    for number in range(FREE_OF_ADDRESS):
        penalties.failed(("balancer", f"guess {number}"))
    assert penalties.blocked(("balancer", "new")) and not penalties.blocked(("elsewhere", "new"))
    assert not await penalties.serve(("balancer", "ada")) and office.slept == []
    assert await penalties.serve(("balancer", "new")) and office.slept == [0.5]
    penalties.succeeded(("balancer", "ada"))
    assert penalties.blocked(("balancer", "new")), "one right passcode does not let a guesser go on"
    penalties.succeeded(("balancer", "bob"))
    assert not penalties.blocked(("balancer", "new")), "there are more clients there"


async def test_a_name_that_is_guessed_waits_from_that_address_only():
    office = Office()
    for _ in range(3):
        office.penalties.failed(("a", "ada"))
    assert office.penalties.blocked(("a", "ada"))
    assert not office.penalties.blocked(("a", "bob")) and not office.penalties.blocked(("b", "ada"))
    office.clock.now += FORGET_S + 1
    assert not office.penalties.blocked(("a", "ada"))


async def test_a_suspect_is_whose_address_or_name_was_wrong_and_only_for_a_while():
    office = Office()
    penalties = office.penalties
    penalties.failed(("a", "ada"))
    assert (
        penalties.suspect(("a", "bob")) and not penalties.suspect(("b", "ada")) and not penalties.suspect(("b", "bob"))
    )
    for number in range(3):
        penalties.failed((f"botnet {number}", "ada"))
    assert penalties.suspect(("b", "ada")) and not penalties.suspect(("b", "bob"))
    office.clock.now += FORGET_S + 1
    assert not penalties.suspect(("a", "bob")) and not penalties.suspect(("b", "ada"))


async def test_who_was_tried_and_wrong_is_not_tried_again_for_a_while():
    office = Office()
    penalties = office.penalties
    penalties.tried(("a", "ada"))
    assert not penalties.may_try(("a", "bob")) and penalties.may_try(("b", "ada"))
    assert not penalties.suspect(("a", "bob")) and not penalties.blocked(("a", "ada")), "its turn is what counts"
    for number in range(3):
        penalties.tried((f"botnet {number}", "ada"))
    assert not penalties.may_try(("b", "ada")) and penalties.may_try(("b", "bob"))
    penalties.failed(("c", "bob"))
    assert not penalties.may_try(("c", "eve"))
    penalties.succeeded(("a", "ada"))
    assert penalties.may_try(("a", "bob"))
    office.clock.now += FORGET_S + 1
    assert penalties.may_try(("b", "ada")) and penalties.may_try(("c", "eve"))


async def test_a_check_is_one_thing_after_another():
    desk = Desk()
    first, second = desk.ask("a"), desk.ask("b")
    assert (first.state, second.state) == (CheckState.GRANTED, CheckState.WAITING)
    desk.turns.over(first)
    assert (first.state, second.state) == (CheckState.OVER, CheckState.GRANTED)
    with pytest.raises(IllegalMove, match="OVER does not follow OVER"):
        desk.turns.over(first)  # it would free a thread twice
    with pytest.raises(IllegalMove, match="GRANTED does not follow OVER"):
        first.grant()
    with pytest.raises(IllegalMove, match="REFUSED does not follow GRANTED"):
        second.refuse()


async def test_what_another_edge_has_found_takes_no_turn_when_it_is_asked_for_again():
    desk = Desk()
    busy, found = desk.ask("a"), desk.ask("b")
    desk.turns.over(found)  # another edge knew it: no thread was needed
    desk.turns.wait(found, "c", False, False)
    late = desk.ask("d")
    desk.turns.over(busy)
    assert found.state is CheckState.OVER and late.state is CheckState.GRANTED


async def test_a_check_whose_task_was_cancelled_leaves_its_place():
    desk = Desk()
    busy, cancelled, last = desk.ask("a"), desk.ask("b"), desk.ask("c")
    cancelled.granted.cancel()
    desk.turns.over(cancelled)
    desk.turns.over(busy)
    assert last.state is CheckState.GRANTED
