"""Large bodies carry checksums: rotten bytes are never returned, and old files without checksums still are."""

from __future__ import annotations

from random import Random

import pytest

from broker.core.errors import CorruptJournal
from broker.core.message import BLOB, DURABLE, Blob, Run
from broker.core.records import RunRecord
from broker.journal.bodies.bodies import FOOTER, PIECE
from broker.journal.tools.inspect import verify
from tests.sim.disk import SimDisk
from tests.unit.journal.support import FOLDER, commit, open_journal

SIZE = 2 * PIECE + 777


def stored(disk, *sizes: int) -> tuple[Blob, bytes, str]:
    """A body of SIZE bytes that came in parts of these sizes, its bytes and its file."""
    data = Random(1).randbytes(SIZE)
    journal = open_journal(disk)
    writer = journal.blobs.create()
    at, turn = 0, 0
    while at < SIZE:
        n = sizes[turn % len(sizes)]
        writer.write(data[at : at + n])
        at, turn = at + n, turn + 1
    blob = writer.finish(sync=True)
    run = Run(range(1, 2), b"", [b"\n"], 2 + blob.length, DURABLE | BLOB, blob=blob)
    journal.append(RunRecord(1, "a", [1], run))
    commit(journal)
    path = journal.blobs.path(blob.id)
    journal.close(clean=True)
    return blob, data, path


def whole(journal, blob: Blob) -> bytes:
    """As FileBodyReader reads it."""
    body = journal.blobs.open(blob.id, blob.length)
    try:
        at = 0
        while at < blob.length:
            at = body.check(at)
        return b"".join(body.read(at, PIECE) for at in range(0, blob.length, PIECE)) + body.read(blob.length, 10)
    finally:
        body.close()


@pytest.mark.parametrize("sizes", [(SIZE,), (PIECE,), (1000, 70_001), (PIECE - 1, 2), (PIECE + 1,)])
def test_what_was_written_in_any_parts_checks(sizes):
    disk = SimDisk(0)
    blob, data, path = stored(disk, *sizes)
    assert blob.length == SIZE and len(disk.names[path].data) == SIZE + 3 * 4 + FOOTER.size
    assert verify(disk, FOLDER).ok
    journal = open_journal(disk)
    assert whole(journal, blob) == data and journal.blobs.length(blob.id) == SIZE
    assert journal.blobs.read(blob.id, SIZE - 5, 100) == data[-5:]
    journal.close(clean=True)


def test_every_flipped_byte_and_every_cut_is_found_but_one():
    """A file cut exactly where its checksums begin looks like one of an older release."""
    disk = SimDisk(0)
    blob, data, path = stored(disk, PIECE)
    image = bytes(disk.names[path].data)
    random = Random(2)
    places = [*random.sample(range(SIZE), 8), *range(SIZE, len(image), 3)]
    for at in places:
        disk.names[path].data[:] = image
        disk.names[path].data[at] ^= 4
        report = verify(disk, FOLDER)
        assert not report.ok and any("large body" in line for line in report.lines), at
    for at in (0, 1, PIECE, SIZE - 1, SIZE + 1, len(image) - 1):
        disk.names[path].data[:] = image[:at]
        assert not verify(disk, FOLDER).ok, at
    disk.names[path].data[:] = image[:SIZE]
    assert verify(disk, FOLDER).ok
    journal = open_journal(disk)
    assert whole(journal, blob) == data
    journal.close(clean=True)


def test_a_damaged_piece_is_not_returned_its_neighbours_are():
    disk = SimDisk(0)
    blob, data, path = stored(disk, PIECE)
    disk.names[path].data[PIECE + 5] ^= 1
    journal = open_journal(disk)
    body = journal.blobs.open(blob.id, blob.length)
    assert body.read(0, PIECE) == data[:PIECE]
    with pytest.raises(CorruptJournal, match=f"{path}: damaged between offsets {PIECE} and {2 * PIECE}"):
        body.read(PIECE, PIECE)
    with pytest.raises(CorruptJournal):
        body.check(0)
    body.close()
    journal.close(clean=True)
