"""Three journals that hand the logs of two slots to each other, with power losses: one seed, one history.

The model knows what each (slot, epoch, lsn) means: what lives and the small state. Whoever says that it holds a log
up to there must hold exactly that. Leaders change at random, without any regard for what was told: so logs diverge,
and copies go over journals that know better.
"""

from __future__ import annotations

from random import Random
from unittest.mock import patch

from broker.config.settings import JournalSettings
from broker.core.message import DURABLE, TRANSIENT, Run
from broker.core.records import GroupRecord, MetaRecord, RunRecord, SettleRecord
from broker.journal.journal import Journal
from tests.sim.checker import Violation
from tests.sim.disk import PowerLoss, SimDisk
from tests.sim.journal_world import clear_some

FOLDER = "/data/journal"
SLOTS = (1, 2)
COUNT = 3

Live = dict[tuple[int, int], bytes]
"""(queue, id) → bytes"""


class State:
    """What a slot holds at one lsn. Never changed: `after` makes the next one."""

    def __init__(self, live: Live, metas: dict[str, int]) -> None:
        self.live = live
        self.metas = metas

    def after(self, record) -> State:
        live, metas = dict(self.live), dict(self.metas)
        for member in record.records if isinstance(record, GroupRecord) else [record]:
            if isinstance(member, RunRecord):
                if not member.run.flags & TRANSIENT:
                    for i, body in zip(member.run.ids, member.run.records, strict=True):
                        live |= {(queue, i): member.run.lines + body for queue in member.queues}
            elif isinstance(member, SettleRecord):
                for a, b in member.spans:
                    for i in range(a, b + 1):
                        live.pop((member.queue, i), None)
            else:
                metas |= member.data
        return State(live, metas)


class Copying:
    """A seed on its way."""

    def __init__(self, reader) -> None:
        self.reader = reader
        self.begun = False


class Link:
    """From a slot's leader to one follower. `sent`: last lsn in `items`, or that the follower has."""

    def __init__(self, items, sent, copying=None) -> None:
        self.items = list(items)
        self.sent = sent
        self.copying = copying


class Replica:
    """A journal, its disk, and the small state that its standbys would have."""

    def __init__(self, number: int, seed: int, settings: JournalSettings, tail: int) -> None:
        self.number = number
        self.disk = SimDisk(seed * COUNT + number)
        self.settings = settings
        self.tail = tail
        self.metas: dict[int, dict[str, int]] = {}
        self.journal: Journal

    def open(self) -> None:
        with patch("broker.journal.log.store.token", lambda _: f"{self.number:032x}"):
            self.journal = Journal.open(self.disk, FOLDER, self.settings, self.tail)
        self.metas = {slot: {} for slot in SLOTS}
        for meta in self.journal.recovered.metas:
            self.metas[meta.slot] |= meta.data

    def took(self, members) -> None:
        for member in members:
            if isinstance(member, MetaRecord):
                self.metas[member.slot] |= member.data
        if self.journal.wants_snapshot:
            self.journal.append_snapshot(self.snapshot(*SLOTS))

    def snapshot(self, *slots: int) -> list[MetaRecord]:
        return [MetaRecord(slot, "told", {key: value}) for slot in slots for key, value in self.metas[slot].items()]


class World:
    """`tail`, sizes, segments: each history has its own habits."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.slow = Random(seed + (1 << 32))
        pick = self.random.choice
        tail = pick((0, 800, 1 << 16))
        settings = JournalSettings(
            segment_bytes=pick((2048, 4096)), min_free_bytes=0, compact_below=pick((0.25, 0.5)), sync=True
        )
        self.size = pick((20, 200, 500))
        self.eager_settle = pick((0.3, 0.7, 0.95))
        self.settle_at = pick((0.0, 0.5, 1.0))
        self.crash_rate = pick((0.01, 0.03))
        self.replicas = [Replica(n, seed, settings, tail) for n in range(COUNT)]
        self.model: dict[tuple[int, int, int], State] = {(slot, 0, 0): State({}, {}) for slot in SLOTS}
        self.leaders: dict[int, int] = {}
        self.epochs = dict.fromkeys(SLOTS, 0)
        self.next_ids = dict.fromkeys(SLOTS, 1)
        self.links: dict[tuple[int, int], Link] = {}
        """(slot, follower) → from its leader"""
        self.value = 0
        self.copies = self.tails = self.crashes = 0

    def run(self, steps: int) -> World:
        """Raises Violation."""
        with patch("broker.journal.compaction.compaction.STEP_BYTES", 300):  # so that compaction is always half done
            return self._run(steps)

    def _run(self, steps: int) -> World:
        for replica in self.replicas:
            replica.open()
        for _ in range(steps):
            if self.random.random() < self.crash_rate:
                disk = self.random.choice(self.replicas).disk
                disk.crash_at = disk.crash_at or disk.total_calls + self.random.randrange(1, 25)
            try:
                self.step()
            except PowerLoss:
                self.power_losses()
        for replica in self.replicas:
            self.crash(replica)
        return self

    def step(self) -> None:
        luck, slot = self.random.random(), self.random.choice(SLOTS)
        replica = self.random.choice(self.replicas)
        if luck < 0.02 or slot not in self.leaders:
            self.elect(slot)
        elif luck < 0.30:
            self.append(slot)
        elif luck < 0.50:
            self.commit(replica)
        elif luck < 0.80:
            self.replicate(slot, replica.number)
        elif luck < 0.94:
            for _ in range(3):
                self.maintain(replica)
        elif luck < 0.97:
            self.look(replica, slot)
        else:
            replica.journal.prepare()

    # ── leading ────────────────────────────────────────────────────────────────────────────────────

    def elect(self, slot: int) -> None:
        old = self.leaders.pop(slot, None)
        if old is not None:
            self.replicas[old].journal.replicated.discard(slot)
        for key in [key for key in self.links if key[0] == slot]:
            self.cut(key)
        able = [r for r in self.replicas if slot not in r.journal._logs.seeding]
        if not able:
            return
        leader = self.random.choice(able)
        self.epochs[slot] += 1
        leader.journal.begin_epoch(slot, self.epochs[slot])
        leader.took([])
        leader.journal.replicated.add(slot)
        self.leaders[slot] = leader.number

    def cut(self, key: tuple[int, int]) -> None:
        link = self.links.pop(key)
        if link.copying is not None:
            link.copying.reader.close()

    def append(self, slot: int) -> None:
        leader = self.replicas[self.leaders[slot]]
        journal = leader.journal
        state = self.meaning(leader, slot)
        luck = self.random.random()
        if luck < 0.4:
            record = self.publish(slot)
        elif luck < 0.75:
            record = self.settle(slot, state)
        elif luck < 0.87:
            record = self.meta(slot)
        else:
            members = [self.publish(slot), self.settle(slot, state), self.meta(slot), self.publish(slot)]
            record = GroupRecord(slot, [member for member in members if member is not None])
        if record is None:
            return
        journal.append(record)
        self.model[slot, *journal.last(slot)] = state.after(record)
        leader.took(record.records if isinstance(record, GroupRecord) else [record])

    def publish(self, slot: int) -> RunRecord:
        random = self.random
        count = random.choice((1, 1, 2, 5))
        first = self.next_ids[slot]
        self.next_ids[slot] = first + count
        bodies = [
            b"\n%d:%d:" % (slot, i) + b"x" * random.randrange(self.size) + b"\0" for i in range(first, first + count)
        ]
        run = Run(range(first, first + count), b"", bodies, sum(map(len, bodies)), DURABLE, time=7)
        if random.random() < 0.1:
            run.flags = TRANSIENT
        return RunRecord(slot, f"address-{slot}", random.choice(([1], [2], [1, 2])), run)

    def settle(self, slot: int, state: State) -> SettleRecord | None:
        live = sorted(state.live)
        if not live or self.random.random() > self.eager_settle:
            return None
        queue, first = self.random.choice(live) if self.random.random() < self.settle_at else live[0]
        return SettleRecord(slot, queue, [(first, first + self.random.choice((0, 0, 3, 30)))])

    def meta(self, slot: int) -> MetaRecord:
        self.value += 1
        return MetaRecord(slot, "told", {self.random.choice("ab"): self.value})

    # ── each on its own ────────────────────────────────────────────────────────────────────────────

    def commit(self, replica: Replica) -> None:
        batch = replica.journal.seal()
        if batch is None:
            return
        for slot, last, data in batch.items:  # they leave before they are durable here
            for (of, _), link in self.links.items():
                if of == slot and self.leaders[of] == replica.number and last > link.sent:
                    link.items.append(data)
                    link.sent = last
        replica.journal.write(batch)
        replica.journal.committed(batch)
        clear_some(replica.journal, self.slow)

    def maintain(self, replica: Replica) -> None:
        replica.journal.maintain()
        replica.took([])
        if self.random.random() < 0.5:
            self.commit(replica)

    def look(self, replica: Replica, slot: int) -> None:
        """Without a crash."""
        if slot not in replica.journal._logs.seeding:
            self.commit(replica)
            self.compare(replica, slot)

    # ── following ──────────────────────────────────────────────────────────────────────────────────

    def replicate(self, slot: int, number: int) -> None:
        if number == self.leaders[slot]:
            return
        follower, link = self.replicas[number], self.links.get((slot, number))
        if link is None:
            self.connect(slot, follower)
        elif link.copying is not None:
            self.copy(slot, follower, link)
        else:
            some, link.items = link.items[:3], link.items[3:]
            for data in some:
                follower.took(follower.journal.append_item(slot, data))

    def connect(self, slot: int, follower: Replica) -> None:
        leader, journal = self.replicas[self.leaders[slot]].journal, follower.journal
        if journal.epoch(slot) < self.epochs[slot]:
            journal.begin_epoch(slot, self.epochs[slot])
            follower.took([])
        epoch, lsn = journal.last(slot)
        tail = leader.tail(slot, lsn) if on(leader.lineage(slot), leader.last(slot)[1], epoch, lsn) else None
        if tail is not None and slot not in journal._logs.seeding:
            self.tails += 1
            sent = tail[-1][1] if tail else lsn
            self.links[slot, follower.number] = Link([data for _, _, data in tail], sent)
            return
        metas = self.replicas[self.leaders[slot]].snapshot(slot)
        reader = leader.seed(slot, metas)
        self.links[slot, follower.number] = Link([], reader.lsn, Copying(reader))

    def copy(self, slot: int, follower: Replica, link: Link) -> None:
        copying = link.copying
        if not copying.begun:
            copying.begun = True
            follower.metas[slot] = {}
            follower.journal.reset_slot(slot)
            follower.took([])
        elif not copying.reader.durable:
            self.commit(self.replicas[self.leaders[slot]])
        elif (items := copying.reader.read(self.random.randrange(1, 1500))) is not None:
            for data in items:
                follower.took(follower.journal.append_seed(slot, data))
        else:
            self.copies += 1
            follower.journal.end_seed(slot, copying.reader.lineage, copying.reader.lsn)
            follower.took([])
            copying.reader.close()
            link.copying = None

    # ── crashes and checks ─────────────────────────────────────────────────────────────────────────

    def power_losses(self) -> None:
        for replica in self.replicas:
            if replica.disk.crash_at and replica.disk.total_calls >= replica.disk.crash_at:
                self.crashes += 1
                self.crash(replica)

    def crash(self, replica: Replica) -> None:
        for key in list(self.links):
            if key[1] == replica.number or self.leaders[key[0]] == replica.number:
                self.cut(key)
        self.leaders = {slot: leader for slot, leader in self.leaders.items() if leader != replica.number}
        replica.disk.crash()
        replica.open()
        for slot in SLOTS:
            self.compare(replica, slot, restarted=True)

    def meaning(self, replica: Replica, slot: int) -> State:
        last = replica.journal.last(slot)
        state = self.model.get((slot, *last))
        if state is None:
            raise Violation(f"replica {replica.number}, slot {slot}: says {last}, which never was")
        return state

    def compare(self, replica: Replica, slot: int, restarted: bool = False) -> None:
        journal, state = replica.journal, self.meaning(replica, slot)
        last = journal.last(slot)
        if (found := content(journal, slot, restarted)) != state.live:
            lost, more = sorted(state.live.keys() - found), sorted(found.keys() - state.live)
            raise Violation(f"replica {replica.number}, slot {slot} at {last}: lost {lost}, should be gone {more}")
        if replica.metas[slot] != state.metas:
            raise Violation(
                f"replica {replica.number}, slot {slot} at {last}: {replica.metas[slot]}, not {state.metas}"
            )


def on(lineage, last: int, epoch: int, lsn: int) -> bool:
    """Is (epoch, lsn) a place on a log with this lineage, which ends at `last`."""
    if lsn == 0:
        return True
    ends = [first - 1 for _, first in lineage[1:]] + [last]
    return any(e == epoch and first <= lsn <= end for (e, first), end in zip(lineage, ends, strict=True))


def content(journal: Journal, slot: int, restarted: bool) -> Live:
    found: Live = {}
    if restarted:
        runs = [pair for pair in journal.recovered.runs() if pair[0].slot == slot]
    else:
        survey = journal.survey(slot)
        runs = []
        while (some := survey.read(2)) is not None:
            runs += some
        survey.close()
    if [record.run.ids[0] for record, _ in runs] != sorted(record.run.ids[0] for record, _ in runs):
        raise Violation("runs out of order")
    for record, settled in runs:
        bodies = {
            i: run.lines + body
            for run in journal.read([record.run.position], 1)
            for i, body in zip(run.ids, run.records, strict=True)
        }
        for queue in record.queues:
            for i in record.run.ids:
                if not any(a <= i <= b for a, b in settled.get(queue, ())):
                    if (queue, i) in found:
                        raise Violation(f"twice: {queue, i}")
                    found[queue, i] = bodies[i]
    return found
