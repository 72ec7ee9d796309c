"""A slot that stands still, and goes on: its new leader has waited for edges."""

from __future__ import annotations

import pytest

from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.core.address import AckMode, Routing
from broker.core.commands import Publish, Resume, Settle, Subscribe
from broker.core.effects import Deliver, Done
from broker.core.ids import slot_of
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of

SLOT, OTHER = slot_of("queue"), slot_of("topic")
SENDER, READER = 1, 2


class Stage:
    """A slot with one message, led since a moment."""

    def __init__(self) -> None:
        settings = Settings(engine=EngineSettings(), journal=JournalSettings(65_536, min_free_bytes=0))
        self.effects: list = []
        self.machine = Machine(SimDisk(0), HandClock(), settings, self)
        self.shard = self.machine.shard
        self.shard.submit([Publish(SLOT, SENDER, 1, "queue", Routing.ANYCAST, run_of(b"\n\0", durable=True))])
        self.machine.quiesce()
        (queue,) = self.shard.engines[SLOT].queues()
        (self.message,) = [i for level in queue.stores() for run in level for i in run.ids]
        self.shard.pause(SLOT)

    def on_effects(self, effects: list) -> None:
        self.effects += effects

    def on_relief(self) -> None: ...
    def on_stopped(self, why: str) -> None:
        raise AssertionError(why)

    def run(self) -> list[int]:
        """To its end, the disk as quick as turns are; who was given something."""
        while self.machine.turn() or self.machine.busy():
            for io in self.machine.busy():
                io.run_one()
        return [effect.consumer for effect in self.effects if isinstance(effect, Deliver)]


def attach(slot: int, consumer: int, *held: int) -> Subscribe:
    address, routing = ("queue", Routing.ANYCAST) if slot == SLOT else ("topic", Routing.MULTICAST)
    command = Subscribe(slot, READER, 0, consumer, address, routing, AckMode.INDIVIDUAL)
    command.room = 1 << 40
    command.resume = Resume([(i, i) for i in held], [])
    return command


@pytest.mark.parametrize("slot", [SLOT, OTHER])
def test_nobody_is_given_what_a_consumer_holds_whose_edge_came_in_time(slot: int) -> None:
    """The shard had its word, and no turn had looked at it yet: a turn begins 64 consumers or so. The message went to
    another one, and its own one's COMMIT was refused."""
    stage = Stage()
    many = [attach(slot, number) for number in range(100, 300)]
    stage.shard.submit([attach(SLOT, 7), *many, attach(SLOT, 8, stage.message)])
    stage.shard.unpause(SLOT)
    assert stage.run() == []
    stage.shard.submit([Settle(SLOT, READER, 5, 8, [stage.message])])
    stage.run()
    assert [effect.seq for effect in stage.effects if isinstance(effect, Done)][-1] == 5
    (queue,) = stage.shard.engines[SLOT].queues()
    assert (queue.count, queue.delivering) == (0, 0)


def test_it_goes_on_though_more_consumers_come_to_other_slots() -> None:
    stage = Stage()
    stage.shard.submit([attach(SLOT, 7), *[attach(OTHER, number) for number in range(100, 300)]])
    stage.shard.unpause(SLOT)
    for _ in range(3):
        stage.machine.turn()
        for io in stage.machine.busy():
            io.run_one()
    assert stage.run() == [7]


def test_what_stands_still_again_before_it_went_on_stays_so() -> None:
    """It is handed over meanwhile."""
    stage = Stage()
    stage.shard.submit([attach(SLOT, number) for number in range(7, 200)])
    stage.shard.unpause(SLOT)
    stage.machine.turn()
    stage.shard.pause(SLOT)
    assert stage.run() == []
    stage.shard.unpause(SLOT)
    assert stage.run() == [7]
