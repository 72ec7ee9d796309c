"""An address is given more partitions while clients subscribe to it: they notice nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.config.settings import EngineSettings
from broker.core.commands import UNLIMITED, Publish, Settle, Subscribe, Unsubscribe
from broker.core.effects import Done
from broker.core.ids import slots_of
from tests.harness.waiting import eventually

from .bench import Bench
from .test_split_subscription import ack, commands, deliver, subscribe


def grown(number: int) -> EngineSettings:
    return EngineSettings(addresses={"q": {"partitions": number}})


class World(Bench):
    """Its port knows what `held` says."""

    def __init__(self, partitions: int = 1, **settings: Any) -> None:
        super().__init__(**settings)
        self.held: dict[int, list[int]] = {}
        self.port.held = lambda slot, consumer: self.held.get(consumer, [])
        self.edge.settings = replace(self.edge.settings, cluster=replace(self.edge.settings.cluster, lease_s=0.05))
        self.edge.configure(grown(partitions))

    def subscribe(self, session, **headers: str) -> list[Subscribe]:
        return subscribe(self, session, **headers)

    def grow(self, number: int) -> list[Subscribe]:
        self.edge.configure(grown(number))
        return commands(self, Subscribe)


@pytest.mark.parametrize("before", [1, 3])
async def test_a_subscription_gets_a_part_in_each_new_partition(before):
    world = World(before)
    session, wire = world.session()
    parts = world.subscribe(session, ack="auto", selector="a = 1", consumer_priority="7")
    wire.take()
    new = world.grow(5)
    assert [part.slot for part in new] == list(slots_of("q", 5)[before:])
    assert wire.take() == b"" and wire.closed is None
    for part in new:
        assert (part.address, part.selector, part.priority, part.seq) == ("q", "a = 1", 7, 0)
        assert 0 < part.room <= parts[0].room
    for part in (*parts, *new):
        deliver(world, part, 1)
    assert wire.take().count(b"MESSAGE\nsubscription:1\n") == 5
    assert world.grow(5) == [], "it has all parts"
    session.receive(b"UNSUBSCRIBE\nid:1\n\n\0")
    assert {(end.slot, end.consumer) for end in commands(world, Unsubscribe)} == {
        (part.slot, part.consumer) for part in (*parts, *new)
    }


async def test_a_cumulative_acknowledgement_covers_what_came_before_the_growth():
    world = World()
    session, wire = world.session()
    (old,) = world.subscribe(session, ack="client")
    deliver(world, old, 1, 2, 3)
    world.held[old.consumer] = [2, 3]  # the first has been acknowledged
    (new,) = world.grow(2)
    deliver(world, new, 9)
    assert wire.take().count(b"MESSAGE\n") == 4
    assert ack(session, world, new, 9) == [(old.consumer, [3]), (new.consumer, [9])]
    deliver(world, old, 4)
    assert ack(session, world, old, 4) == [(old.consumer, [4])]


@pytest.mark.parametrize("mode", ["client", "client-individual"])
async def test_a_window_of_messages_stays_what_it_was(mode):
    world = World()
    session, wire = world.session()
    (old,) = world.subscribe(session, ack=mode, prefetch_count="3")
    deliver(world, old, 1, 2)
    world.held[old.consumer] = [1, 2]
    (new,) = world.grow(2)
    wire.take()
    deliver(world, new, 9, 10)
    assert wire.take().count(b"MESSAGE\n") == 1
    settled = ack(session, world, old, 2)
    assert settled == [(old.consumer, [2])]
    assert wire.take().count(b"MESSAGE\n") == 1


async def test_one_that_counts_over_its_parts_already_goes_on_counting():
    world = World(3)
    session, wire = world.session()
    parts = world.subscribe(session, ack="client", prefetch_count="2")
    deliver(world, parts[0], 1)
    (new,) = world.grow(4)
    wire.take()
    deliver(world, new, 5, 6)
    assert wire.take().count(b"MESSAGE\n") == 1
    assert ack(session, world, new, 5) == [(parts[0].consumer, [1]), (new.consumer, [5])]
    assert wire.take().count(b"MESSAGE\n") == 1


async def test_a_rate_holds_over_new_parts_as_well():
    world = World()
    session, wire = world.session()
    (old,) = world.subscribe(session, ack="client", consumer_max_rate="1000")
    (new,) = world.grow(2)
    wire.take()
    deliver(world, old, 1)
    deliver(world, new, 9)
    assert wire.take().count(b"MESSAGE\n") == 2
    assert ack(session, world, new, 9) == [(old.consumer, [1]), (new.consumer, [9])]


async def test_a_browser_sees_what_there_was():
    world = World()
    session, wire = world.session()
    world.subscribe(session, browser="true")
    assert world.grow(3) == [] and wire.closed is None


async def test_each_address_of_a_composite_destination_grows_by_itself():
    world = World(acceptors={"classic": {"dialect": "activemq", "port": 1}})
    session, wire = world.session("classic")
    session.receive(b"SUBSCRIBE\nid:1\ndestination:/queue/q,/queue/r\nack:client\n\n\0")
    parts = commands(world, Subscribe)
    assert [part.address for part in parts] == ["q", "r"]
    new = world.grow(3)
    assert [(part.address, part.slot) for part in new] == [("q", slot) for slot in slots_of("q", 3)[1:]]
    for part in (*parts, *new):
        deliver(world, part, 1)
    assert wire.take().count(b"MESSAGE\n") == 4 and wire.closed is None
    assert ack(session, world, new[1], 1) == [(part.consumer, [1]) for part in (*parts, *new)]


async def test_without_a_window_nobody_counts():
    world = World()
    session, _ = world.session()
    (old,) = world.subscribe(session, ack="client-individual", consumer_window_size="-1")
    assert old.credit_messages == UNLIMITED
    (new,) = world.grow(2)
    assert new.credit_messages == UNLIMITED
    assert ack(session, world, new, 9) == [(new.consumer, [9])]
    assert commands(world, Settle) == []


async def test_messages_follow_when_every_edge_has_heard_of_it():
    """Else one that is sent at once would find no subscriber of a slower edge there."""
    world = World()
    session, _ = world.session()

    def sent() -> set[int]:
        for _ in range(2):
            session.receive(b"SEND\ndestination:q\n\nx\0")
        publishes = commands(world, Publish)
        world.edge.on_effects([Done(session.id, each.seq) for each in publishes if each.seq])
        return {each.slot for each in publishes}

    world.edge.configure(grown(2))
    assert sent() == set(slots_of("q", 1))
    await eventually(lambda: sent() == set(slots_of("q", 2)))


async def test_nothing_goes_there_before_those_that_are_away_have_their_queues():
    world = World()
    world.session()
    asked = []

    class Newcomers:
        def follow(self, grown, then):
            asked.append((grown("q"), grown("other"), then))

    world.edge.grow_with(Newcomers())
    world.edge.configure(EngineSettings(addresses={"q": {"partitions": 1, "max_delivery_attempts": 3}}))
    world.edge.configure(grown(3))
    await eventually(lambda: asked)
    ((slots, none, then),) = asked
    assert list(slots) == list(slots_of("q", 3)) and list(none) == []
    assert list(world.edge.entrances.routes.slots("q")) == list(slots_of("q", 3)), "who subscribes is there at once"
    assert world.edge.growth.sent_partitions("q") == 1
    world.edge.configure(grown(4))
    then()
    assert world.edge.growth.sent_partitions("q") == 1, "it has grown again: that answer is out of date"
    await eventually(lambda: len(asked) == 2)
    asked[1][2]()
    assert world.edge.growth.sent_partitions("q") == 4
