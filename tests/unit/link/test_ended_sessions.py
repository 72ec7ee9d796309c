"""What is left of a session that has ended is forgotten in pieces, and nothing of it is said to anybody meanwhile."""

from __future__ import annotations

from typing import Any

from broker.core.address import AckMode, Routing
from broker.core.commands import Barrier, Disconnect, DisconnectAll, Subscribe, SubscribeAll
from broker.core.effects import Done
from broker.core.ids import SLOTS
from broker.link.edge_side.ended_sessions import FEW, PIECE
from tests.unit.link.world import Edge, Owner, World, make_settings

WILDCARDS = 40


class Place:
    """An edge whose session 1 has WILDCARDS wildcards in all slots, all led by a."""

    def __init__(self, wildcards: int = WILDCARDS) -> None:
        self.world = World()
        settings = make_settings()
        self.owners = [Owner(self.world, name, settings) for name in ("a", "b")]
        self.edge = Edge(self.world, settings)
        self.lead(0, 1)
        for number in range(1, wildcards + 1):
            model = Subscribe(0, 1, 0, 256 * number, f"a{number}.*", Routing.MULTICAST, AckMode.AUTO)
            self.edge.port.submit([SubscribeAll(model)])
            self.world.run()

    def lead(self, number: int, epoch: int) -> None:
        owner = self.owners[number]
        for slot in range(SLOTS):
            owner.server.serve(slot, epoch)
            self.edge.port.route(slot, epoch, owner.name, owner.address)
        self.world.run()

    @property
    def left(self) -> int:
        return len(self.edge.port._consumers)

    def ends(self) -> list[int]:
        """The session ends: how many consumers each step forgets."""
        owner, port = self.owners[0], self.edge.port
        owner.shard.answers = False
        port.submit([DisconnectAll(1)])
        self.world.run()
        before, found = self.left, []
        schedule: Any = port._ended._schedule

        def counted(step: Any) -> None:
            def run() -> None:
                before = self.left
                step()
                found.append(before - self.left)

            schedule(run)

        port._ended._schedule = counted
        owner.effects(*[Done(barrier.session, barrier.seq) for barrier in owner.shard.of(Barrier)])
        self.world.run()
        return [before - self.left - sum(found), *found]


def test_it_is_forgotten_in_pieces() -> None:
    """Of 200 wildcards 17,000 consumers were forgotten in one step, of 40 ms."""
    place = Place()
    at_once, *steps = place.ends()
    assert at_once == 0 and max(steps) <= PIECE + WILDCARDS and sum(steps) == WILDCARDS * SLOTS
    assert not place.left and not any(channel.kept for channel in place.edge.port._channels.values())


def test_a_small_one_at_once() -> None:
    place = Place(FEW)
    assert place.ends() == [FEW * SLOTS]


def test_an_owner_that_leads_meanwhile_hears_of_the_end_and_of_no_consumer() -> None:
    place = Place()
    port = place.edge.port
    waits: list[Any] = []
    port._ended._schedule = waits.append
    owner = place.owners[0]
    owner.shard.answers = False
    port.submit([DisconnectAll(1)])
    place.world.run()
    owner.effects(*[Done(barrier.session, barrier.seq) for barrier in owner.shard.of(Barrier)])
    place.world.run()
    assert len(waits) == 1 and place.left == WILDCARDS * SLOTS
    place.lead(1, 2)
    there = place.owners[1].shard
    assert len(there.of(Disconnect)) == SLOTS
    assert all(again.room == 0 for again in there.of(Subscribe)), "nothing comes to what is ending"
    while waits:
        waits.pop()()
    place.world.run()
    while waits:
        waits.pop()()
    assert not place.left and not any(channel.kept for channel in port._channels.values())
