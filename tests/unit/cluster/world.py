"""A cluster's control side on a virtual clock: real membership, slot tables, controllers and suspicions over a store
in memory, and leaders that do what leaders do (hand over, bring replicas in sync)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from broker.cluster.controller import Controller
from broker.cluster.keys import Keys
from broker.cluster.membership import Membership
from broker.cluster.slots import SlotTable
from broker.cluster.suspicion import Suspicions
from broker.config.settings import ClusterSettings
from broker.core.errors import BrokerError
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import MetadataUnavailable
from broker.seams.loop_watchdog import Steps
from tests.harness.metadata import MemoryMetadata, MemoryStore
from tests.sim.virtual_loop import Place, VirtualLoop

KEYS = Keys("/test")


class PlaceClock:
    def __init__(self, place: Place) -> None:
        self._place = place

    def monotonic(self) -> float:
        return self._place.local(self._place.loop.now)

    def wall_ms(self) -> int:
        return int(self._place.loop.now * 1000)


class World:
    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.store = MemoryStore(
            PlaceClock(loop.world), lambda seconds, call: loop.at(loop.now + seconds, loop.world, call)
        )
        self.settings = ClusterSettings()
        self.owners: dict[str, Owner] = {}
        self._read, self._records = -1, {}

    @property
    def now(self) -> float:
        return self.loop.now

    def client(self, place: Place | None = None) -> MemoryMetadata:
        metadata = MemoryMetadata(self.store, PlaceClock(place or self.loop.world))
        metadata.latency = lambda: self.loop.random.uniform(0.001, 0.003)
        return metadata

    def owner(self, name: str, **more) -> Owner:
        """Another life of that owner."""
        life = self.owners[name] = Owner(self, name, **more)
        return life

    def start(self, *names: str) -> list[Owner]:
        return [self.owner(name).begin() for name in names]

    async def until(self, done: Callable[[], bool], limit_s: float = 60.0, every_s: float = 0.002) -> float:
        """Waits for it; how long it took."""
        began = self.now
        while not done():
            assert self.now - began < limit_s, f"not within {limit_s} s"
            await asyncio.sleep(every_s)
        return self.now - began

    def records(self) -> dict[int, SlotRecord]:
        """As they stand in the store."""
        if self._read != self.store.revision:
            self._read, old, self._records = self.store.revision, self._records, {}
            for item in self.store.range(KEYS.slots)[0]:
                slot = int(item.key.rpartition("/")[2])
                known = old.get(slot)
                if known is None or known.revision != item.revision:
                    known = SlotRecord.decode(slot, item.value, item.revision)
                self._records[slot] = known
        return self._records

    def led_by(self, *names: str) -> bool:
        """All slots have a leader, and everyone's is one of these."""
        records = self.records().values()
        return len(records) == 256 and {record.leader for record in records} == set(names)


class Owner:
    """One life of an owner process. `led`: what it would lead; `lost`, `refused`: what it was told."""

    def __init__(self, world: World, name: str, disk: str = "", kind: str = "owner", zone: str = "") -> None:
        self.world = world
        self.place = world.loop.place(f"{name}-{len(world.loop.places)}", start=world.loop.random.uniform(0, 1000))
        self.metadata = world.client(self.place)
        self.clock = PlaceClock(self.place)
        self.boot = self.place.name
        self.me = Member(name, kind, f"{name}:1", self.boot, disk or f"disk-{name}", zone)
        self.lost: list[str] = []
        self.refused: list[BrokerError] = []
        self.changes: list[SlotRecord | None] = []
        self.dirty = asyncio.Event()
        self.barred = ""

    def begin(self) -> Owner:
        self.running = self.place.spawn(self.run())
        return self

    async def run(self) -> None:
        async def on_lost(why: str) -> None:
            self.lost.append(why)

        settings = self.world.settings
        self.membership = Membership(
            self.metadata, KEYS, settings, self.me, self.clock, on_lost=on_lost,
            on_registered=lambda: None, on_refused=self.refused.append, barred=lambda: self.barred,
        )  # fmt: skip
        self.slots = SlotTable(self.metadata, KEYS)
        self.slots.listen(self.on_record)
        self.plans = Steps(self.clock).kind("plan")
        self.controller = Controller(self.metadata, KEYS, settings, self.membership, self.slots, self.clock, self.plans)
        self.suspicions = Suspicions(self.metadata, KEYS, self.membership, self.slots, self.clock)
        await self.membership.start()
        await self.slots.start()
        await self.controller.start()
        await self.suspicions.start()
        self.membership.listen(self.dirty.set)
        while True:
            await self.dirty.wait()
            self.dirty.clear()
            await asyncio.sleep(0.01)
            for record in list(self.slots.records.values()):
                new = self.duty(record)
                if new is not None and self.membership.up:
                    try:
                        await self.slots.cas(record, new)
                    except MetadataUnavailable:
                        self.dirty.set()

    def on_record(self, slot: int, record: SlotRecord | None) -> None:
        self.changes.append(record)
        self.dirty.set()

    def duty(self, record: SlotRecord) -> SlotRecord | None:
        """What its leader makes of a record."""
        if record.leader != self.me.id:
            return None
        grown = [one for one in record.replicas if one in self.membership.owners and one not in record.isr]
        if grown:
            return replace(record, isr=(*record.isr, *grown))
        if record.target in record.isr:
            return replace(record, leader=record.target, epoch=record.epoch + 1, target="")
        return None

    def name_is_known(self) -> bool:
        return hasattr(self, "membership") and self.membership.up and self.me.id in self.membership.edges

    def kill(self) -> None:
        self.place.die()

    async def stop(self) -> None:
        """As SIGTERM does: hand over, then go."""
        await self.call(self.membership.set_leaving())
        await self.world.until(lambda: all(r.leader != self.me.id for r in self.world.records().values()))
        await self.call(self.controller.stop())
        await self.call(self.suspicions.stop())
        await self.call(self.membership.withdraw())
        self.kill()

    async def call(self, work: Awaitable[None]) -> None:
        """Runs it as code of this process."""
        await self.place.spawn(work)


def simulate(scenario: Callable[[World], Awaitable[None]], seed: int = 1, limit_s: float = 900.0) -> World:
    loop = VirtualLoop(seed)
    with loop.running():
        world = World(loop)
        task = loop.world.spawn(scenario(world))
        assert loop.run_until(task.done, limit_s), "the scenario has no end"
        task.result()
        return world
