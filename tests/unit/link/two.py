"""One edge and two owners that may lead one slot after the other."""

from __future__ import annotations

from broker.core.address import Routing
from broker.core.commands import (
    Publish,
    Subscribe,
)
from broker.core.effects import Deliver
from tests.unit.link.world import Edge, Owner, World, make_settings, run_of

SLOT = 5
TOKEN = 7


class Two:
    """One edge, owners a and b; slot 5 is led by a in epoch 1."""

    def __init__(self, **cluster):
        self.world = World()
        settings = make_settings(**cluster)
        self.a, self.b = Owner(self.world, "a", settings), Owner(self.world, "b", settings)
        self.edge = Edge(self.world, settings, token=TOKEN)
        self.port = self.edge.port
        self.lead(self.a, 1)

    def lead(self, owner, epoch, slot=SLOT, told=True):
        owner.server.serve(slot, epoch)
        if told:
            self.port.route(slot, epoch, owner.name, owner.address)
        self.world.run()

    def fail_over(self, epoch=2):
        self.a.server.unserve(SLOT)
        self.lead(self.b, epoch)

    def submit(self, *commands):
        paused = self.port.submit(list(commands))
        self.world.run()
        return paused

    def subscribe(self, consumer, ack, session=1, **more):
        self.submit(Subscribe(SLOT, session, 0, consumer, "a", Routing.ANYCAST, ack, **more))

    def deliver(self, owner, consumer, ids, cost=10):
        run = run_of(*[b"x"] * len(ids), ids=ids)
        owner.effects(Deliver(TOKEN << 40 | consumer, run, cost))
        self.world.run()


def publish(seq=0, body=b"x", session=1, slot=SLOT):
    return Publish(slot, session, seq, "a", Routing.ANYCAST, run_of(body))


def bodies(shard):
    return [command.run.records[0].strip(b"\n\0") for command in shard.of(Publish)]


def held(owner):
    return [command.resume.held for command in owner.shard.of(Subscribe)]
