"""A restart is read, ended and handed out in steps, however many queues one slot has (docs/adr/0009)."""

from __future__ import annotations

import pytest

from broker.config.settings import JournalSettings, Settings
from broker.core.address import AckMode, Routing
from broker.core.commands import Publish, Subscribe
from broker.core.effects import Deliver
from broker.engine import end_of_turn
from broker.engine.recovery import slot_restore
from broker.owner.shard.shard import Shard
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import World as EngineWorld
from tests.unit.engine.world import got, run_of

MANY = 2500


class Listener:
    def __init__(self) -> None:
        self.effects: list = []

    def on_effects(self, effects: list) -> None:
        self.effects += effects

    def on_relief(self) -> None: ...
    def on_stopped(self, why: str) -> None:
        raise AssertionError(why)


def test_no_step_of_a_restart_looks_at_more_than_some_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 queues were a last step of 140 ms."""
    disk, listener = SimDisk(0), Listener()
    settings = Settings(journal=JournalSettings(min_free_bytes=0))
    machine = Machine(disk, HandClock(), settings, listener)
    machine.shard.submit([
        Publish(7, 1, 0, "a", Routing.ANYCAST, run_of(b"\n\0", durable=True), f"q{n}") for n in range(MANY)
    ])  # fmt: skip
    machine.quiesce()
    machine.journal.close(clean=False)
    steps, looked = [], 0

    def counting(owner: object, name: str) -> None:
        whole = getattr(owner, name)

        def counted(*args):
            nonlocal looked
            looked += 1
            return whole(*args)

        monkeypatch.setattr(owner, name, counted)

    counting(slot_restore.Restore, "_queue")
    counting(end_of_turn, "dispatch")

    def recover(shard: Shard) -> None:
        nonlocal looked
        for _ in shard.recovering():
            steps.append(looked)
            looked = 0

    monkeypatch.setattr(Shard, "recover", recover)
    machine = Machine(disk, HandClock(), settings, listener)
    steps.append(looked)
    assert sum(steps) >= MANY and max(steps) <= slot_restore._QUEUES
    machine.quiesce()
    machine.shard.submit([
        Subscribe(7, 2, 0, n + 1, "a", Routing.ANYCAST, AckMode.AUTO, queue=f"q{n}") for n in range(MANY)
    ])  # fmt: skip
    machine.quiesce(20_000)
    assert len({effect.consumer for effect in listener.effects if isinstance(effect, Deliver)}) == MANY


def test_a_turn_hands_out_of_some_queues_and_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message for 2,000 subscribers is 2,000 queues."""
    monkeypatch.setattr(end_of_turn, "QUEUES", 10)
    world = EngineWorld()
    for n in range(1, 26):
        world.subscribe(n, "t", routing=Routing.MULTICAST)
    world.in_pieces = True
    pieces = [world.publish("t", b"0", routing=Routing.MULTICAST)]
    for n in range(1, 4):  # what comes in between is for everybody, too
        pieces.append(world.publish("t", b"%d" % n, routing=Routing.MULTICAST))
    while world.engine.unfinished:
        pieces.append(world.finish(world.turn()))
    assert max(len({effect.consumer for effect in piece if isinstance(effect, Deliver)}) for piece in pieces) <= 10
    sent = [effect for piece in pieces for effect in piece]
    for n in range(1, 26):
        assert got(sent, n) == [b"0", b"1", b"2", b"3"]
