"""Three owners with disks, streams and a slot table, on one seeded clock: replication without engines' commands.

The shard and the node are played by the smallest things that keep their contracts (docs/adr/0004); leaders,
followers, standbys and journals are the real ones. What was told of (counted by `ready`) is written down, and checked
against whoever leads later.
"""

from __future__ import annotations

import heapq
from dataclasses import replace
from functools import partial
from random import Random

from broker.config.settings import ClusterSettings, EngineSettings, JournalSettings
from broker.core.effects import Turn
from broker.core.ids import SLOTS
from broker.core.message import DURABLE, Run
from broker.core.records import GroupRecord, MetaRecord, RunRecord, SettleRecord
from broker.core.slots import SlotRecord
from broker.engine.engine import Engine
from broker.journal.journal import Journal
from broker.journal.log import format as f
from broker.owner.replication.following.follower import FollowerHome, Followers
from broker.owner.replication.leader import LeaderHome, Leaders
from broker.owner.replication.peer import Identity
from broker.owner.replication.replica_check import Inspector
from broker.owner.slots.standby import Standby
from broker.seams.stream import Ended, EndKind
from tests.sim.disk import SimDisk
from tests.unit.journal.support import clear

QUEUE = 1
FOLDER = "/data"


class World:
    """Time, the network and the slot table."""

    def __init__(self, seed: int = 0, owners: int = 3, tail_bytes: int = 1 << 20, segment: int = 8192, **cluster):
        self.random = Random(seed)
        self.now = 1000.0
        self.settings = ClusterSettings(**({"min_in_sync": 2, "seed_bytes_per_s": 1 << 20} | cluster))
        self.tail_bytes = tail_bytes
        self.segment = segment
        self._events: list = []
        self._count = 0
        self.records: dict[int, SlotRecord] = {}
        self.revision = 0
        self.store_up = True
        self.lose_answers = 0.0
        self.blocked: set[frozenset[str]] = set()
        self.streams: list[Near] = []
        self.led: dict[tuple[int, int], str] = {}
        self.told: dict[int, dict[int, RunRecord]] = {}
        """slot → first id → what a producer was told of."""
        self.gone: dict[int, set[int]] = {}
        """slot → first ids of which the settlement was at least begun."""
        self.settled: dict[int, set[int]] = {}
        """slot → first ids of which somebody was told that they are settled."""
        self.bodies: dict[int, bytes] = {}
        self.owners = {f"o{i}": Owner(self, f"o{i}") for i in range(owners)}

    def at(self, seconds: float, callback) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + max(0.0, seconds), self._count, callback))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, callback = heapq.heappop(self._events)
            callback()
            self.check_dispatch()
        self.now = end

    def until(self, condition, seconds: float = 20.0, what: str = "") -> None:
        end = self.now + seconds
        while not condition():
            assert self.now < end, f"did not happen: {what or condition}"
            self.run(0.01)

    def check_dispatch(self) -> None:
        for slot in self.records:
            able = [o.id for o in self.owners.values() if o.up and o.leaders.may_dispatch(slot)]
            assert len(able) < 2, f"slot {slot} dispatched by {able} at {self.now}"

    # the slot table

    def create(self, slot: int, leader: str, replicas: str = "o0 o1 o2", isr: str = "") -> None:
        self.revision += 1
        members = tuple(replicas.split())
        self.records[slot] = SlotRecord(slot, 1, leader, members, tuple(isr.split()) or members, "", self.revision)
        self.tell(slot)

    def tell(self, slot: int) -> None:
        for owner in self.owners.values():
            self.at(self.random.uniform(0.001, 0.01), partial(owner.on_record, self.records[slot]))

    def write(self, new: SlotRecord) -> SlotRecord:
        self.revision += 1
        self.records[new.slot] = replace(new, revision=self.revision)
        self.tell(new.slot)
        return self.records[new.slot]

    def change(self, owner, record, new, done) -> None:
        life = owner.life

        def arrives() -> None:
            result = None
            if self.store_up and not owner.deaf and self.records[record.slot].revision == record.revision:
                result = self.write(new)
            if self.random.random() < self.lose_answers:
                result = None
            self.at(self.random.uniform(0.001, 0.01), partial(owner.call, life, partial(done, result)))

        self.at(self.random.uniform(0.001, 0.01), arrives)

    def fail_over(self, slot: int) -> None:
        """What the controller does when the leader's lease is gone."""
        record = self.records[slot]
        if self.owners[record.leader].up:
            return
        alive = [m for m in record.isr if self.owners[m].up]
        if alive:
            isr = tuple(alive) if len(alive) >= self.settings.min_in_sync else record.isr
            self.write(replace(record, epoch=record.epoch + 1, leader=self.random.choice(alive), isr=isr))

    def leader(self, slot: int) -> Owner | None:
        owner = self.owners[self.records[slot].leader]
        return owner if owner.up and slot in owner.leading else None


class Near:
    """One end of a stream."""

    def __init__(self, world: World, owner: Owner, peer: str) -> None:
        self.world, self.owner, self.peer, self.life = world, owner, peer, owner.life
        self.end = None
        self.other: Near | None = None
        self.names: frozenset[str] = frozenset()
        self.over = self.mute = False
        self.last = 0.0
        self.pending = 0

    def send(self, message: bytes) -> None:
        if not self.over and self.other is not None:
            self._post(partial(self.other.arrive, bytes(message)))

    def _post(self, what) -> None:
        self.last = max(self.last, self.world.now + self.world.random.uniform(0.0002, 0.003))
        self.world.at(self.last - self.world.now, what)

    def arrive(self, message: bytes) -> None:
        if self.over or self.mute or not self.owner.up or self.owner.life != self.life:
            return
        if self.blocked():
            # Nothing is ever left out: the stream is dead, and its ends find out some time.
            self.mute = True
            self.world.at(self.world.random.uniform(0.1, 2.0), partial(self._end, "no answer"))
            return
        self.end.on_message(message)

    def blocked(self) -> bool:
        return self.other is not None and frozenset((self.owner.id, self.other.owner.id)) in self.world.blocked

    def close(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        self.abort(why, kind)

    def abort(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        if not self.over:
            self._end(why, kind)
            if self.other is not None and not self.blocked():
                self._post(partial(self.other._end, why, kind))

    def _end(self, why: str, kind: EndKind = EndKind.LOST) -> None:
        if self.over:
            return
        self.over = True
        if self in self.world.streams:
            self.world.streams.remove(self)
        self.world.at(0.0, partial(self.owner.call, self.life, partial(self.end.on_closed, Ended(why, kind))))


class Clock:
    """Skewed start and rate."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.offset = world.random.uniform(0, 1e6)
        self.rate = world.random.uniform(0.991, 1.009)

    def monotonic(self) -> float:
        return self.offset + self.world.now * self.rate

    def wall_ms(self) -> int:
        return int(self.world.now * 1000)


class Io:
    """A thread that takes its time."""

    def __init__(self, owner: Owner) -> None:
        self.owner, self.life, self.free = owner, owner.life, 0.0

    def submit(self, job, done) -> None:
        world = self.owner.world
        self.free = max(self.free, world.now) + world.random.uniform(0.0001, 0.002)
        world.at(self.free - world.now, partial(self.owner.call, self.life, partial(self._work, job, done)))

    @staticmethod
    def _work(job, done) -> None:
        try:
            result = job()
        except Exception as error:
            done(None, error)
        else:
            done(result, None)


class Owner:
    """One process: a shard and a node reduced to what replication sees of them."""

    def __init__(self, world: World, id: str) -> None:
        self.world, self.id, self.life, self.up = world, id, 0, False
        self.disk = SimDisk(world.random.getrandbits(32))
        self.clock = Clock(world)
        self.lost: list[tuple[str, str]] = []
        self.throws: list[Exception] = []
        self.on_disk: dict[int, int] = {}
        """slot → last lsn that is certainly on the platter."""
        self.deaf = False
        """It is cut off from the slot table."""
        self.start()

    # a process's life

    def start(self) -> None:
        self.life += 1
        self.up = True
        settings = JournalSettings(segment_bytes=self.world.segment, min_free_bytes=0)
        self.journal = Journal.open(self.disk, FOLDER, settings, self.world.tail_bytes)
        self.number = 1
        self.committing = False
        self.committed = 0
        self.callbacks: dict[int, list] = {}
        self.waiting: list[tuple[int, int, object]] = []
        self.leading: set[int] = set()
        self.taking: dict[int, int] = {}
        self.begun: set[int] = set()
        self.engines: dict[int, Engine] = {}
        self.known: dict[int, SlotRecord] = {}
        self.standbys: dict[int, Standby] = {}
        self.busy: set[int] = set()
        self.next_id: dict[int, int] = {}
        self._recover()
        me = Identity("/test", self.id, f"boot-{self.id}-{self.life}", f.PREFERRED)
        later, cluster = self.later, self.world.settings
        self.leaders = Leaders(me, cluster, self.journal, self, self.clock, later, Io(self))
        self.followers = Followers(me, self.journal, self.clock, later, Io(self), cluster)
        change = partial(self.world.change, self)
        look = Inspector(self.journal, Io(self), later, self.durable).look
        self.leaders.start(
            LeaderHome(self.durable, self.progress, self.small, change, self.on_new, self.deposed, self.on_lost, look)
        )
        self.followers.start(
            FollowerHome(self.durable, self.new_standby, self.deposed, self.on_lost, self.released, look, self.thrown)
        )
        for owner in ("o0", "o1", "o2"):
            self.leaders.reach(owner, owner)
        for record in list(self.world.records.values()):
            self.world.at(0.005, partial(self.call, self.life, partial(self.on_record, record)))

    def _recover(self) -> None:
        found: dict[int, tuple[list, list]] = {}
        for meta in self.journal.recovered.metas:
            found.setdefault(meta.slot, ([], []))[0].append(meta)
        for record, settled in self.journal.recovered.runs():
            found.setdefault(record.slot, ([], []))[1].append((record, settled))
        for slot, (metas, runs) in found.items():
            self.standbys[slot] = self.new_standby(slot)
            self.standbys[slot].restore(metas, runs, {})

    def crash(self, wipe: bool = False) -> None:
        """Power loss: whatever was not synced may be gone; its streams end when the others notice."""
        self.up = False
        self.life += 1
        self.disk.crash()
        for near in [n for n in self.world.streams if n.owner is self]:
            near.over = True
            self.world.streams.remove(near)
            if near.other is not None:
                self.world.at(self.world.random.uniform(0.001, 0.01), partial(near.other._end, "reset"))
        if wipe:
            self.disk = SimDisk(self.world.random.getrandbits(32))
            self.on_disk.clear()

    def call(self, life: int, callback) -> None:
        if self.up and self.life == life:
            callback()

    def later(self, seconds: float, callback) -> None:
        self.world.at(seconds / self.clock.rate, partial(self.call, self.life, callback))

    # the dialer

    def dial(self, address: str, service: str, end) -> Near:
        world, target = self.world, self.world.owners[address]
        near = Near(world, self, address)
        near.end = end
        world.streams.append(near)
        if frozenset((self.id, address)) in world.blocked:
            world.at(1.0, partial(near._end, "unreachable", EndKind.UNREACHED))
        elif not target.up:
            world.at(0.001, partial(near._end, "refused: nobody listens", EndKind.REFUSED))
        else:
            far = Near(world, target, self.id)
            near.other, far.other = far, near
            world.streams.append(far)
            far.end = target.followers.accept(service, far)
        return near

    # the shard

    def append(self, *records) -> int:
        """Number of the commit that will hold them."""
        for record in records:
            self.journal.append(record)
        self._wake()
        return self.number

    def durable(self, callback) -> None:
        self.callbacks.setdefault(self.number, []).append(callback)
        self._wake()

    def _wake(self) -> None:
        self.world.at(0.0, partial(self.call, self.life, self.step))

    def step(self) -> None:
        for waiting in list(self.waiting):
            slot, number, callback = waiting
            if self.committed >= number and self.leaders.ready(slot) >= number:
                self.waiting.remove(waiting)
                callback()
        if self.committing:
            return
        if self.journal.wants_snapshot:
            metas = [m for e in self.engines.values() for m in e.snapshot()]
            metas += [m for s in self.standbys.values() for m in s.snapshot()]
            metas += [m for s in range(SLOTS) if (kept := self.followers.keeper(s)) for m in kept.snapshot()]
            self.journal.append_snapshot(metas)
        batch = self.journal.seal()
        if batch is None and self.number not in self.callbacks and not any(w[1] == self.number for w in self.waiting):
            return
        number, self.number, self.committing = self.number, self.number + 1, True
        self.leaders.sealed(number, [] if batch is None else batch.items)
        ends = {slot: self.journal.last(slot)[1] for slot in self.world.records}
        self.world.at(
            self.world.random.uniform(0.0002, 0.004),
            partial(self.call, self.life, partial(self.commit, batch, number, ends)),
        )

    def commit(self, batch, number: int, ends: dict[int, int]) -> None:
        if batch is not None:
            self.journal.write(batch)
            self.journal.committed(batch)
            clear(self.journal)
        self.on_disk.update(ends)
        self.committing, self.committed = False, number
        self.leaders.committed(number)
        for n in sorted(n for n in self.callbacks if n <= number):
            for callback in self.callbacks.pop(n):
                callback()
        self.step()

    def progress(self) -> None:
        self._wake()

    def when_ready(self, slot: int, callback) -> None:
        self.waiting.append((slot, self.number, callback))
        self._wake()

    # the node

    def new_standby(self, slot: int) -> Standby:
        return Standby(Engine(slot, EngineSettings()))

    def small(self, slot: int) -> list[MetaRecord]:
        return (self.engines.get(slot) or self.standbys[slot]).snapshot()

    def on_lost(self, owner: str, why: str) -> None:
        self.lost.append((owner, why))

    def thrown(self, error: Exception) -> None:
        self.throws.append(error)
        self.crash()

    def on_new(self, slot: int, record: SlotRecord) -> None:
        self.on_record(record)

    def deposed(self, slot: int, epoch: int) -> None:
        if self.taking.get(slot, epoch) < epoch:
            self.step_down(slot, epoch)

    def released(self, slot: int) -> None:
        if slot in self.taking and slot not in self.begun:
            self.take_over(self.known[slot])

    def on_record(self, record: SlotRecord) -> None:
        slot, known = record.slot, self.known.get(record.slot)
        if not self.up or self.deaf or (known is not None and known.revision >= record.revision):
            return
        self.known[slot] = record
        self.apply(slot)

    def apply(self, slot: int) -> None:
        record, epoch = self.known[slot], self.taking.get(slot)
        if slot in self.busy:
            return
        if epoch is not None and (record.leader != self.id or record.epoch > epoch):
            self.step_down(slot, record.epoch)
        elif record.leader == self.id and epoch == record.epoch:
            self.leaders.update(record)
        elif record.leader == self.id and record.epoch > self.journal.epoch(slot):
            self.taking[slot] = record.epoch
            wait = self.followers.promised_until(slot) - self.clock.monotonic()
            self.standbys[slot] = self.followers.unfollow(slot) or self.standbys.get(slot) or self.new_standby(slot)
            self.later(max(0.0, wait), partial(self.take_over, record))
        elif record.leader == self.id:
            new = replace(record, epoch=max(record.epoch, self.journal.epoch(slot)) + 1)
            self.world.change(self, record, new, partial(self._claimed, slot))
        elif self.id in record.replicas:
            standby = self.standbys.pop(slot, None)
            if standby is None and not self.followers.known(slot):
                standby = self.new_standby(slot)
            if standby is not None:
                self.followers.follow(standby, record.epoch)

    def _claimed(self, slot: int, record: SlotRecord | None) -> None:
        if record is not None:
            self.on_record(record)
        else:
            self.later(0.2, partial(self.apply, slot))

    def take_over(self, record: SlotRecord) -> None:
        slot = record.slot
        if self.taking.get(slot) != record.epoch or slot in self.begun:
            return
        self.begun.add(slot)
        key = slot, record.epoch
        assert self.world.led.setdefault(key, self.id) == self.id, f"two leaders of {key}"
        self.journal.begin_epoch(slot, record.epoch)
        self.journal.replicated.add(slot)
        self.leaders.lead(self.known[slot])
        self.when_ready(slot, partial(self.activate, slot, record.epoch))

    def activate(self, slot: int, epoch: int) -> None:
        if self.taking.get(slot) != epoch or slot in self.leading:
            return
        self.check_complete(slot)
        turn = Turn(self.clock.wall_ms(), self.number)
        standby = self.standbys.pop(slot)
        while not standby.rouse(self.journal, epoch << 40, 1):
            pass
        for _ in standby.promote(turn):
            pass
        self.engines[slot] = standby.engine
        self.leading.add(slot)
        self.next_id[slot] = (epoch << 40) + (1 << 30)
        self.append(*turn.appends)

    def step_down(self, slot: int, epoch: int) -> None:
        self.taking.pop(slot)
        self.begun.discard(slot)
        self.leaders.resign(slot)
        self.journal.replicated.discard(slot)
        self.waiting = [w for w in self.waiting if w[0] != slot]
        if slot not in self.leading:
            self.followers.follow(self.standbys.pop(slot), epoch)
            self.apply(slot)
            return
        self.leading.discard(slot)
        metas = self.engines.pop(slot).hand_over()
        self.busy.add(slot)
        survey = self.journal.survey(slot)

        def read() -> None:
            runs = []
            while (more := survey.read(100)) is not None:
                runs += more
            survey.close()
            standby = self.new_standby(slot)
            standby.restore(metas, runs, {})
            self.busy.discard(slot)
            self.followers.follow(standby, epoch)
            self.apply(slot)

        self.durable(lambda: self.later(0.003, read))

    # the work

    def send(self, slot: int, size: int = 50, body: bytes | None = None) -> int:
        """A producer's message; told of when it counts. Its id."""
        world, first = self.world, self.next_id[slot]
        self.next_id[slot] = first + 1
        blob = None
        if body is not None:
            writer = self.journal.blobs.create()
            writer.write(body)
            blob = writer.finish(True)
            world.bodies[blob.id] = body
        data = b"\n" if blob is not None else b"\n" + world.random.randbytes(size).replace(b"\0", b"x") + b"\0"
        run = Run(
            range(first, first + 1), b"", [data], len(data) + (0 if blob is None else blob.length), DURABLE, blob=blob
        )
        record = RunRecord(slot, "a", [QUEUE], run)
        self.append(record)
        lsn = self.journal.last(slot)[1]

        def tell() -> None:
            self.check_durable(slot, lsn)
            world.told.setdefault(slot, {})[first] = record

        self.when_ready(slot, tell)
        return first

    def settle(self, slot: int, first: int, group: bool = False) -> None:
        world = self.world
        world.gone.setdefault(slot, set()).add(first)
        record = SettleRecord(slot, QUEUE, [(first, first)])
        self.append(GroupRecord(slot, [record, MetaRecord(slot, "queues", {"next": 2})]) if group else record)
        self.when_ready(slot, lambda: world.settled.setdefault(slot, set()).add(first))

    # what must be true

    def holds(self, record: RunRecord) -> bool:
        return self.journal.settled(record) is not None

    def live(self, slot: int) -> list[tuple[int, int]]:
        ranges = self.journal._live_index.queues.get((slot, QUEUE))
        result: list[tuple[int, int]] = []
        for first, last, _ in [] if ranges is None else ranges.pieces():
            if result and result[-1][1] + 1 == first:
                result[-1] = (result[-1][0], last)
            else:
                result.append((first, last))
        return result

    def check_durable(self, slot: int, lsn: int) -> None:
        """I3: on the disks of all that may be elected as the slot table stands now, and of enough of them."""
        isr = self.world.records[slot].isr
        have = [m for m in isr if self.world.owners[m].on_disk.get(slot, 0) >= lsn]
        assert list(isr) == have and len(have) >= self.world.settings.min_in_sync, f"told of {lsn}: {have} of {isr}"

    def check_complete(self, slot: int) -> None:
        """I4: who leads has everything anybody was told of, and nothing that was settled."""
        world = self.world
        for first, record in world.told.get(slot, {}).items():
            if first not in world.gone.get(slot, ()):
                assert self.holds(record), f"{self.id} leads slot {slot} without message {first:x}"
        for first in world.settled.get(slot, ()):
            assert not any(a <= first <= b for a, b in self.live(slot)), f"message {first:x} is back"
