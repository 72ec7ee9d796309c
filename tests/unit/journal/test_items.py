"""Items as they travel: what passes could have been written here; everything else is named and changes nothing."""

from __future__ import annotations

import pytest

from broker.core.errors import BadItem, NewerRelease
from broker.core.message import TRANSIENT
from broker.core.records import GroupRecord, SettleRecord
from broker.journal.log import format as f
from broker.journal.log.items import lsns_of, parse_item, parse_seed
from tests.unit.journal.nodes import Node, content, record
from tests.unit.journal.support import (
    FOLDER,
    maintain,
    meta,
    sent,
    settled,
)


def test_items_are_the_bytes_of_the_log():
    a, b = Node(1).lead(), Node(2)
    items = a.put(sent(1, b"one"), GroupRecord(1, [sent(2, b"two"), settled(1, 1)]))
    b.follow(items)
    for node in (a, b):
        log = bytes(node.disk.names[f"{FOLDER}/{1:016x}.log"].data)
        assert all(data in log for _, _, data in items)
    assert [(slot, lsn) for slot, lsn, _ in items] == [(1, 1), (1, 3)]


def test_what_is_a_replicas_own_affair_is_no_item():
    a = Node(1, compact_below=0.6).lead()
    assert [lsn for _, lsn, _ in a.put(sent(1, b"page", flags=TRANSIENT), sent(2, b"x"))] == [1]
    paged = GroupRecord(1, [sent(3, b"page", flags=TRANSIENT), sent(4, b"y"), SettleRecord(1, 1, [(1, 1)], False)])
    items = a.put(paged)
    assert [lsn for _, lsn, _ in items] == [2]
    assert [member.run.ids for member in Node(2).follow([*a.journal.tail(1, 0)])] == [range(2, 3), range(4, 5)]
    a.put(*[sent(i, b"z" * 700) for i in range(5, 30)], *[settled(i, i) for i in range(6, 30, 2)])
    last = a.journal.last(1)
    maintain(a.journal)  # copies, settles taken along, snapshots
    assert a.journal.last(1) == last
    assert all(item[1] <= last[1] for item in a.journal.tail(1, 2))


def test_an_item_that_does_not_follow_changes_nothing():
    a, b = Node(1).lead(), Node(2)
    one, two, three = a.put(sent(1, b"one"), GroupRecord(1, [sent(2, b"two"), settled(1, 1)]), sent(3, b"three"))
    b.follow([one])
    for data, why in [
        (three[2], "item 4 where 2 is due"),
        (one[2], "item 1 where 2 is due"),
        (two[2][:-1], "does not check"),
        (two[2][:40] + b"!" + two[2][41:], "does not check"),
        (b"", "does not check"),
        (record(f.RUN, 1, 2, 1, [b"short"]), "cannot be read"),
        (record(f.META, 1, 2, 1, [b"no json"]), "cannot be read"),
        (record(f.SETTLE, 1, 2, 1, [b"123"]), "cannot be read"),
        (record(f.SETTLE, 1, 0, 1, f.settle_payload(SettleRecord(1, 1, [(1, 1)]))[1]), "is no item"),
        (record(f.SETTLE, 2, 2, 1, f.settle_payload(SettleRecord(1, 1, [(1, 1)]))[1]), "is no item"),
        (record(f.SEGMENTS, 1, 2, 1, []), "is no item"),
        (record(f.GROUP, 1, 0, 0, [b"\0" * 10]), "cannot be read"),
        (record(f.GROUP, 1, 0, 0, []), "cannot be read|belong together"),
        (record(f.META, 1, 2, 1, [], flags=f.SNAPSHOT_BEGIN), "cannot be read"),
    ]:
        with pytest.raises(BadItem, match=why):
            b.journal.append_item(1, data)
    with pytest.raises(BadItem, match="no slot 256"):
        b.journal.append_item(256, two[2])
    with pytest.raises(BadItem, match="algorithm 9"):
        b.journal.append_item(1, two[2], 9)
    assert b.journal.last(1) == (1, 1)
    b.follow([two, three])
    assert content(a.journal) == content(b.journal)


def item(
    kind: int = f.RUN, slot: int = 1, lsn: int = 7, flags: int = 0, member=None, algorithm: int = f.PREFERRED
) -> bytes:
    """A record as it travels."""
    checksum = f.CHECKSUMS[f.PREFERRED]
    if kind == f.RUN:
        own, payload = f.run_payload(member or sent(1, b"one", b"two", slot=slot))
        return b"".join(f.record(kind, flags | own, slot, 3, lsn, payload, checksum))
    return b"".join(f.small(member, 3, lsn, checksum))


def test_what_was_written_is_read_as_it_was():
    parsed = parse_item(1, item(), f.PREFERRED)
    assert (parsed.epoch, parsed.first, parsed.last) == (3, 7, 7)
    [(record, at, size)] = parsed.members
    assert record.run.ids == range(1, 3) and at == 0 and size == len(item()) - f.RECORD.size


@pytest.mark.parametrize("at", [0, 5, f.RECORD.size - 1, f.RECORD.size, -1])
def test_a_flipped_bit_is_named(at):
    data = bytearray(item())
    data[at] ^= 1
    with pytest.raises(BadItem):
        parse_item(1, bytes(data), f.PREFERRED)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (item(slot=2), "slot 2"),
        (item(lsn=0), "lsn 0 is no item"),
        (item(flags=f.COPY), "is no item"),
        (item() + item(lsn=9), "slot 1"),
        (b"", "slot 1"),
        (item(member=sent(1, b"x", flags=TRANSIENT)), "no message that lasts"),
    ],
)
def test_what_this_log_could_not_have_written_next_is_no_item(data, text):
    with pytest.raises(BadItem, match=text):
        parse_item(1, data, f.PREFERRED)


def test_an_algorithm_that_is_not_there_is_named():
    with pytest.raises(BadItem, match="checksum algorithm 99"):
        parse_item(1, item(), 99)


def test_state_that_this_release_does_not_know_is_not_passed_over():
    with pytest.raises(NewerRelease, match="'cord'"):
        parse_item(1, item(f.META, member=meta("cord")), f.PREFERRED)


def test_a_part_of_a_copy_has_no_number_and_an_item_has():
    [(record, _, _)] = parse_seed(1, item(lsn=0), f.PREFERRED).members
    assert record.run.ids == range(1, 3)
    for data in (item(lsn=7), item(slot=2, lsn=0), item(f.SETTLE, lsn=0, member=settled(1, 1))):
        with pytest.raises(BadItem, match="no part of a copy"):
            parse_seed(1, data, f.PREFERRED)


def group(*members: bytes) -> bytes:
    return b"".join(f.record(f.GROUP, 0, 1, 0, 0, list(members), f.CHECKSUMS[f.PREFERRED]))


def test_a_group_is_one_item_whose_members_follow_one_another():
    parsed = parse_item(1, group(item(lsn=7), item(f.SETTLE, lsn=8, member=settled(1, 1))), f.PREFERRED)
    assert (parsed.epoch, parsed.first, parsed.last, len(parsed.members)) == (3, 7, 8, 2)
    for members in ((item(lsn=7), item(lsn=9)), (item(lsn=7), item(lsn=8, flags=f.COPY)), (item(lsn=7), item(slot=2))):
        with pytest.raises(BadItem):
            parse_item(1, group(*members), f.PREFERRED)


def test_which_numbers_a_record_of_the_log_stands_for():
    def numbers(data: bytes):
        _, size, kind, _, slot, _, lsn = f.RECORD.unpack_from(data)
        return lsns_of(data, f.RECORD.size, size, kind, slot, lsn)

    assert numbers(item(lsn=7)) == (1, 7, 7) and numbers(item(lsn=0)) is None
    assert numbers(group(item(lsn=7), item(lsn=8))) == (1, 7, 8)
    assert numbers(group(item(lsn=7), item(slot=2, lsn=1))) is None, "written where nobody follows"
