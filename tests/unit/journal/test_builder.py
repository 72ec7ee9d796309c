"""A new journal folder from what lives elsewhere: an ordinary one, in a folder that held nothing."""

from __future__ import annotations

import pytest

from broker.core.errors import JournalError
from broker.core.message import BLOB, DURABLE, Blob
from broker.journal.journal import Journal
from broker.journal.tools import builder
from broker.journal.tools.builder import Builder
from tests.sim.disk import SimDisk

from .support import FOLDER, meta, open_journal, sent, settings


def opened(disk: SimDisk) -> Journal:
    return Journal.open(disk, FOLDER, settings())


def test_an_ordinary_broker_starts_from_it():
    disk = SimDisk(0)
    made = Builder(disk, FOLDER, settings())
    made.body(0x2A, [b"large ", b"body"])
    assert made.has_body(0x2A) and not made.has_body(0x2B)
    made.run(sent(1, b"one", b"two"))
    made.run(sent(3, b"\0", flags=DURABLE | BLOB, blob=Blob(0x2A, 10)))
    made.finish([meta("queue", id=1, name="q")], clean=True)
    disk.crash()
    journal = opened(disk)
    assert journal.recovered.clean and journal.blobs.read(0x2A, 0, 10) == b"large body"
    found = [i for record, _ in journal.recovered.runs() for i in record.run.ids]
    assert found == [1, 2, 3] and [one.data["name"] for one in journal.recovered.metas if one.kind == "queue"] == ["q"]


def test_what_may_have_been_delivered_is_not_told_as_clean():
    disk = SimDisk(0)
    made = Builder(disk, FOLDER, settings())
    made.run(sent(1, b"one"))
    made.finish([], clean=False)
    assert not opened(disk).recovered.clean


def test_a_folder_that_holds_anything_is_refused():
    disk = SimDisk(0)
    open_journal(disk).close(clean=True)
    with pytest.raises(JournalError, match="not empty"):
        Builder(disk, FOLDER, settings())


def test_memory_does_not_grow_with_what_is_built(monkeypatch):
    monkeypatch.setattr(builder, "_COMMIT", 1000)
    disk = SimDisk(0)
    made = Builder(disk, FOLDER, settings())
    most = 0
    for first in range(1, 400, 2):
        made.run(sent(first, b"x" * 50, b"y" * 50))
        most = max(most, made._journal.inflight_bytes)
    assert 500 < most < 2000
    made.finish([], clean=True)
    assert sum(len(record.run.ids) for record, _ in opened(disk).recovered.runs()) == 400


def test_an_abandoned_one_can_be_told_from_a_whole_one():
    disk = SimDisk(0)
    made = Builder(disk, FOLDER, settings())
    made.run(sent(1, b"one"))
    made.abandon()
    assert not opened(disk).recovered.clean
