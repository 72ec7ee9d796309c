"""The batches of one segment that is in use, one at a time.

Rule: what is handed out has a header that checks, and (if wanted) records that check. Must not know what
records mean. Memory: one batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.core.errors import CorruptJournal

from . import format as f
from .store import Store, read_all, segment_name


def walk(store: Store, number: int, end: int = 0, checked: bool = True) -> Iterator[tuple[int, bytes]]:
    """(offset of its records, the records) of every batch that begins before `end` (0: of all).

    `checked`: False leaves the records' checksums to the caller. Raises CorruptJournal."""
    name = segment_name(number)
    seed = f.seed_of(store.disk_id)
    checksum = f.CHECKSUMS[store.algorithms[number]]
    offset = f.SEGMENT_BYTES
    while not end or offset < end:
        head = _read(store, number, f.BATCH.size, offset)
        # Zeroes: the log ends here.
        if head.count(0) == len(head):
            return
        _, batch, segment, length, count, _ = f.BATCH.unpack(head)
        # Made anew and compared: every field, the checksum, and that it is of this disk and this segment.
        if f.batch_header(batch, segment, length, count, seed) != head or segment != number:
            raise CorruptJournal(f"{name}: damaged batch header at offset {offset}; {f.ADVICE}")
        start = offset + f.BATCH.size
        records = _read(store, number, length, start)
        if length != len(records) or (checked and f.bad_record(records, 0, length, count, checksum) >= 0):
            raise CorruptJournal(f"{name}: damaged batch at offset {offset}; {f.ADVICE}")
        yield start, records
        offset = start + length


def _read(store: Store, number: int, n: int, offset: int) -> bytes:
    with store.pinned(number) as file, store.guard("read the journal"):
        return read_all(file, n, offset)
