"""Who publishes to many subscribers waits while copies of earlier messages have to go out; nobody else does."""

from __future__ import annotations

from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.core.address import AckMode, Outcome, Routing
from broker.core.commands import Disconnect, Publish, Settle, Subscribe, Transact
from broker.core.effects import AddressBlocked, Deliver, Done
from broker.core.ids import slot_of
from broker.engine.engine import Engine
from broker.engine.state.slot import MESSAGES
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of

MANY, READ = 300, 50
TOPIC, OTHER = "topic", "queue"
LOUD, POLITE, READER = 1, 2, 3


class World:
    def __init__(self) -> None:
        settings = Settings(engine=EngineSettings(), journal=JournalSettings(65_536, min_free_bytes=0))
        self.effects: list = []
        self.machine = Machine(SimDisk(0), HandClock(), settings, self)
        self.shard = self.machine.shard
        for number in range(1, MANY + 1):
            command = Subscribe(slot_of(TOPIC), READER, 0, number, TOPIC, Routing.MULTICAST, AckMode.AUTO)
            command.room = 1 << 40
            self.shard.submit([command])
        self.machine.quiesce()
        self.effects.clear()

    def on_effects(self, effects: list) -> None:
        self.effects += effects

    def on_relief(self) -> None: ...
    def on_stopped(self, why: str) -> None:
        raise AssertionError(why)

    def loud(self, seq: int, count: int = READ, durable: bool = False) -> Publish:
        run = run_of(*[b"n:%d\n\n\0" % seq] * count, durable=durable)
        return Publish(slot_of(TOPIC), LOUD, seq, TOPIC, Routing.MULTICAST, run)

    def polite(self, seq: int) -> Publish:
        return Publish(slot_of(OTHER), POLITE, seq, OTHER, Routing.ANYCAST, run_of(b"\n\0"))

    def turn(self) -> int:
        """One turn; messages handed out."""
        before = len(self.effects)
        self.machine.turn()
        return sum(len(effect.run.records) for effect in self.effects[before:] if isinstance(effect, Deliver))

    def done(self, session: int) -> list[int]:
        return [effect.seq for effect in self.effects if isinstance(effect, Done) and effect.session == session]


def test_who_sends_to_many_waits_for_his_copies_and_nobody_else_does() -> None:
    world = World()
    world.shard.submit([world.loud(seq) for seq in range(1, 9)])
    turns = [world.turn()]
    assert world.done(LOUD) == [1]
    crowds = [effect for effect in world.effects if isinstance(effect, AddressBlocked)]
    assert [(crowd.session, crowd.address, crowd.full) for crowd in crowds] == [(LOUD, TOPIC, True)]
    for seq in range(1, 20):
        world.shard.submit([world.polite(seq)])
        turns.append(world.turn())
        assert world.done(POLITE) == list(range(1, seq + 1))
    while len(world.done(LOUD)) < 8:
        turns.append(world.turn())
    assert max(turns) <= MESSAGES + 3 * READ
    world.machine.quiesce()
    sent = [effect for effect in world.effects if isinstance(effect, Deliver)]
    assert sum(len(effect.run.records) for effect in sent) == 8 * READ * MANY
    first = [record for effect in sent if effect.consumer == 1 for record in effect.run.records]
    assert first == sorted(first) and world.done(LOUD) == list(range(1, 9))
    crowds = [effect for effect in world.effects if isinstance(effect, AddressBlocked)]
    assert [crowd.full for crowd in crowds] == [True, False] and not world.shard._deferred.waiting


def test_a_transaction_and_what_a_session_asks_for_behind_it_keep_their_order() -> None:
    world = World()
    part = world.loud(2, 10)
    part.seq = 0
    world.shard.submit([world.loud(1), Transact(slot_of(TOPIC), LOUD, 2, [part]), world.loud(3, 1)])
    world.turn()
    assert world.done(LOUD) == [1]
    world.machine.quiesce()
    assert sorted(world.done(LOUD)) == [1, 2, 3]
    sent = [effect.run for effect in world.effects if isinstance(effect, Deliver) and effect.consumer == 1]
    got = [record for run in sent for record in run.records]
    assert got == sorted(got) and len(got) == READ + 11


def test_what_waits_goes_on_when_the_subscribers_have_left() -> None:
    world = World()
    world.shard.submit([world.loud(1), world.loud(2), world.loud(3)])
    world.turn()
    world.shard.submit([Disconnect(slot_of(TOPIC), READER)])
    for _ in range(20):
        world.turn()
    assert world.done(LOUD) == [1, 2, 3] and not world.shard._deferred.waiting


def test_it_does_not_spin_while_the_slot_may_hand_out_nothing() -> None:
    world = World()
    slot = slot_of(TOPIC)
    world.shard.pause(slot)
    world.shard.submit([world.loud(seq) for seq in range(1, 4)])
    for _ in range(20):
        world.turn()
    assert not world.machine.turn(), "nothing can go on: no turn is wanted"
    assert world.done(LOUD) == [1]
    world.shard.unpause(slot)
    world.machine.quiesce()
    assert world.done(LOUD) == [1, 2, 3]


def test_dead_letters_do_not_have_all_who_wait_looked_at_once_each(monkeypatch) -> None:
    """300 dead letters of a slot with 5,000 subscribers in the middle of their copies were a turn of 1.2 s."""
    flushed = []
    flush = Engine.flush
    monkeypatch.setattr(Engine, "flush", lambda self, turn: flushed.append(self.number) or flush(self, turn))
    world = World()
    world.shard.submit([Subscribe(slot_of(TOPIC), 5, 0, 900, TOPIC, Routing.MULTICAST, AckMode.INDIVIDUAL)])
    world.shard.submit([world.loud(seq, 1) for seq in range(1, 41)])
    world.machine.quiesce()
    held = [effect.run.ids[0] for effect in world.effects if isinstance(effect, Deliver) and effect.consumer == 900]
    assert len(held) == 40
    world.shard.submit([world.loud(41), Settle(slot_of(TOPIC), 5, 0, 900, held, Outcome.REJECT)])
    flushed.clear()
    world.turn()
    assert flushed.count(slot_of(TOPIC)) <= 3
    world.machine.quiesce()
    dead = next(queue for queue in world.shard.engine(slot_of("DLQ")).queues() if queue.address == "DLQ")
    assert dead.count == 40
