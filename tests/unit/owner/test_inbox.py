"""What waits for a turn: in its order, a portion at a time, and not without end."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.address import Routing
from broker.core.commands import Disconnect, Publish, Transact
from broker.core.message import Blob
from broker.owner.inbox.deferred import Deferred
from broker.owner.inbox.inbox import Inbox
from broker.owner.inbox.portions import FEW, LEAST, MOST, TURN, TURNS
from tests.unit.engine.world import run_of


class Bench:
    def __init__(self) -> None:
        self.woken = 0
        self.inbox = Inbox(Deferred(), self.wake)

    def wake(self) -> None:
        self.woken += 1

    def comes(self, *commands: Any) -> None:
        self.inbox.new.extend(commands)


@pytest.fixture
def at() -> Bench:
    return Bench()


def send(n: int, slot: int = 1) -> Publish:
    return Publish(slot, 7, n, "q", Routing.ANYCAST, run_of(b"m"))


def large(slot: int, id: int, dedup: tuple[int, int] | None = (9, 1)) -> Publish:
    run = run_of(b"m")
    run.blob = Blob(id, 100)
    return Publish(slot, 7, 1, "q", Routing.ANYCAST, run, dedup=dedup)


def test_the_large_bodies_of_what_waited_for_a_slot_are_told_when_it_goes(at: Bench) -> None:
    """The cluster's history 936: the file of one stayed until the next start. One that has no number is
    known by its body when it comes again (OwnerBodies.known), so that stays."""
    at.comes(send(1, 2), large(2, 5), large(2, 6, None), large(3, 7))
    at.inbox.deferred.waiting.append(large(2, 8))
    assert sorted(blob.id for blob in at.inbox.drop(2)) == [5, 8]
    assert [command.run.blob.id for command in at.inbox.new] == [7] and at.inbox.deferred.waiting == []


def test_a_few_are_taken_as_they_are(at: Bench) -> None:
    few = [send(n) for n in range(FEW)]
    at.comes(*few)
    assert at.inbox.drain() == ([], few) and at.inbox.new == [] and at.woken == 0


def test_many_come_in_portions_and_the_rest_keeps_its_place(at: Bench) -> None:
    many = [send(n) for n in range(2 * TURN)]
    at.comes(*many)
    _, first = at.inbox.drain()
    assert 0 < len(first) < len(many) and at.woken == 1, "and another turn comes"
    late = send(-1)
    at.comes(late)
    taken = list(first)
    while at.inbox.new:
        taken += at.inbox.drain()[1]
    assert taken == [*many, late]


def test_in_a_cluster_who_has_little_does_not_wait_behind_who_has_much() -> None:
    woken: list[None] = []
    inbox = Inbox(Deferred(), lambda: woken.append(None), alone=False)
    many = [send(n, n % 7) for n in range(2 * TURN)]
    other = Publish(9, 8, 1, "r", Routing.ANYCAST, run_of(b"m"))
    inbox.new += [*many, other]
    _, first = inbox.drain()
    assert first[0] is other and len(first) == TURN and len(woken) == 1
    taken = list(first)
    while inbox.new:
        taken += inbox.drain()[1]
    assert taken == [other, *many]


def test_what_is_left_over_comes_before_what_came_meanwhile(at: Bench) -> None:
    rest, first, late = send(1), Disconnect(1, 7), send(2)
    at.comes(late)
    at.inbox.put_back(iter([rest]), [first])
    assert at.inbox.new == [first, rest, late] and at.woken == 1
    assert at.inbox.drain_new() == [first, rest, late] and at.inbox.new == []


def test_what_has_waited_comes_first(at: Bench) -> None:
    waited, new = send(1), send(2)
    at.inbox.deferred.waiting.append(waited)
    at.comes(new)
    assert list(at.inbox.waiting(0)) == [waited, new]
    assert list(at.inbox.waiting(1)) == [new] and list(at.inbox.waiting(2)) == []
    assert at.inbox.drain() == ([waited], [new])


def test_who_was_told_to_pause_goes_on_when_half_is_left(at: Bench) -> None:
    at.comes(*[send(n) for n in range(MOST + 1)])
    at.inbox.fills()
    assert not at.inbox.eases() and at.inbox.throttles
    del at.inbox.new[MOST // 2 :]
    assert not at.inbox.eases(), "not at the first place that is free"
    at.inbox.new.pop()
    assert at.inbox.eases() and not at.inbox.throttles


def test_of_heavy_commands_fewer_may_wait(at: Bench) -> None:
    """1,500 NACKs are 60 ms of work: whoever sends a message behind them waits for all of it."""
    for heavy, fewest in ((Transact(1, 7, 1, [send(1)] * 2), 2 * TURN // 10), (Transact(1, 7, 1, [send(1)] * 60), 0)):
        at.comes(*[heavy] * 400)
        carried_out = len(at.inbox.drain()[1])
        assert at.inbox.most == max(TURNS * carried_out, LEAST) and fewest <= at.inbox.most < MOST // 2
        while at.inbox.new:
            at.inbox.drain()
        assert at.inbox.most == MOST, "of what there is now nothing is known"


def test_a_slot_that_goes_takes_its_own_with_it(at: Bench) -> None:
    at.comes(send(1, 1), send(2, 2))
    at.inbox.deferred.waiting += [send(3, 1), send(4, 2)]
    at.inbox.drop(1)
    assert [command.seq for command in at.inbox.waiting(0)] == [4, 2]


def test_when_the_owner_stops_all_of_it_is_answered(at: Bench) -> None:
    at.comes(send(3))
    at.inbox.deferred.waiting.append(send(1))
    assert [command.seq for command in at.inbox.empty([send(2)])] == [1, 2, 3]
    assert list(at.inbox.waiting(0)) == []
