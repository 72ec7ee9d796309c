"""The batches of one segment: what is handed out checks, and the end is where the zeroes begin."""

from __future__ import annotations

import pytest

from broker.core.errors import CorruptJournal
from broker.journal.log import format as f
from broker.journal.log.store import segment_name
from broker.journal.log.walk import walk

from .support import FOLDER, open_journal, put, sent


@pytest.fixture
def journal():
    """Three batches, in segment 1."""
    journal = open_journal()
    for first in (1, 11, 21):
        put(journal, sent(first, b"one", b"two"))
    return journal


def batches(journal, **more) -> list[tuple[int, bytes]]:
    return list(walk(journal._store, 1, **more))


def data(journal) -> bytearray:
    return journal._store.files.names[f"{FOLDER}/{segment_name(1)}"].data


def test_every_batch_comes_once_in_the_order_of_the_log(journal):
    found = batches(journal)
    assert [at for at, _ in found] == sorted({at for at, _ in found})
    runs = [f.read_run(records, at, flags, slot, True).run.ids[0]
            for _, records in found
            for at, _, kind, flags, slot, _, _ in f.records_in(records, 0, len(records)) if kind == f.RUN]  # fmt: skip
    assert runs == [1, 11, 21]
    for at, records in found:
        assert bytes(data(journal)[at : at + len(records)]) == records


def test_it_ends_before_the_batch_that_it_is_told(journal):
    found = batches(journal)
    last = found[-1][0] - f.BATCH.size
    assert batches(journal, end=last) == found[:-1]
    assert batches(journal, end=last + 1) == found


@pytest.mark.parametrize("where", range(f.BATCH.size))
def test_a_header_with_a_flipped_bit_is_named(journal, where):
    at = batches(journal)[1][0] - f.BATCH.size
    data(journal)[at + where] ^= 1
    with pytest.raises(CorruptJournal, match=f"damaged batch header at offset {at}"):
        batches(journal)


def test_records_are_looked_at_unless_the_caller_does(journal):
    found = batches(journal)
    at = found[1][0]
    data(journal)[at + f.RECORD.size + 5] ^= 1
    with pytest.raises(CorruptJournal, match=f"damaged batch at offset {at - f.BATCH.size}"):
        batches(journal)
    assert [start for start, _ in batches(journal, checked=False)] == [start for start, _ in found]


def test_a_batch_of_another_segment_is_no_part_of_this_one(journal):
    names = journal._store.files.names
    names[f"{FOLDER}/{segment_name(2)}"] = names[f"{FOLDER}/{segment_name(1)}"]
    journal._store.algorithms[2] = journal._store.algorithms[1]
    with pytest.raises(CorruptJournal, match="damaged batch header"):
        list(walk(journal._store, 2))
