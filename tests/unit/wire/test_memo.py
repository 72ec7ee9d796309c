"""Header blocks that come again are remembered, so many of them; those that never do cost nothing."""

from __future__ import annotations

from broker.wire.events import Head
from broker.wire.memo import SEEN_FACTOR, Known, Memo, Table
from broker.wire.versions import Version


def test_a_block_is_worth_keeping_when_it_comes_again():
    table = Table(4)
    assert not table.again(1) and table.again(1) and table.again(1)


def test_it_never_holds_more_than_its_entries():
    table = Table(4)
    head = object.__new__(Head)
    for n in range(50):
        table.again(n)
        assert len(table._seen) <= 4 * SEEN_FACTOR
        assert table.again(n)
        (table.whole if n % 2 else table.cut)[b"%d" % n] = Known(head, n) if n % 2 else head
        assert len(table.whole) + len(table.cut) <= 4


def test_each_version_has_its_own():
    memo = Memo(4)
    memo.table(Version.V12).again(7)
    assert not memo.table(Version.V11).again(7) and memo.table(Version.V12).again(7)
