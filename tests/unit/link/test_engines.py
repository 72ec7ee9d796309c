"""The link with real engines at its end: exactly once in every ack mode, whatever breaks when."""

from __future__ import annotations

import random

import pytest

from broker.config.settings import Settings
from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Grant, Publish, Settle, Subscribe
from broker.core.effects import Deliver, Done, Refused, Turn
from broker.core.message import DURABLE
from broker.engine.engine import Engine
from tests.harness.queues import stats
from tests.unit.link.world import Edge, Owner, World, make_settings, run_of

SLOT = 5
ROOM = 5000


class EngineShard:
    """One engine; what is appended is durable at the end of the turn."""

    def __init__(self, world, engine):
        self.world = world
        self.engine = engine
        self.server = None
        self._inbox = []
        self._number = 0

    def submit(self, commands):
        if not self._inbox:
            self.world.schedule(self.turn)
        self._inbox += commands
        return False

    def turn(self):
        inbox, self._inbox = self._inbox, []
        self._number += 1
        turn = Turn(self.world.wall_ms(), self._number)
        for command in inbox:
            self.engine.handle(command, turn)
        self.engine.flush(turn)
        self.finish(turn)

    def finish(self, turn):
        told, turn.effects = turn.effects, []
        after = Turn(turn.now, turn.number)
        self.engine.release(turn.number, after)
        self.engine.flush(after)
        while self.engine.pending:
            self._number += 1
            after.number = self._number
            self.engine.release(self._number, after)
            self.engine.flush(after)
        self.server.on_effects(told + after.effects)


class Case:
    """One edge whose client publishes and consumes; one owner whose streams break at any time."""

    def __init__(self, seed, ack):
        self.random = random.Random(seed)
        self.world = World()
        settings = make_settings()
        self.owner = Owner(self.world, "a", settings)
        shard = EngineShard(self.world, Engine(SLOT, Settings().engine))
        shard.server = self.owner.server
        self.owner.server._submit = shard.submit
        self.edge = Edge(self.world, settings)
        self.port = self.edge.port
        self.ack = ack
        self.epoch = 1
        self.owner.server.serve(SLOT, 1)
        self.port.route(SLOT, 1, "a", "a:1")
        self.port.submit([Subscribe(SLOT, 1, 1, 3, "q", Routing.ANYCAST, ack, room=ROOM)])
        self.world.run()
        self.sent = 0
        self.got = []
        self.seen = 0
        self.unsettled = []

    def step(self):
        dice = self.random.random()
        if dice < 0.35:
            count = self.random.randrange(1, 5)
            bodies = [b"%d" % (self.sent + n) for n in range(count)]
            self.sent += count
            seq = 1000 + self.sent if self.random.random() < 0.5 else 0
            self.port.submit([Publish(SLOT, 1, seq, "q", Routing.ANYCAST, run_of(*bodies, flags=DURABLE))])
        elif dice < 0.6:
            self.settle()
        elif dice < 0.7:
            self.world.cut()
        elif dice < 0.75:
            self.epoch += 1
            self.owner.server.serve(SLOT, self.epoch)
            self.port.route(SLOT, self.epoch, "a", "a:1")
        elif dice < 0.8:
            for pipe in self.world.pairs[-1]:
                pipe.held = [] if pipe.held is None else pipe.held
        elif dice < 0.9:
            self.release()
            self.world.pass_time(self.random.random() * 0.1)
        for _ in range(self.random.randrange(6)):
            if self.world.ready:
                self.world.ready.popleft()()
        self.read()

    def release(self):
        for pair in self.world.pairs:
            for pipe in pair:
                if pipe.held is not None:
                    pipe.release()

    def read(self):
        deliveries = self.edge.of(Deliver)
        fresh, self.seen = deliveries[self.seen :], len(deliveries)
        for delivery in fresh:
            for i, record in zip(delivery.run.ids, delivery.run.records, strict=True):
                self.got.append(int(record.strip(b"\n\0")))
                self.unsettled.append(i)
            self.port.submit([Grant(SLOT, 3, delivery.cost)])

    def settle(self):
        if self.ack is AckMode.AUTO or not self.unsettled:
            return
        at = self.random.randrange(len(self.unsettled))
        i = self.unsettled[at]
        if self.ack is AckMode.CLIENT:
            del self.unsettled[: at + 1]
        else:
            del self.unsettled[at]
        self.port.submit([Settle(SLOT, 1, 0, 3, [i], Outcome.ACK)])

    def end(self):
        for _ in range(100):
            self.release()
            self.world.pass_time(0.3)
            self.read()
            while self.unsettled and self.ack is not AckMode.AUTO:
                self.settle()


@pytest.mark.parametrize("ack", list(AckMode))
@pytest.mark.parametrize("seed", range(15))
def test_every_message_once_and_in_order(ack, seed):
    case = Case(seed, ack)
    for _ in range(250):
        case.step()
    case.end()
    assert case.edge.of(Refused) == []
    assert case.got == list(range(case.sent)), "no failure of an owner: nothing twice"
    asked = {done.seq for done in case.edge.of(Done)}
    assert len(case.edge.of(Done)) == len(asked)
    (queue,) = [each for each in stats(case.owner.server._submit.__self__.engine) if each["name"] == "q"]
    assert (queue["ready"], queue["delivering"]) == (0, 0)
    assert all(channel.nbytes == 0 for channel in case.port._channels.values())
