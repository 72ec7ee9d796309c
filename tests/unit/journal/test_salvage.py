"""A way out of every damaged folder: what can be read is kept and starts, what is lost is said."""

from __future__ import annotations

import json

import pytest

from broker.core.errors import CorruptJournal, JournalError, UnknownFormat
from broker.core.message import BLOB, DURABLE, Blob, Run
from broker.core.records import GroupRecord, RunRecord
from broker.journal.journal import Journal
from broker.journal.log import format as f
from broker.journal.tools.builder import Builder
from broker.journal.tools.inspect import repair, verify
from broker.journal.tools.salvage import Salvaged, carry, remains, salvage
from broker.journal.tools.transcript import Transcript
from tests.sim.disk import SimDisk
from tests.unit.journal.support import FOLDER, commit, live_ids, meta, open_journal, sent, settings, settled

NEW = "/data/new"
QUEUE = {"id": 1, "name": "orders", "address": "address", "routing": 1}


def put(journal, *records):
    """Commits; snapshots have what an owner's would have."""
    for record in records:
        journal.append(record)
        if journal.wants_snapshot:
            journal.append_snapshot([meta("queue", **QUEUE), meta("ids", next=1000)])
    commit(journal)


def segment(number: int) -> str:
    return f"{FOLDER}/{number:016x}.log"


def journal_with(disk, *records, large: bytes = b""):
    """About five segments: ids 1…30 in "orders", of which 2 and 25 are settled, and 31 with a large body."""
    journal = open_journal(disk)
    put(journal, meta("queue", **QUEUE), meta("ids", next=1000))
    for i in range(1, 31):
        put(journal, sent(i, b"%d " % i + b"x" * 600))
    put(journal, settled(2, 2), settled(25, 25), *records)
    if large:
        writer = journal.blobs.create()
        writer.write(large)
        put(journal, large_run(31, writer.finish(sync=True)))
    journal.close(clean=True)
    assert len([name for name in disk.names if name.endswith(".log")]) > 4
    return disk


def large_run(i: int, blob: Blob) -> RunRecord:
    run = Run(range(i, i + 1), b"", [b"\n"], 1 + blob.length + 1, DURABLE | BLOB, blob=blob)
    return RunRecord(1, "address", [1], run)


def saved(disk) -> tuple[Salvaged, list[int], Journal]:
    report = salvage(disk, FOLDER, NEW, settings())
    journal = Journal.open(disk, NEW, settings())
    return report, live_ids(journal), journal


def of_segment(disk, number: int) -> set[int]:
    """Ids of the runs that stand in a segment."""
    data = bytes(disk.names[segment(number)].data)
    return {i for i in range(1, 31) if b"\n%d x" % i in data}


@pytest.fixture
def disk():
    return journal_with(SimDisk(0))


WHOLE = sorted({*range(1, 31)} - {2, 25})


def test_of_a_good_journal_everything_is_kept_and_nothing_is_said_to_be_lost(disk):
    before = {name: bytes(inode.data) for name, inode in disk.names.items() if name.startswith(FOLDER)}
    report, ids, journal = saved(disk)
    assert ids == WHOLE and report.lost == [] and report.kept == {"orders": 28}
    assert journal.recovered.clean
    assert [(m.kind, m.data.get("name")) for m in journal.recovered.metas][:1] == [("queue", "orders")]
    journal.close(clean=True)
    assert verify(disk, NEW).ok
    assert before == {name: bytes(inode.data) for name, inode in disk.names.items() if name.startswith(FOLDER + "/")}


def test_a_missing_segment_loses_what_stood_in_it_and_says_so(disk):
    gone = of_segment(disk, 2)
    disk.remove(segment(2))
    with pytest.raises(CorruptJournal, match="stampede journal salvage"):
        open_journal(disk)
    report, ids, journal = saved(disk)
    assert set(WHOLE) - set(ids) == gone - {2, 25} and gone
    assert any("0002.log: the segment is missing" in line for line in report.lost)
    [line] = [line for line in report.lost if "records" in line]
    assert line.startswith("slot 1: records ") and f"({len(gone)}: " in line and "of orders" in line
    assert not journal.recovered.clean
    assert max(m.data["next"] for m in journal.recovered.metas if m.kind == "ids") > 30 + 1_000_000
    journal.close(clean=True)


def test_a_folder_that_nothing_is_known_of_and_one_that_is_not_empty_are_refused(disk):
    with pytest.raises(JournalError, match="is not empty"):
        Builder(disk, FOLDER, settings())
    with pytest.raises(JournalError, match="no journal"):
        salvage(disk, "/data/nothing", NEW, settings())
    assert not disk.listdir(NEW)


@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_one_lost_large_body_loses_its_message_only(harm):
    disk = journal_with(SimDisk(0), large=b"L" * 9000)
    [path] = [name for name in disk.names if "/blobs/" in name]
    if harm == "missing":
        disk.remove(path)
    else:
        del disk.names[path].data[5000:]
    report, ids, journal = saved(disk)
    assert ids == WHOLE
    [line] = report.lost
    assert line.startswith("orders: message 31: ") and "large body" in line
    journal.close(clean=True)


@pytest.mark.parametrize("why", ["a newer release", "a checksum that is not installed"])
def test_what_is_intact_but_of_another_release_is_no_wreck(disk, monkeypatch, why):
    """Whatever the words are: read as damaged, every message of it would count as lost."""
    if why == "a newer release":
        header = disk.names[segment(2)].data
        changed = bytes(header[:8]) + b"\x02" + bytes(header[9 : f.SEGMENT.size - 4])
        header[: f.SEGMENT.size] = changed + f.zlib.crc32(changed).to_bytes(4, "little")
    else:
        monkeypatch.setattr(f, "PREFERRED", f.CRC32)
        monkeypatch.setattr(f, "CHECKSUMS", {f.CRC32: f.CHECKSUMS[f.CRC32]})
    parse = f.parse_segment_header

    def in_other_words(*args):
        try:
            return parse(*args)
        except CorruptJournal as error:
            raise type(error)("ask for help") from None

    monkeypatch.setattr(f, "parse_segment_header", in_other_words)
    with pytest.raises(UnknownFormat, match="ask for help"):
        salvage(disk, FOLDER, NEW, settings())


def test_large_bodies_come_along():
    disk = journal_with(SimDisk(0), large=b"L" * 9000)
    report, ids, journal = saved(disk)
    assert ids == [*WHOLE, 31] and report.lost == []
    [path] = [name for name in disk.names if name.startswith(f"{NEW}/blobs/")]
    assert bytes(disk.names[path].data)[:9000] == b"L" * 9000
    journal.close(clean=True)


def test_a_queue_of_which_only_messages_are_left_is_made_up_and_named():
    disk = SimDisk(0)
    journal = open_journal(disk)
    for record in (meta("queue", **QUEUE), sent(1, b"a", queues=(1, 2, 3)), sent(2, b"b")):
        journal.append(record)
        commit(journal)
    journal.close(clean=True)
    data = disk.names[segment(1)].data
    data[data.index(b"orders")] ^= 1
    report, ids, journal = saved(disk)
    assert ids == [1, 2] and live_ids(journal, queue=3) == [1]
    made = {m.data["id"]: m.data for m in journal.recovered.metas if m.kind == "queue"}
    assert {n: (q["name"], q["routing"]) for n, q in made.items()} == {
        1: ("salvaged-1-1", 2), 2: ("salvaged-1-2", 2), 3: ("salvaged-1-3", 2),
    }  # fmt: skip
    assert len(report.notes) == 3 and report.kept == {"salvaged-1-1": 2, "salvaged-1-2": 1, "salvaged-1-3": 1}
    journal.close(clean=True)


def test_a_transaction_counts_whole_or_not_at_all():
    disk = SimDisk(0)
    journal = open_journal(disk)
    put(journal, meta("queue", **QUEUE), sent(1, b"one"))
    put(journal, GroupRecord(1, [sent(2, b"two"), sent(3, b"three"), settled(1, 1)]), sent(4, b"four"))
    journal.close(clean=True)
    data = disk.names[segment(1)].data
    data[data.index(b"three")] ^= 1
    _, ids, journal = saved(disk)
    assert ids == [1, 4]
    journal.close(clean=True)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_damaged_the_new_folder_starts_and_the_rest_is_there(seed):
    """Bytes, blocks, cuts and files, one to three at a time."""
    from random import Random

    random = Random(seed)
    for _ in range(25):
        disk = journal_with(SimDisk(0), large=b"L" * 5000)
        names = sorted(name for name in disk.names if name.endswith(".log") or name.endswith("identity"))
        for _ in range(random.randint(1, 3)):
            name = random.choice(names)
            if name not in disk.names:
                continue
            data = disk.names[name].data
            harm = random.choice(["flip", "zero", "cut", "remove"])
            at = random.randrange(len(data) or 1)
            if harm == "flip" and data:
                data[at] ^= 1 << random.randrange(8)
            elif harm == "zero":
                data[at : at + 512] = bytes(len(data[at : at + 512]))
            elif harm == "cut":
                del data[at:]
            elif len([n for n in disk.names if n.endswith(".log")]) > 2:
                disk.remove(name)
        report, ids, journal = saved(disk)
        lost = {*WHOLE, 31} - set(ids)
        unknown = any("does not end with a clean close" in line for line in report.notes)
        assert not lost or report.lost or unknown, (seed, lost)
        assert set(ids) <= {*range(1, 32)} and ids == sorted(set(ids))
        journal.close(clean=True)
        assert verify(disk, NEW).ok


def test_what_repair_cannot_do_points_to_salvage(disk):
    with pytest.raises(JournalError, match="stampede journal salvage"):
        repair(disk, FOLDER, (99, 0))
    with pytest.raises(JournalError, match="stampede journal salvage"):
        repair(disk, FOLDER, (1, 64))


# ── dump --live and load ───────────────────────────────────────────────────────────────────────────


def rows_of(disk) -> list[dict]:
    rows: list[dict] = []
    report = Salvaged()
    with remains(disk, FOLDER, report) as (wreck, scan, live_index):
        carry(scan, wreck, live_index, disk, FOLDER, Transcript(rows.append), report)
    assert not report.lost
    return json.loads(json.dumps(rows))


def everything(journal) -> list[tuple]:
    found = []
    for record, gone in journal.recovered.runs():
        [run] = journal.read([record.run.position], 1 << 20)
        fields = (run.lines, run.flags, run.priority, run.expires, run.time, run.attempts, run.due)
        blob = run.blob and (run.blob.length, journal.blobs.read(run.blob.id, 0, 1 << 20))
        for i, body in zip(run.ids, run.records, strict=True):
            held = [q for q in record.queues if not any(a <= i <= b for a, b in gone.get(q, ()))]
            if held:
                found.append((record.slot, i, held, body, fields, blob, record.dispatched, record.address))
    return found
