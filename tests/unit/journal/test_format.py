"""Encodings: what goes in comes out, what is damaged is seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.message import Blob, Run
from broker.core.records import RunRecord, SettleRecord
from broker.journal.log import format as f

U64 = st.integers(0, (1 << 64) - 1)
U32 = st.integers(0, (1 << 32) - 1)
IDS = st.lists(st.integers(1, 1 << 60), min_size=1, max_size=5, unique=True).map(sorted)


@given(
    ids=IDS | st.builds(lambda a, n: range(a, a + n), st.integers(1, 1 << 60), st.integers(1, 5)),
    lines=st.binary(max_size=40),
    body=st.binary(max_size=40),
    queues=st.lists(U64, min_size=1, max_size=3),
    numbers=st.tuples(U64, U64, U32, U64),
    small=st.tuples(st.integers(0, 9), st.integers(0, 255)),
    blob=st.none() | st.builds(Blob, U64, U64),
    dedup=st.none() | st.tuples(U64, U64),
    dispatched=st.booleans(),
    address=st.text(max_size=10),
)
def test_runs_come_back_as_they_were(ids, lines, body, queues, numbers, small, blob, dedup, dispatched, address):
    records = [body * (i % 3) + b"\0" for i in range(len(ids))]
    nbytes = sum(map(len, records)) + len(ids) * len(lines)
    run = Run(ids, lines, records, nbytes, small[1], small[0], numbers[0], numbers[1], numbers[2], 0, blob,
              numbers[3])  # fmt: skip
    checksum = f.CHECKSUMS[f.PREFERRED]
    flags, payload = f.run_payload(RunRecord(3, address, queues, run, dispatched, dedup))
    data = b"xx" + b"".join(f.record(f.RUN, flags, 3, 1, 9, payload, checksum)) + b"yy"
    assert f.bad_record(data, 2, len(data) - 2, 1, checksum) == -1
    [(at, _, kind, flags, slot, epoch, lsn)] = f.records_in(data, 2, len(data) - 2)
    assert (kind, slot, epoch, lsn) == (f.RUN, 3, 1, 9)
    back = f.read_run(data, at, flags, slot)
    same = ("lines", "records", "nbytes", "flags", "priority", "expires", "time", "attempts", "due")
    assert [getattr(back.run, name) for name in same] == [getattr(run, name) for name in same]
    assert list(back.run.ids) == list(ids)
    assert (back.address, back.queues, back.dispatched, back.dedup) == (address, queues, dispatched, dedup)
    assert repr(back.run.blob) == repr(blob)
    brief = f.read_run(data, at, flags, slot, bodies=False)
    assert (list(brief.run.ids), brief.run.nbytes, brief.run.records) == (list(ids), nbytes, [])


@pytest.mark.parametrize("algorithm", list(f.CHECKSUMS))
def test_every_flipped_bit_of_a_record_is_seen(algorithm):
    checksum = f.CHECKSUMS[algorithm]
    data = b"".join(f.record(f.SETTLE, 0, 1, 1, 5, f.settle_payload(SettleRecord(1, 7, [(1, 9)]))[1], checksum))
    assert f.bad_record(data, 0, len(data), 1, checksum) == -1
    for bit in range(len(data) * 8):
        bad = bytearray(data)
        bad[bit // 8] ^= 1 << bit % 8
        assert f.bad_record(bytes(bad), 0, len(bad), 1, checksum) == 0


def test_a_record_count_that_does_not_fit_is_seen():
    checksum = f.CHECKSUMS[f.PREFERRED]
    one = b"".join(f.record(f.CLEAN, 0, 0, 0, 0, [], checksum))
    assert f.bad_record(one * 2, 0, 2 * len(one), 2, checksum) == -1
    assert f.bad_record(one * 2, 0, 2 * len(one), 1, checksum) == len(one)
    assert f.bad_record(one * 2, 0, 2 * len(one), 3, checksum) == 2 * len(one)


@pytest.mark.parametrize("used", [0, 1, 65535, 65536, 65537, 131072, 200000])
@pytest.mark.parametrize("zeroes", [0, 1, 65536, 140000])
def test_used_bytes(used, zeroes):
    assert f.used_bytes(b"x" * used + bytes(zeroes)) == used


def test_the_checksum_is_crc32c():
    assert f.CHECKSUMS[f.CRC32C](b"123456789") == 0xE3069283
    assert f.CHECKSUMS[f.CRC32](b"123456789") == 0xCBF43926
