"""Short ways to say things in the journal's tests."""

from __future__ import annotations

from broker.config.settings import JournalSettings
from broker.core.message import DURABLE, Run
from broker.core.records import MetaRecord, RunRecord, SettleRecord
from broker.journal.journal import Journal
from tests.sim.disk import SimDisk

FOLDER = "/data/journal"


def settings(**changes):
    return JournalSettings(**{"segment_bytes": 4096, "min_free_bytes": 0} | changes)


def open_journal(disk=None, **changes):
    return Journal.open(disk or SimDisk(0), FOLDER, settings(**changes))


def run_of(first, *bodies, lines=b"", flags=DURABLE, **more):
    records = [b"\n" + body + b"\0" for body in bodies]
    nbytes = sum(map(len, records)) + len(records) * len(lines)
    return Run(range(first, first + len(records)), lines, records, nbytes, flags, **more)


def sent(first, *bodies, slot=1, queues=(1,), **more):
    return RunRecord(slot, "address", list(queues), run_of(first, *bodies, **more))


def settled(first, last, slot=1, queue=1):
    return SettleRecord(slot, queue, [(first, last)])


def commit(journal):
    batch = journal.seal()
    if batch is not None:
        journal.write(batch)
        journal.committed(batch)
        clear(journal)


def clear(journal):
    """All that may go."""
    while journal.wants_clear and (gone := journal.clear()) is not None:
        journal.cleared(gone)


def put(journal, *records):
    """Appends (and gives snapshots of nothing when asked), then commits."""
    for record in records:
        journal.append(record)
        snapshot(journal)
    commit(journal)


def snapshot(journal, *metas):
    if journal.wants_snapshot:
        journal.append_snapshot(metas)


def maintain(journal):
    """Until there is nothing more to do."""
    for _ in range(1000):
        more = journal.maintain()
        snapshot(journal)
        batch = journal.seal()
        if batch is not None:
            journal.write(batch)
            journal.committed(batch)
            clear(journal)
        elif not more:
            return
    raise AssertionError("maintain() never comes to rest")


def meta(kind, slot=1, **data):
    return MetaRecord(slot, kind, data)


def live_ids(journal, slot=1, queue=1):
    """What recovery says is in a queue."""
    ids = []
    for record, gone in journal.recovered.runs():
        if record.slot == slot and queue in record.queues:
            ids += [i for i in record.run.ids if not any(a <= i <= b for a, b in gone.get(queue, []))]
    return ids
