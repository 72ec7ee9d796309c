"""A random workload on a journal over a simulated disk, with power losses: one seed, one history."""

from __future__ import annotations

import errno
from random import Random

from broker.config.settings import JournalSettings
from broker.core.errors import JournalDead, JournalFull
from broker.core.message import DURABLE, TRANSIENT, Run
from broker.core.records import GroupRecord, LogRecord, MetaRecord, RunRecord, SettleRecord
from broker.journal.journal import Journal
from tests.sim.checker import Checker, Violation
from tests.sim.disk import PowerLoss, SimDisk

FOLDER = "/data/journal"


def clear_some(journal: Journal, random: Random) -> None:
    """The helper thread that removes what is dead has had time for some of it, or for nothing."""
    for _ in range(random.choice((0, 0, 1, 5))):
        if not journal.wants_clear or (gone := journal.clear()) is None:
            return
        journal.cleared(gone)


class World:
    """`sizes`: how large bodies are in this history (swarm: each history has its own habits)."""

    journal: Journal
    fault_rate = 0.3
    """Share of sessions that end by a failing call instead of a power loss."""

    def __init__(self, seed: int, sync: bool = True) -> None:
        self.random = Random(seed)
        # Its own: histories of seeds that are kept stay what they were.
        self.slow = Random(seed + (1 << 32))
        self.disk = SimDisk(seed)
        pick = self.random.choice
        self.settings = JournalSettings(
            segment_bytes=pick((2048, 4096, 8192)), min_free_bytes=0, compact_below=pick((0.25, 0.5)), sync=sync
        )
        self.size = pick((lambda: 512, lambda: 20, lambda: self.random.randrange(1, 700), lambda: 512 - 170))
        self.reach = pick(((0, 0, 3), (0, 5, 40), (100,)))
        self.eager_settle = pick((0.2, 0.6, 0.9))
        self.checker = Checker()
        self.next_ids = {1: 1, 2: 1}
        self.value = 0
        self.positions: dict[tuple[int, int], int] = {}
        """(slot, message) → where its run was when it was handed out"""
        self.state: dict[tuple[int, str], int] = {}

    def open(self) -> Journal:
        return Journal.open(self.disk, FOLDER, self.settings)

    # ── steps ──────────────────────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        luck = self.random.random()
        if luck < 0.25:
            self.append(self.publish())
        elif luck < 0.50:
            if (settle := self.settle()) is not None:
                self.append(settle)
        elif luck < 0.54:
            members = [m for m in (self.publish(), self.settle(), self.publish()) if m is not None]
            self.append(GroupRecord(members[0].slot, members))
        elif luck < 0.59:
            self.append(self.meta())
        elif luck < 0.79:
            self.commit()
        elif luck < 0.93:
            for _ in range(3):
                self.journal.maintain()
        elif luck < 0.95:
            self.journal.prepare()
        else:
            self.read_back()

    def read_back(self) -> None:
        """Positions that the engines hold stay good, whatever compaction is doing."""
        for (slot, queue, message), sent in self.checker.sent.items():
            if sent.durable and not sent.settle:
                found = self.journal.read([self.positions[slot, message]], 1)
                if sent.body not in [run.lines + body for run in found for body in run.records]:
                    raise Violation(f"cannot be read back: {slot, queue, message}")

    def append(self, record: LogRecord) -> None:
        self.checker.appended(record)
        self.journal.append(record)
        for member in record.records if isinstance(record, GroupRecord) else [record]:
            if isinstance(member, RunRecord):
                self.positions |= {(member.slot, i): member.run.position for i in member.run.ids}
        if self.journal.wants_snapshot:
            self.journal.append_snapshot([MetaRecord(slot, "set", {key: v}) for (slot, key), v in self.state.items()])

    def publish(self) -> RunRecord:
        random = self.random
        slot = random.choice((1, 2))
        count = random.choice((1, 1, 2, 5))
        first = self.next_ids[slot]
        self.next_ids[slot] = first + count
        bodies = [b"\n%d:%d:" % (slot, i) + b"x" * self.size() + b"\0" for i in range(first, first + count)]
        lines = random.choice((b"", b"a:b\n"))
        nbytes = sum(map(len, bodies)) + count * len(lines)
        flags = DURABLE if random.random() < 0.9 else TRANSIENT
        run = Run(range(first, first + count), lines, bodies, nbytes, flags, time=7)
        queues = random.choice(([1], [2], [1, 2], [1, 2, 3]))
        return RunRecord(slot, f"address-{slot}", queues, run)

    def settle(self) -> SettleRecord | None:
        live = sorted(ref for ref, sent in self.checker.sent.items() if not sent.settle)
        if not live or self.random.random() > self.eager_settle:
            return None
        slot, queue, first = live[0] if self.random.random() < 0.6 else self.random.choice(live)
        return SettleRecord(
            slot, queue, [(first, min(first + self.random.choice(self.reach), self.next_ids[slot] - 1))]
        )

    def meta(self) -> MetaRecord:
        self.value += 1
        slot, key = self.random.choice((1, 2)), self.random.choice("ab")
        self.state[slot, key] = self.value
        return MetaRecord(slot, "set", {key: self.value})

    def commit(self) -> None:
        batch = self.journal.seal()
        records = self.checker.sealed()
        if batch is not None:
            try:
                self.journal.write(batch)
            except JournalFull:
                self.journal.write(batch)  # as promised: nothing was believed, the same batch may come again
            self.journal.committed(batch)
        self.checker.told(records)
        clear_some(self.journal, self.slow)

    # ── crashes ────────────────────────────────────────────────────────────────────────────────────

    def run(self, steps: int, crashes: int) -> None:
        """Raises Violation."""
        self.journal = self.open()
        for _ in range(crashes):
            if self.random.random() >= self.fault_rate:
                self.disk.crash_at = self.disk.total_calls + self.random.randrange(1, steps * 3)
            else:
                self.plan_fault()
            try:
                for _ in range(steps):
                    self.step()
            except (PowerLoss, JournalDead):
                pass
            self.restart()

    def plan_fault(self) -> None:
        """Some verb will fail soon, once."""
        verb = self.random.choice(("sync", "sync", "pwrite", "pwrite", "rename", "sync_dir", "open"))
        fault = self.random.choice((errno.EIO, errno.ENOSPC, "short"))
        self.disk.fail = {verb: (self.disk.calls.get(verb, 0) + self.random.randrange(1, 12), fault)}

    def restart(self) -> None:
        """Power loss, perhaps another one during recovery, then the check."""
        self.disk.crash()
        if self.random.random() < 0.2:
            self.disk.crash_at = self.disk.total_calls + self.random.randrange(1, 40)
            try:
                self.open()
            except PowerLoss:
                pass
            self.disk.crash()
        self.reopen()

    def reopen(self) -> None:
        self.journal = self.open()
        self.checker.check(self.journal)
        for record, _ in self.journal.recovered.runs():
            self.positions |= {(record.slot, i): record.run.position for i in record.run.ids}
        self.state = {key: values[1] for key, values in self.checker.counters.items()}
