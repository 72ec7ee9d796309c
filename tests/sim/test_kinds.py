"""Last values and rings on a disk that loses power: what is kept, what never comes back, and what is left on disk."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import pytest

from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.core.address import AckMode, Routing
from broker.core.commands import Disconnect, Publish, Subscribe
from broker.core.effects import Deliver, Done
from broker.core.ids import slot_of
from broker.core.message import DURABLE, Run
from tests.sim.disk import PowerLoss, SimDisk
from tests.sim.shard_machine import HandClock, Machine

RING = 5
KEYS = 4
SETTINGS = Settings(
    engine=EngineSettings(
        queue_memory_bytes=400, page_bytes=150, mark_messages=2,
        queues={"lv": {"last_value_key": "k"}, "ring": {"ring_size": RING}, "stay": {"non_destructive": True}},
    ),
    journal=JournalSettings(segment_bytes=4096, min_free_bytes=0),
)  # fmt: skip


class Site:
    """A shard, and what a careful client knows."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk, self.clock = SimDisk(seed), HandClock()
        self.id = f"{self.random.getrandbits(128):032x}"
        self.number = self.consumer = 0
        self.sent: dict[str, list[tuple[int, str]]] = {"lv": [], "ring": [], "stay": []}
        self.asked: dict[int, list[int]] = {}
        self.confirmed: set[int] = set()
        self.got: dict[int, list[int]] = {}
        self.open()

    def open(self) -> None:
        with patch("broker.journal.log.store.token", lambda _: self.id):
            self.machine = Machine(self.disk, self.clock, SETTINGS, self)

    def on_effects(self, effects: list) -> None:
        for effect in effects:
            if isinstance(effect, Done) and effect.session == 1:
                self.confirmed.update(self.asked.pop(effect.seq, ()))
            elif isinstance(effect, Deliver):
                self.got[effect.consumer] += [int(r.split(b"\n\n")[1][:-1]) for r in effect.run.records]

    def on_relief(self) -> None: ...

    def on_stopped(self, why: str) -> None: ...

    def publish(self) -> None:
        queue = self.random.choice(("lv", "lv", "ring", "stay"))
        records, numbers = [], []
        for _ in range(self.random.choice((1, 1, 3))):
            self.number += 1
            key = f"k{self.random.randrange(KEYS)}"
            self.sent[queue].append((self.number, key))
            numbers.append(self.number)
            records.append(b"k:%b\n\n%d\0" % (key.encode(), self.number))
        self.asked[self.number] = numbers
        run = Run((), b"", records, sum(map(len, records)), DURABLE)
        self.machine.port.submit([Publish(slot_of(queue), 1, self.number, queue, Routing.ANYCAST, run)])

    def live(self, steps: int) -> bool:
        """False: the power has failed."""
        self.disk.crash_at = self.disk.total_calls + self.random.randrange(1, steps)
        try:
            for _ in range(steps):
                if self.random.random() < 0.4:
                    self.publish()
                elif not self.machine.turn() and (busy := self.machine.busy()):
                    self.random.choice(busy).run_one()
                elif self.random.random() < 0.05:
                    self.machine.shard.maintain()
        except PowerLoss:
            return False
        self.disk.crash_at = 0
        return True

    def crash(self) -> None:
        self.disk.crash()
        self.disk.crash_at = 0
        self.asked.clear()
        self.open()

    def look(self, queue: str, ack: AckMode = AckMode.INDIVIDUAL) -> list[int]:
        """All that is in the queue; taken with AckMode.AUTO, given back else."""
        self.consumer += 1
        self.got[self.consumer] = []
        session, slot = self.consumer + 1000, slot_of(queue)
        command = Subscribe(slot, session, 0, self.consumer, queue, Routing.ANYCAST, ack, room=1 << 40)
        for step in ([command], [Disconnect(slot, session)]):
            self.machine.port.submit(step)
            assert self.machine.quiesce()
            self.machine.advance(100)
            assert self.machine.quiesce()
        return self.got.pop(self.consumer)

    def check(self) -> None:
        keys = dict(self.sent["lv"])
        found = self.look("lv")
        assert len({keys[n] for n in found}) == len(found), "two values of one key"
        for key in set(keys.values()):
            newest = max([n for n in self.confirmed if keys.get(n) == key], default=0)
            here = [n for n in found if keys[n] == key]
            assert not newest or (here and here[0] >= newest), f"{key}: {here}, but {newest} was confirmed"
        numbers = [n for n, _ in self.sent["ring"]]
        found = self.look("ring")
        assert len(found) <= RING and found == sorted(found)
        assert set(numbers[-RING:]) & self.confirmed <= set(found)
        for _ in range(2):
            found = self.look("stay")
            assert {n for n, _ in self.sent["stay"]} & self.confirmed <= set(found) and found == sorted(set(found))


@pytest.mark.parametrize("seed", range(25))
def test_what_is_kept_over_power_losses(seed: int):
    site = Site(seed)
    for _ in range(4):
        if site.live(150):
            assert site.machine.quiesce()
        site.crash()
        site.check()
    for queue in ("lv", "ring"):
        site.look(queue, AckMode.AUTO)
    idle: list[bool] = []
    site.machine.shard.when_idle(lambda: idle.append(True))
    assert site.machine.quiesce() and idle
    site.machine.journal.close(clean=True)
    site.open()
    left = {record.slot for record, _ in site.machine.journal.recovered.runs()}
    assert left <= {slot_of("stay")}
