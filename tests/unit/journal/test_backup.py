"""A backup of a folder in which a broker is at work: what a crash at the stated position would have left.

Broker and backup run in threads of their own that change places at calls of the disk, as a seeded generator says: in
the middle of a write, between a listing and an open, while files are removed.
"""

from __future__ import annotations

import threading
from random import Random

import pytest

from broker.core.errors import CorruptJournal, JournalError
from broker.core.message import BLOB, DURABLE, Run
from broker.core.records import RunRecord
from broker.journal.bodies.bodies import PIECE
from broker.journal.journal import Journal
from broker.journal.tools import backup as subject
from broker.journal.tools.backup import STATEMENT, Statement, take_backup
from tests.sim.disk import SimDisk
from tests.unit.journal.support import FOLDER, clear, meta, sent, settings, settled

COPY = "/copy/journal"
LARGE = b"0123456789abcdef" * 300


@pytest.fixture(autouse=True)
def piecemeal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment of 4 kB is read in pieces, too."""
    monkeypatch.setattr(subject, "_PIECE", 300)


class Turns:
    """Two threads, one at a time."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.condition = threading.Condition()
        self.whose = "backup"
        self.alone = True

    def begin(self, work) -> threading.Thread:
        def run() -> None:
            with self.condition:
                self.condition.wait_for(lambda: self.whose == "broker" or self.alone)
            try:
                work()
            finally:
                self.end()

        self.alone = False
        thread = threading.Thread(target=run, name="broker")
        thread.start()
        return thread

    def point(self) -> None:
        """The other one may go on now."""
        if self.alone or self.random.random() < 0.7:
            return
        me = "broker" if threading.current_thread().name == "broker" else "backup"
        with self.condition:
            self.whose = "backup" if me == "broker" else "broker"
            self.condition.notify_all()
            self.condition.wait_for(lambda: self.whose == me or self.alone)

    def end(self) -> None:
        with self.condition:
            self.alone = True
            self.condition.notify_all()


class Disk(SimDisk):
    turns: Turns | None = None

    def call(self, verb, path, data=b""):
        if self.turns is not None:
            self.turns.point()
        return super().call(verb, path, data)


class Target:
    """Another disk."""

    def __init__(self) -> None:
        self.disk = SimDisk(0)
        self.disk.mkdir(f"{COPY}/blobs")

    def begin(self, nbytes) -> None: ...

    def file(self, name, size, pieces) -> None:
        file = self.disk.open(f"{COPY}/{name}", create=True)
        data = b"".join(pieces)
        assert len(data) == size
        file.pwrite(data, 0)


class Broker:
    """Publishes, acknowledges, compacts. `log`: (first batch, last batch, +id or -id) of all that is on the disk."""

    def __init__(self, disk: Disk, random: Random) -> None:
        self.disk = disk
        self.random = random
        self.journal = Journal.open(disk, FOLDER, settings())
        self.journal.mind_backups()
        self.next = 1
        self.live: list[int] = []
        self.log: list[tuple[int, int, int]] = []
        self.removed = 0
        self.small = [meta("queue", id=1, name="q", address="address", routing=1)]
        self.put([], *self.small)

    def put(self, changes: list[int], *records) -> None:
        for record in records:
            self.journal.append(record)
            if self.journal.wants_snapshot:
                self.journal.append_snapshot(self.small)
        batch = self.journal.seal()
        if batch is not None:
            self.journal.write(batch)
            self.journal.committed(batch)
            clear(self.journal)
            self.removed += len(batch.removals) + len(batch.freed)
            if batch.parts:
                self.log += [(batch.parts[0].number, batch.parts[-1].number, change) for change in changes]

    @property
    def batch(self) -> int:
        """The last one that is on the disk."""
        return self.journal._store.next_batch - 1

    def step(self) -> None:
        draw = self.random.random()
        if draw < 0.1:
            self.large()
        elif draw < 0.5 or not self.live:
            ids = range(self.next, self.next + self.random.randrange(1, 4))
            self.next = ids[-1] + 1
            self.live += ids
            self.put(list(ids), sent(ids[0], *[b"%d " % i + b"x" * self.random.randrange(700) for i in ids]))
        elif draw < 0.85:
            gone = [self.live.pop(self.random.choice((0, 0, -1))) for _ in range(min(3, len(self.live)))]
            self.put([-i for i in gone], *[settled(i, i) for i in gone])
        for _ in range(3):
            self.journal.maintain()
            if self.journal.wants_snapshot:
                self.journal.append_snapshot(self.small)
            self.put([])

    def large(self) -> None:
        i, self.next = self.next, self.next + 1
        writer = self.journal.blobs.create()
        writer.write(b"%d " % i + LARGE)
        blob = writer.finish(sync=True)
        self.live.append(i)
        self.put([i], RunRecord(1, "address", [1], Run(range(i, i + 1), b"", [b"\n"], 2, DURABLE | BLOB, blob=blob)))


def contents(journal: Journal) -> dict[int, bytes]:
    """The bodies of what is in the queue, and each once."""
    found: dict[int, bytes] = {}
    for record, gone in list(journal.recovered.runs()):
        (run,) = journal.read([record.run.position], 1 << 20)
        for i, body in zip(run.ids, run.records, strict=True):
            if any(first <= i <= last for first, last in gone.get(1, [])):
                continue
            assert i not in found
            if run.blob is not None:
                body = b"\n" + journal.blobs.read(run.blob.id, 0, PIECE)
            found[i] = body
    return found


def check(broker: Broker, target: Target, statement: Statement) -> None:
    journal = Journal.open(target.disk, COPY, settings())
    found = contents(journal)
    journal.close(clean=False)
    due = {i for _, last, i in broker.log if i > 0 and last <= statement.batch}
    due -= {-i for first, _, i in broker.log if i < 0 and first <= statement.batch}
    may = {i for first, _, i in broker.log if i > 0 and first <= statement.batch}
    may -= {-i for _, last, i in broker.log if i < 0 and last <= statement.batch}
    assert due <= found.keys() <= may
    assert all(body.startswith(b"\n%d " % i) for i, body in found.items())
    assert not statement.lost and statement.messages == len(found)


def history(seed: int, steps: int = 150) -> tuple[Broker, Target, Statement]:
    """A backup somewhere in the middle of all that."""
    random = Random(seed)
    disk = Disk(seed)
    broker = Broker(disk, random)
    for _ in range(random.randrange(60, 200)):
        broker.step()
    receipted: list[int] = []

    def now_ms() -> int:
        receipted.append(broker.batch)
        return 1000

    target = Target()
    turns = disk.turns = Turns(random)

    def work() -> None:
        for _ in range(steps):
            broker.step()

    thread = turns.begin(work)
    try:
        statement = take_backup(disk, FOLDER, target, lambda nbytes: turns.point(), now_ms, 0)
    finally:
        turns.end()
        thread.join()
        disk.turns = None
    assert statement.batch >= receipted[-1]
    return broker, target, statement


@pytest.mark.parametrize("seed", range(40))
def test_a_backup_has_what_was_there_at_its_position_and_nothing_later(seed):
    broker, target, statement = history(seed)
    check(broker, target, statement)
    for _ in range(30):
        broker.step()
    assert contents_of_disk(broker.disk) == set(broker.live)


def contents_of_disk(disk: SimDisk) -> set[int]:
    """The broker is none the worse for it."""
    disk.locked.clear()
    journal = Journal.open(disk, FOLDER, settings())
    assert not journal.blobs.missing
    return set(contents(journal))


def test_segments_and_bodies_go_while_they_are_copied():
    """Else nothing of the above would have been tried."""
    positions = set()
    for seed in range(40, 60):
        broker, _, statement = history(seed)
        positions.add(statement.batch)
        assert broker.removed > 20 and statement.batch < broker.batch
    assert len(positions) > 15


def broken(seeds: range) -> int:
    failures = 0
    for seed in seeds:
        try:
            check(*history(seed))
        except (AssertionError, CorruptJournal, JournalError, KeyError):
            failures += 1
    return failures


def test_planted_bodies_are_removed_meanwhile(monkeypatch):
    monkeypatch.setattr(subject._Backup, "_acquire_lock", lambda self: None)
    assert broken(range(30))


def test_planted_the_end_is_believed_as_it_was_read(monkeypatch):
    whole = subject._Backup._whole

    def believed(self, number, data):
        return max(whole(self, number, data), subject.f.used_bytes(data))

    monkeypatch.setattr(subject._Backup, "_whole", believed)
    assert broken(range(30))


# ── one thing at a time ────────────────────────────────────────────────────────────────────────────


def worked():
    """A broker that has done this and that."""
    broker = Broker(Disk(0), Random(0))
    for _ in range(60):
        broker.step()
    broker.large()
    return broker


@pytest.fixture
def broker():
    return worked()


def taken(broker, target=None, pace=lambda nbytes: None, spare=0):
    target = target or Target()
    return target, take_backup(broker.disk, FOLDER, target, pace, lambda: 1000, spare)


def busy_after_the_listing(broker):
    """Lets the broker free segments that have been listed and not been opened yet."""
    first = []

    def pace(nbytes: int) -> None:
        if not first:
            first.append(nbytes)
            for _ in range(60):
                broker.step()

    return pace


def test_what_is_freed_before_it_is_opened_is_not_missed(broker):
    """The list without it stands behind the segments that were listed."""
    before = broker.disk.calls["listdir"]
    target, statement = taken(broker, pace=busy_after_the_listing(broker))
    check(broker, target, statement)
    assert broker.disk.calls["listdir"] - before >= 3


def test_planted_segments_are_listed_once(broker, monkeypatch):
    monkeypatch.setattr(subject, "_ROUNDS", 1)
    with pytest.raises(JournalError, match="freed faster"):
        taken(broker, pace=busy_after_the_listing(broker))


def test_a_statement_says_where_the_log_stood(broker):
    target, statement = taken(broker)
    text = bytes(target.disk.names[f"{COPY}/{STATEMENT}"].data)
    assert Statement.of(text) == statement
    assert statement.batch == broker.batch and statement.taken_ms == 1000
    assert statement.disk == broker.journal.disk_id
    assert statement.slots == {1: broker.journal.last(1)}
    assert statement.messages == len(broker.live)
    assert {f"{COPY}/{name}" for name in statement.files} == {
        name for name in target.disk.names if not name.endswith(STATEMENT)
    }


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"stampede-backup": 1}', b'{"stampede-backup": 1, "slots": 3}'])
def test_a_damaged_statement_is_refused(text):
    with pytest.raises(JournalError, match="damaged"):
        Statement.of(text)


def test_a_statement_of_a_newer_release_is_refused_by_name(broker):
    _, statement = taken(broker)
    with pytest.raises(JournalError, match="version 2"):
        Statement.of(statement.text().replace(b'"stampede-backup": 1', b'"stampede-backup": 2'))


def test_a_stopped_broker_is_backed_up_as_well(broker):
    broker.journal.close(clean=True)
    target, _ = taken(broker)
    journal = Journal.open(target.disk, COPY, settings())
    assert set(contents(journal)) == set(broker.live)


def test_an_empty_journal_is_backed_up_as_well():
    disk = Disk(0)
    Journal.open(disk, FOLDER, settings()).close(clean=True)
    target = Target()
    assert take_backup(disk, FOLDER, target, lambda nbytes: None, lambda: 1, 0).messages == 0
    assert Journal.open(target.disk, COPY, settings()).last(1) == (0, 0)


def test_a_folder_without_a_journal_is_refused():
    with pytest.raises(JournalError, match="no journal here"):
        take_backup(Disk(0), FOLDER, Target(), lambda nbytes: None, lambda: 1, 0)


def test_one_backup_at_a_time(broker):
    held = broker.disk.lock(f"{FOLDER}/backup.lock")
    waits = []
    with pytest.raises(JournalError, match="another backup"):
        taken(broker, pace=waits.append)
    assert waits and set(waits) == {subject.WAIT}
    held.close()
    taken(broker)


def test_what_was_kept_for_a_backup_goes_with_a_later_batch(broker):
    held = broker.disk.lock(f"{FOLDER}/backup.lock")
    bodies = {name for name in broker.disk.names if "/blobs/" in name}
    gone, broker.live = broker.live, []
    broker.put([-i for i in gone], *[settled(i, i) for i in gone])
    for _ in range(50):
        broker.journal.maintain()
        broker.put([], *broker.small)
    assert bodies and bodies <= broker.disk.names.keys()
    held.close()
    broker.put([], *broker.small)
    assert not bodies & broker.disk.names.keys()


def test_a_full_disk_waits_for_no_backup(broker):
    broker.disk.lock(f"{FOLDER}/backup.lock")
    gone, broker.live = broker.live, []
    broker.put([-i for i in gone], *[settled(i, i) for i in gone])
    broker.journal._store.lacks(low_space=True)
    for _ in range(50):
        broker.journal.maintain()
        broker.put([], *broker.small)
        broker.journal._store.lacks(low_space=True)
        clear(broker.journal)
    assert not [name for name in broker.disk.names if "/blobs/" in name]


def test_a_backup_gives_up_when_the_disk_becomes_full(broker, monkeypatch):
    monkeypatch.setattr(subject, "_LOOK_BYTES", 1)
    with pytest.raises(JournalError, match="given up"):
        taken(broker, spare=1 << 50)
    assert f"{FOLDER}/backup.lock" not in broker.disk.locked


def test_rot_in_the_log_is_said_and_not_cut_off(broker):
    last = max(name for name in broker.disk.names if name.endswith(".log"))
    data = broker.disk.names[last].data
    at = data.index(b"STMPBAT\n") + 60
    data[at] ^= 1
    with pytest.raises(CorruptJournal, match="damaged"):
        taken(broker)


def test_a_damaged_large_body_is_left_out_and_said(broker):
    body = min(name for name in broker.disk.names if "/blobs/" in name)
    broker.disk.names[body].data[5] ^= 1
    target, statement = taken(broker)
    assert len(statement.lost) == 1 and body.rpartition("/")[2] in statement.lost[0]
    assert f"{COPY}/blobs/{body.rpartition('/')[2]}" not in target.disk.names


# ── and back ───────────────────────────────────────────────────────────────────────────────────────


def pieces(target, changes=None):
    files = {name.removeprefix(f"{COPY}/"): bytes(inode.data) for name, inode in target.disk.names.items()}
    return [(name, [data]) for name, data in (files | (changes or {})).items() if data is not None]
