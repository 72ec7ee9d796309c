"""Other settings reach what there is some queues a turn, and what they name is made the same way (docs/adr/0009)."""

from __future__ import annotations

import pytest

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.core.address import Routing
from broker.core.commands import Act, Manage, Publish
from broker.core.ids import slot_of
from broker.engine.address.declarations import Named
from broker.engine.engine import Engine
from broker.engine.recovery.slot_restore import Restore
from broker.engine.routing import declare
from broker.owner.shard.reconfiguring import PIECE
from broker.owner.slots.standby import Standby
from tests.sim.disk import SimDisk
from tests.sim.shard_machine import HandClock, Machine
from tests.unit.engine.world import run_of

MANY = 1500


class World:
    """looked: queues looked at, made, and names read, in the present turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = Machine(SimDisk(0), HandClock(), Settings(journal=JournalSettings(min_free_bytes=0)), self)
        self.shard = self.machine.shard
        self.looked = self.made = self.read = 0
        renewed, make, grow = declare._renewed, declare._make, Named.grow

        def look(slot, queue):
            self.looked += 1
            renewed(slot, queue)

        def makes(*args, **more):
            self.made += 1
            make(*args, **more)

        def reads(named, most=1 << 60):
            self.read += most
            return grow(named, most)

        monkeypatch.setattr(declare, "_renewed", look)
        monkeypatch.setattr(declare, "_make", makes)
        monkeypatch.setattr(Named, "grow", reads)

    def on_effects(self, effects: list) -> None: ...
    def on_relief(self) -> None: ...
    def on_stopped(self, why: str) -> None:
        raise AssertionError(why)

    def turn(self) -> bool:
        """Of the loop; none of it is long."""
        self.looked = self.made = self.read = 0
        busy = self.machine.turn()
        assert self.looked <= PIECE and self.made <= PIECE // 4 + 2 and self.read <= PIECE
        return busy

    def rest(self) -> None:
        for _ in range(2000):
            if not self.turn():
                if not self.machine.busy():
                    return
                for io in self.machine.busy():
                    io.run_one()
        raise AssertionError("no end")

    def queues(self) -> dict:
        return {queue.name: queue for engine in self.shard.engines.values() for queue in engine.queues()}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def publish(address: str, queue: str) -> Publish:
    return Publish(slot_of(address), 1, 0, address, Routing.ANYCAST, run_of(b"\n\0", durable=True), queue)


@pytest.mark.parametrize("spread", [False, True])
def test_what_exists_gets_other_settings_some_queues_a_turn(world: World, spread: bool) -> None:
    """10,000 queues were 36 ms in one step, and those that are named 600."""
    world.shard.submit([publish(f"a{n * spread}", f"q{n}") for n in range(MANY)])
    world.machine.quiesce()
    world.shard.configure(EngineSettings(address=AddressSettings(max_delivery_attempts=3)))
    for _ in range(4):
        assert world.turn()
    now = {queue.settings.max_delivery_attempts for queue in world.queues().values()}
    assert len(now) == 2, "some have them"
    gone, new = f"q{MANY - 1}", "new"
    address = f"a{(MANY - 1) * spread}"
    world.shard.submit([Manage(slot_of(address), 1, 0, Act.DELETE, address, gone), publish("a0", new)])
    world.rest()
    queues = world.queues()
    assert {queue.settings.max_delivery_attempts for queue in queues.values()} == {3}
    assert new in queues and gone not in queues and not world.shard._behind.busy


def test_what_is_named_is_made_some_a_turn_and_the_latest_settings_count(world: World) -> None:
    one = EngineSettings(queues={f"one{n}": {"address": "a"} for n in range(MANY)})
    two = EngineSettings(queues={f"two{n}": {} for n in range(MANY)}, addresses={"b": {"declared": True}})
    world.shard.configure(one)
    for _ in range(12):
        assert world.turn()
    made = len(world.queues())
    assert 0 < made < MANY
    world.shard.configure(two)
    world.rest()
    queues = world.queues()
    assert {name for name, queue in queues.items() if queue.declared} == {f"two{n}" for n in range(MANY)}
    assert "b" in world.shard.engines[slot_of("b")].shown.addresses


def test_a_slot_that_is_led_from_now_on_begins_some_queues_a_turn(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20,000 queues were 0.27 s in one step: half of it their settings, half of it what the log says of them."""
    world.shard.submit([publish("a", f"q{n}") for n in range(MANY)])
    world.machine.quiesce()
    slot, settings = slot_of("a"), world.shard.settings.engine
    standby = Standby(Engine(slot, settings))
    standby.apply(world.shard.engines[slot].snapshot(), world.shard.journal)
    world.shard.drop(slot)
    world.machine.quiesce()
    assert standby.rouse(world.shard.journal, 1 << 40)
    restored, real = [], Restore._queue
    monkeypatch.setattr(
        Restore, "_queue", lambda self, queue, clean, turn: restored.append(queue) or real(self, queue, clean, turn)
    )
    world.shard.adopt(standby.engine, standby.promote)
    world.shard.submit([Manage(slot, 1, 0, Act.DELETE, "a", "q7")])
    most = before = 0
    while world.turn() or world.machine.busy():
        most, before = max(most, world.looked, len(restored) - before), len(restored)
        if before < MANY:
            assert "q7" in world.queues(), "it waits for the end"
        for io in world.machine.busy():
            io.run_one()
    assert len(restored) == MANY and most <= PIECE and len(world.queues()) == MANY - 1


def test_equal_settings_are_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make one is 30 µs."""
    names = {f"q{n}": {"address": "a", "max_consumers": n % 2} for n in range(20)}
    named = Named(EngineSettings(queues=names))
    named.grow()
    declared = named.declarations(slot_of("a"))
    assert len({id(declared.settings("a", name)) for name in names}) == 2
    assert {declared.settings("a", name).max_consumers for name in names} == {0, 1}
