"""Plain runs are read back together at a start: it must come to the same as one by one."""

from __future__ import annotations

from random import Random

import pytest

from broker.config.settings import EngineSettings
from broker.core.message import BLOB, DURABLE, GROUPED, Blob
from broker.core.records import MetaRecord, RunRecord, SettleRecord, Stretch
from broker.engine.engine import Engine
from broker.engine.state.budget import Budget
from broker.journal.journal import Journal
from broker.journal.recovery import recovery
from broker.journal.recovery.recovery import Recovered
from tests.sim.disk import SimDisk
from tests.unit.journal.support import FOLDER, commit, maintain, open_journal, run_of, settings

SLOTS, QUEUES = 2, 3


def queue_made(slot, number):
    return MetaRecord(slot, "queue", {
        "id": number, "name": f"q{number}", "address": f"a{slot}{number}", "routing": 1, "auto": False,
        "subscription": False, "selector": None,
    })  # fmt: skip


def small():
    return [queue_made(slot, q) for slot in range(SLOTS) for q in range(1, QUEUES + 1)]


def record(random, slot, first):
    """Any kind of run."""
    bodies = [b"x" * random.randrange(60) for _ in range(random.choice((1, 1, 1, 2, 5)))]
    run = run_of(first, *bodies, flags=DURABLE | random.choice((0, 0, 0, GROUPED)))
    run.expires = random.choice((0, 0, 0, 500 + random.randrange(100)))
    run.time = first
    run.due = 9000 if random.random() < 0.05 else 0
    if random.random() < 0.1:
        run.ids = [first, *range(first + 2, first + 1 + len(bodies))]
    if random.random() < 0.03:
        run.flags |= BLOB
        run.blob = Blob(first, 10)
    queues = [random.randrange(1, QUEUES + 1)] if random.random() < 0.85 else [1, 2]
    dedup = (7, first) if random.random() < 0.2 else None
    return RunRecord(slot, f"a{slot}", queues, run, random.random() < 0.05, dedup)


def written(seed, steps=120):
    """A journal after some history, compaction included."""
    random = Random(seed)
    disk = SimDisk(seed)
    journal = open_journal(disk)
    following = [1] * SLOTS
    for at in [*small(), MetaRecord(1, "count", {"queue": 1, "attempts": 2, "spans": [[1, 40]]})]:
        journal.append(at)
    for _ in range(steps):
        slot = random.randrange(SLOTS)
        for _ in range(random.randrange(1, 8)):
            made = record(random, slot, following[slot])
            following[slot] = made.run.ids[-1] + 1
            journal.append(made)
            if journal.wants_snapshot:
                journal.append_snapshot(small())
        if random.random() < 0.5:
            first = random.randrange(1, following[slot])
            journal.append(SettleRecord(slot, random.randrange(1, QUEUES + 1), [(first, first + random.randrange(30))]))
        commit(journal)
        if random.random() < 0.2:
            maintain(journal)
    journal.close(clean=False)
    return disk


def opened(disk):
    return Journal.open(disk, FOLDER, settings(), alone=True)


def flat(found):
    """What is known of each run, by slot and queue."""
    by_queue: dict[tuple[int, int], list[tuple[object, ...]]] = {}
    for one in found:
        if isinstance(one, Stretch):
            for position, first, count, nbytes, expires, time, flags in one.rows:
                row = (position, list(range(first, first + count)), nbytes, expires, time, flags, {})
                by_queue.setdefault((one.slot, one.queue), []).append(row)
        else:
            record, settled = one
            run = record.run
            for queue in record.queues:
                row = (run.position, list(run.ids), run.nbytes, run.expires, run.time, run.flags, settled)
                by_queue.setdefault((record.slot, queue), []).append(row)
    return by_queue


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("most", [1, 5, 512])
def test_stretches_say_what_runs_say(seed, most, monkeypatch):
    monkeypatch.setattr(recovery, "_GATHER", most)
    disk = written(seed)
    one = opened(disk)
    single = flat(one.recovered.runs())
    one.close(clean=False)
    other = opened(disk)
    together = list(other.recovered.stretches())
    assert flat(together) == single
    kinds = [type(found) for found in together]
    assert Stretch in kinds and tuple in kinds


def restored(disk, together):
    journal = opened(disk)
    engines = [Engine(slot, EngineSettings(), Budget(1000), 0) for slot in range(SLOTS)]
    for meta in journal.recovered.metas:
        engines[meta.slot].restore_meta(meta)
    found = journal.recovered.stretches() if together else journal.recovered.runs()
    for one in found:
        if isinstance(one, Stretch):
            engines[one.slot].restore_stretch(one.queue, one.rows)
        else:
            engines[one[0].slot].restore_run(*one)
    state = [look(engine._restore, queue) for engine in engines for queue in engine.queues()]
    journal.close(clean=False)
    return state


def look(restore, queue):
    """All that a restart knows of a queue."""
    table = queue.pages.table
    return (
        queue.name, list(queue.pages.index), queue.pages.count, queue.pages.nbytes, queue.pages.paging,
        queue.pages.stale, queue.restart.grouped, queue.last, queue.restart.restored,
        table and (list(table._firsts), list(table._lengths), table._sparse),
        restore.counted.get(queue.id), restore.dispatched.get(queue.id), restore.times.get(queue.id),
        restore.late.get(queue.id), queue.restart.settled, queue.agenda and queue.agenda.count,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_an_engine_comes_to_the_same_by_either(seed):
    disk = written(seed)
    assert restored(disk, together=True) == restored(disk, together=False)


def test_few_go_one_by_one(monkeypatch):
    """A count of steps: a thousand plain runs in ten queues, one after the other, are a handful of stretches."""
    disk = SimDisk(0)
    journal = Journal.open(disk, FOLDER, settings(segment_bytes=1 << 20))
    for i in range(1, 1001):
        journal.append(RunRecord(1, "a", [i % 10 + 1], run_of(i, b"x")))
    commit(journal)
    journal.close(clean=True)
    found = list(Journal.open(disk, FOLDER, settings()).recovered.stretches())
    assert all(isinstance(one, Stretch) for one in found) and len(found) <= 20


def test_nothing_is_gathered_for_those_who_want_runs():
    assert not any(isinstance(one, Stretch) for one in Recovered.runs(opened(written(3)).recovered))
