"""Half of a turn of a cluster's owner is for who has little there; nothing is looked at twice for that."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Command, Confirm, Disconnect, Grant, Publish, Settle, Subscribe, Transact
from broker.owner.inbox import portions, shares
from broker.owner.inbox.deferred import Deferred
from broker.owner.inbox.inbox import Inbox
from broker.owner.inbox.portions import FEW, LOOKED, TURN
from broker.owner.inbox.shares import BEGINS, Shares
from tests.unit.engine.world import run_of


def send(slot: int, session: int, seq: int = 1) -> Publish:
    return Publish(slot, session, seq, "q", Routing.ANYCAST, run_of(b"\n\0"), dedup=(77, seq))


def begin(slot: int, session: int, consumer: int = 5) -> Subscribe:
    return Subscribe(slot, session, 1, consumer, "q", Routing.ANYCAST, AckMode.AUTO)


def taken(commands: list[Command]) -> tuple[list[Command], list[Command]]:
    return Shares().drain(commands)


def turns(inbox: Inbox) -> Iterator[list[Command]]:
    while inbox.new:
        yield inbox.drain()[1]


def cluster() -> Inbox:
    return Inbox(Deferred(), lambda: None, alone=False)


def test_who_has_little_does_not_wait_behind_who_has_much() -> None:
    """2,000 wildcards of one client are half a million SUBSCRIBEs: others waited for 1,500 of them, 300 a turn."""
    wildcards: list[Command] = [begin(slot, 1, 1000 * n + slot) for n in range(20) for slot in range(85)]
    other, late = send(9, 2, 501), Settle(10, 3, 1, 5, [1])
    goes, waits = taken([*wildcards, other, late])
    mine = [command for command in goes if command.slot in (9, 10)]
    assert {other, late} <= {*goes} and len(mine) <= 42
    assert sum(BEGINS if type(command) is Subscribe else 1 for command in goes) <= TURN + BEGINS
    assert goes[42:] == [command for command in wildcards if command.slot not in (9, 10)][: len(goes) - 42], (
        "the rest of a turn is by order"
    )
    assert len(goes) + len(waits) == len(wildcards) + 2


def test_half_of_a_turn_is_for_who_came_first_whoever_has_little() -> None:
    first: list[Command] = [send(1, 1, n) for n in range(2 * TURN)]
    many: list[Command] = [send(slot, session) for session in range(2, 40) for slot in range(2, 12)]
    goes, _ = taken([*first, *many])
    mine = [command for command in goes if command.session == 1]
    assert TURN // 2 <= len(mine) < len(goes) == TURN and mine == first[: len(mine)]


def test_a_commit_is_of_its_slot_and_who_is_elsewhere_goes_ahead_of_it() -> None:
    """Behind one COMMIT nobody was put ahead any more: beside a client that commits, all others waited in order."""
    much: list[Command] = [send(1, 1, n) for n in range(TURN)]
    before, behind, after = send(2, 2), send(3, 3), send(4, 3)
    commit = Transact(4, 4, 1, [send(3, 4)] * TURN, (77, 600))
    goes, waits = taken([*much, before, commit, *much, behind, after])
    assert goes[:2] == [before, behind] and waits.index(commit) < waits.index(after)


def test_one_client_alone_is_served_by_order() -> None:
    much: list[Command] = [send(n % 7, 1, n) for n in range(2 * TURN)]
    assert taken(much) == (much[:TURN], much[TURN:])
    confirms: list[Command] = [Confirm(1, 5, 1) for _ in range(TURN + 1)]
    assert taken(confirms) == (confirms[:TURN], confirms[TURN:])


def test_a_command_is_weighed_as_often_whatever_stands_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """3,000 were looked at again in each turn of 64 consumers: 2 ms of it."""
    weighed = 0
    weigh = shares.weigh

    def counted(command: Command) -> int:
        nonlocal weighed
        weighed += 1
        return weigh(command)

    monkeypatch.setattr(shares, "weigh", counted)
    found = []
    for many in (LOOKED, 3 * LOOKED):
        weighed, inbox = 0, cluster()
        inbox.new += [begin(n % 85, 1, n) for n in range(many)]
        done = 0
        for at, goes in enumerate(turns(inbox)):
            done += len(goes[:20])
            inbox.put_back(goes[20:])  # the turn has begun enough
            inbox.new.append(send(at % 85, 2, at))  # and somebody else has come
            if done > many // 2:
                break
        found.append(weighed / done)
    assert found[1] < found[0] + 2, "so many times the commands, and each has been weighed as often"


def test_who_comes_while_another_one_waits_goes_ahead_as_well() -> None:
    inbox = cluster()
    inbox.new += [begin(slot, 1, 100 * n + slot) for n in range(20) for slot in range(85)]
    for turn in range(5):
        inbox.new.append(other := send(turn, 2, turn))
        _, goes = inbox.drain()
        assert other in goes
        inbox.put_back(goes[goes.index(other) + 1 :])
    inbox.drop(7)
    inbox.new.append(other := send(8, 2, 99))
    assert other in inbox.drain()[1] and not any(command.slot == 7 for command in inbox.new)


def test_what_fits_into_a_turn_is_taken_by_order() -> None:
    inbox = cluster()
    few = [*[begin(1, 1, n) for n in range(TURN // 2)], send(2, 2)]
    inbox.new += [begin(1, 3, n) for n in range(TURN)]
    list(turns(inbox))
    inbox.new += few
    assert inbox.drain()[1] == few, "nothing is left of what there was before"
    inbox.new += few[: FEW - 1]
    assert inbox.drain()[1] == few[: FEW - 1]


KINDS = st.sampled_from(["publish", "settle", "grant", "begin", "end", "commit"])
DRAWN = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), KINDS), max_size=60)


def drawn_as(slot: int, session: int, kind: str) -> Command:
    if kind == "grant":
        return Grant(slot, 5, 1)
    if kind == "begin":
        return begin(slot, session)
    if kind == "commit":
        return Transact(slot, session, 1, [send(slot, session)])
    return (
        Settle(slot, session, 1, 5, [1], Outcome.NACK)
        if kind == "settle"
        else (Disconnect(slot, session) if kind == "end" else send(slot, session))
    )


@given(st.lists(st.tuples(DRAWN, st.integers(0, 12)), max_size=6))
def test_each_slot_keeps_its_order_whoever_goes_first_and_nothing_is_lost(drawn: list) -> None:
    """Some come, a turn takes its part, and puts back what it has not carried out."""
    inbox = cluster()
    came: list[Command] = []
    gone: list[Command] = []
    # As in a turn that has room for a few of them.
    with mock.patch.object(portions, "TURN", 12):
        for commands, most in [*drawn, *[([], 12)] * 200]:
            fresh = [drawn_as(*each) for each in commands]
            came += fresh
            inbox.new += fresh
            _, goes = inbox.drain()
            gone += goes[:most]
            if goes[most:]:
                inbox.put_back(goes[most:])
    assert len(gone) == len(came) and not inbox.new
    for slot in range(4):
        assert [it for it in gone if it.slot == slot] == [it for it in came if it.slot == slot]
