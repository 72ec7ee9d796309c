"""A group of SENDs that is cut in two: no receipt is told before its own frame was processed."""

from __future__ import annotations

import pytest

from broker.wire.events import Head, Sends

HEAD = Head(b"destination:d\n\n", {}, 0, True)
RECORDS = [b"one\0", b"two!\0", b"3\0"]


def group(receipts: list[bytes] | None) -> Sends:
    return Sends(HEAD, list(RECORDS), receipts, sum(map(len, RECORDS)) + 3 * len(HEAD.lines))


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_both_parts_together_are_the_group(count):
    first, rest = group(None).cut(count)
    assert (first.records, rest.records) == (RECORDS[:count], RECORDS[count:])
    assert first.head is rest.head is HEAD
    for part in (first, rest):
        assert part.nbytes == sum(map(len, part.records)) + len(part.records) * len(HEAD.lines)
        assert part.receipts is None


def test_when_all_have_asked_each_is_told_with_its_own():
    first, rest = group([b"1", b"2", b"3"]).cut(2)
    assert (first.receipts, rest.receipts) == ([b"1", b"2"], [b"3"])


@pytest.mark.parametrize("receipts", [[b"1"], [b"1", b"2"]])
def test_when_some_have_asked_nobody_is_told_too_early(receipts):
    """Which ones it were nobody knows."""
    first, rest = group(receipts).cut(2)
    assert (first.receipts, rest.receipts) == (None, receipts)
