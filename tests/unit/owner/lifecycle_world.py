"""One owner for tests of its slots: life cycle, shard, journal are real; replication, edges, slot table are played."""

from __future__ import annotations

from dataclasses import replace

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.core.address import AckMode, Routing
from broker.core.commands import Publish, Subscribe
from broker.core.effects import Deliver, Done
from broker.core.errors import JournalError
from broker.core.ids import SLOTS
from broker.core.slots import SlotRecord
from broker.journal.journal import Journal
from broker.owner.commit.io_thread import Io
from broker.owner.shard.shard import Shard
from broker.owner.slots.slot_lifecycle import SlotLifecycle
from tests.sim.disk import SimDisk
from tests.unit.engine.world import run_of

SLOT, ME, OTHER, THIRD = 7, "o1", "o2", "o3"
ALL = (ME, OTHER, THIRD)
FOLDER = "/data"


class Jobs(Io):
    """A thread of the disk; `held`: its answers wait."""

    def __init__(self, world):
        self.world = world
        self.held = False
        self.waiting = []

    def submit(self, job, done):
        if self.held:
            self.waiting.append((job, done))
            return
        try:
            result, error = job(), None
        except JournalError as caught:
            result, error = None, caught
        self.world.soon.append(lambda: done(result, error))

    def go_on(self):
        self.held = False
        waiting, self.waiting = self.waiting, []
        for job, done in waiting:
            self.submit(job, done)


class World:
    """One owner: its life cycle, shard and journal are real; replication, edges and the table are played."""

    alone = False

    def __init__(self, disk=None, **address):
        self.now = 1000.0
        self.soon, self.timers, self.effects = [], [], []
        self.settings = Settings(
            engine=EngineSettings(address=AddressSettings(**address)), journal=JournalSettings(16_384, min_free_bytes=0)
        )
        self.disk = disk or SimDisk(0)
        self.journal = Journal.open(self.disk, FOLDER, self.settings.journal, 1 << 20)
        self.io, self.reads, self.surveys = Jobs(self), Jobs(self), Jobs(self)
        self.whole, self.promise, self.table_up = True, True, True
        self.led, self.resigned, self.followed, self.served, self.changes = {}, [], {}, {}, []
        self.promised, self.live_edges, self.told_by = 0.0, set(), set()
        self.waited_for = None
        """What is called when an edge has told everything, as long as not everything is let in."""
        self.reached = self.backlog = self.revision = 0
        self.record = None
        self.shard = Shard(
            self.settings, self.journal, self, self.io, self.reads, self.io, self.soon.append, lambda at, then: None,
            self.later, self,
        )  # fmt: skip
        self.shard.listen(self)
        self.lifecycle = SlotLifecycle(
            ME, self.shard, self.journal, self, self, self, self, self, self, self.surveys, self.later, 2,
            lambda: self.live_edges,
        )  # fmt: skip
        self.shard.is_one_of_several(self, self.keeper)

    # ── time ───────────────────────────────────────────────────────────────────────────────────────

    def later(self, seconds, then):
        self.timers.append((self.now + seconds, then))

    def monotonic(self):
        return self.now

    def wall_ms(self):
        return int(self.now * 1000)

    def run(self):
        for _ in range(1000):
            if not self.soon:
                return
            self.soon.pop(0)()
        raise AssertionError("it never comes to rest")

    def wait(self, seconds):
        until = self.now + seconds
        self.run()
        while due := sorted([t for t in self.timers if t[0] <= until], key=lambda t: t[0])[:1]:
            self.timers.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
            self.run()
        self.now = until

    # ── Replicas, Leading ──────────────────────────────────────────────────────────────────────────

    def sealed(self, number, items): ...

    def committed(self, number):
        self.reached = number

    def ready(self, slot):
        return self.reached if self.whole and slot in self.led else 0

    def may_dispatch(self, slot):
        return self.promise

    def lead(self, record):
        self.led[record.slot] = record.epoch

    def update(self, record): ...

    def resign(self, slot):
        if self.led.pop(slot, None):
            self.resigned.append(slot)

    # ── Following, Serving, Table, Crossings ───────────────────────────────────────────────────────

    def follow(self, standby, epoch):
        self.followed[standby.slot] = (standby, epoch)

    def unfollow(self, slot):
        return self.followed.pop(slot, (None, 0))[0]

    def promised_until(self, slot):
        return self.promised

    def serve(self, slot, epoch, news=None):
        self.served[slot] = epoch
        self.waited_for = news

    def let_in(self, slot):
        self.waited_for = None

    def unserve(self, slot, over=False):
        self.served.pop(slot, None)

    def attached(self, slot):
        return self.told_by

    def change(self, record, new, done):
        self.changes.append(new)
        if self.table_up:
            assert record.revision == self.record.revision
            self.soon.append(lambda: done(self.stored(new)))
        else:
            self.soon.append(lambda: done(None))

    def resume(self, engine): ...

    def others(self):
        return [m for slot in range(SLOTS) if (kept := self.keeper(slot)) for some in kept.small_state() for m in some]

    def keeper(self, slot):
        return self.lifecycle.keeper(slot) or (self.followed[slot][0] if slot in self.followed else None)

    # ── what happens ───────────────────────────────────────────────────────────────────────────────

    def stored(self, record):
        self.revision += 1
        self.record = replace(record, revision=self.revision)
        return self.record

    def is_now(self, epoch, leader, replicas=ALL, isr=None, target=""):
        record = SlotRecord(SLOT, epoch, leader, replicas, isr if isr is not None else replicas, target)
        self.lifecycle.on_record(SLOT, self.stored(record))
        self.run()

    def leading(self):
        """Begins, registered, as the leader in epoch 1."""
        self.lifecycle.go_on()
        self.is_now(1, ME)
        self.wait(0.5)
        return self

    def send(self, *bodies, address="q"):
        commands = [Publish(SLOT, 5, 9, address, Routing.ANYCAST, run_of(body, durable=True)) for body in bodies]
        self.shard.submit(commands)
        self.run()

    def consume(self, address="q"):
        self.shard.submit([Subscribe(SLOT, 5, 1, 99, address, Routing.ANYCAST, AckMode.CLIENT)])
        self.run()

    def got(self):
        return [body for e in self.effects if type(e) is Deliver for body in e.run.records]

    def receipts(self):
        return sum(type(e) is Done and e.seq == 9 for e in self.effects)

    def on_effects(self, effects):
        self.effects += effects

    def on_relief(self): ...
    def on_stopped(self, why): ...

    def restarted(self):
        """The process died, and another one has its disk."""
        self.io.go_on()
        self.run()
        self.journal.close(clean=False)
        world = World(self.disk)
        world.recover()
        world.revision, world.record = self.revision, self.record
        return world

    def recover(self):
        for _ in self.lifecycle.recovering():
            pass
