"""What an edge asks of all slots goes to each of their owners, and is answered once."""

from __future__ import annotations

from broker.core.address import AckMode, Routing
from broker.core.commands import Disconnect, DisconnectAll, Subscribe, SubscribeAll, Unsubscribe, UnsubscribeAll
from broker.core.effects import Done, Refused
from broker.core.errors import Code
from broker.core.ids import SLOTS
from tests.unit.link.world import Edge, Owner, World, make_settings


class Cluster:
    """Two owners with half of the slots each, and an edge."""

    def __init__(self) -> None:
        self.world = World()
        settings = make_settings(unavailable_after_s=5)
        self.owners = [Owner(self.world, name, settings) for name in ("a", "b")]
        self.edge = Edge(self.world, settings)
        self.port = self.edge.port
        for slot in range(SLOTS):
            owner = self.owners[slot % 2]
            owner.server.serve(slot, 1)
            self.port.route(slot, 1, owner.name, owner.address)
        self.world.run()

    def submit(self, *commands) -> None:
        self.port.submit(list(commands))
        self.world.run()

    def asked(self, kind: type) -> list:
        return [command for owner in self.owners for command in owner.shard.of(kind)]


def subscribe(seq: int, consumer: int = 256) -> SubscribeAll:
    return SubscribeAll(Subscribe(0, 1, seq, consumer, "a.*", Routing.MULTICAST, AckMode.AUTO))


def test_every_slot_is_asked_and_the_last_answer_is_the_answer() -> None:
    cluster = Cluster()
    cluster.owners[1].shard.answers = False
    cluster.submit(subscribe(7))
    parts = cluster.asked(Subscribe)
    assert sorted(part.slot for part in parts) == list(range(SLOTS))
    assert {(part.consumer & (1 << 40) - 1) - part.slot for part in parts} == {256}
    assert not cluster.edge.effects
    held = cluster.owners[1].shard.of(Subscribe)
    cluster.owners[1].effects(*[Done(part.session, part.seq) for part in held[:-1]])
    cluster.world.run()
    assert not cluster.edge.effects
    cluster.owners[1].effects(Done(held[-1].session, held[-1].seq))
    cluster.world.run()
    assert [(type(effect), effect.session, effect.seq) for effect in cluster.edge.effects] == [(Done, 1, 7)]


def test_its_end_is_asked_of_every_slot_too() -> None:
    cluster = Cluster()
    cluster.submit(subscribe(0), UnsubscribeAll(1, 8, 256, "a.*"))
    assert len(cluster.asked(Unsubscribe)) == SLOTS
    assert [effect.seq for effect in cluster.edge.of(Done)] == [8]
    cluster.submit(subscribe(0, 512), DisconnectAll(1))
    assert len(cluster.asked(Disconnect)) == SLOTS and not cluster.port._consumers
    cluster.submit(DisconnectAll(1))
    assert len(cluster.asked(Disconnect)) == SLOTS, "nobody is left"


def test_a_refusal_is_told_once() -> None:
    cluster = Cluster()
    for owner in cluster.owners:
        owner.shard.answers = False
    cluster.submit(subscribe(7))
    for owner in cluster.owners:
        owner.effects(
            *[Refused(part.session, part.seq, Code.QUEUE_LIMIT, "full") for part in owner.shard.of(Subscribe)]
        )
    cluster.world.run()
    assert [(effect.seq, effect.code) for effect in cluster.edge.of(Refused)] == [(7, Code.QUEUE_LIMIT)]
    assert not cluster.port._consumers and not cluster.port._together._open


def test_a_slot_that_nobody_leads_refuses_it_as_a_whole() -> None:
    cluster = Cluster()
    cluster.port.offline(3)
    cluster.submit(subscribe(7))
    assert not cluster.edge.effects
    cluster.world.pass_time(10)
    assert [effect.seq for effect in cluster.edge.of(Refused)] == [7]
    cluster.submit(subscribe(9, 512))
    assert [effect.seq for effect in cluster.edge.of(Refused)] == [7, 9] and not cluster.edge.of(Done)
    assert not cluster.port._together._open
