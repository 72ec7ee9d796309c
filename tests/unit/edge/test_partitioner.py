"""Which messages of a split address belong together: a group, or a duplicate id; the others take turns run by run."""

from __future__ import annotations

from broker.config.settings import EngineSettings
from broker.core.message import GROUPED, UNIQUE
from broker.edge.destinations.partitioner import by_slot, group_of, partitions_by_pattern, slot_for
from broker.edge.destinations.send_route import Split
from broker.wire.events import Head, Sends

SPLIT = Split((3, 5, 9))


def sends(lines: bytes, records: list[bytes], flags: int) -> Sends:
    return Sends(Head(lines, {}, flags, False), records, None, 0)


def test_a_group_is_read_from_header_lines_and_never_from_a_body():
    assert group_of(b"JMSXGroupID:g\n\nbody\0") == b"g"
    assert group_of(b"a:b\nJMSXGroupID:g\n") == b"g"
    assert group_of(b"a:b\n\nJMSXGroupID:body\n\0") is None
    assert group_of(b"\nJMSXGroupID:body\n\0") is None
    assert group_of(b"xJMSXGroupID:g\n\n\0") is None
    assert group_of(b"_AMQ_DUPL_ID:d\nJMSXGroupID:g\n\n\0") == b"g", "the group decides; the id goes where it goes"
    assert group_of(b"_AMQ_DUPL_ID:d\n\n\0") == b"d"


def test_messages_of_a_group_go_to_one_slot_from_any_edge():
    for flags in (GROUPED, GROUPED | UNIQUE):
        where = {slot_for(Head(b"JMSXGroupID:g\n", {}, flags, False), b"\n\0", SPLIT) for _ in range(9)}
        assert where == {Split((3, 5, 9)).of(b"g")}
    plain = Head(b"", {}, 0, False)
    assert {slot_for(plain, b"JMSXGroupID:g\n\n\0", SPLIT) for _ in range(9)} == {3, 5, 9}, "no flag: nobody looks"


def test_a_run_of_messages_without_group_stays_whole():
    records = [b"\n1\0", b"\n2\0"]
    assert by_slot(sends(b"a:b\n", records, 0), SPLIT) == [(None, records)]
    assert by_slot(sends(b"a:b\n", records, GROUPED), SPLIT) == [(None, records)]
    assert by_slot(sends(b"JMSXGroupID:g\n", records, GROUPED), SPLIT) == [(SPLIT.of(b"g"), records)]


def test_messages_that_differ_are_parted_in_order():
    records = [b"JMSXGroupID:%b\n\n%d\0" % (group, n) for n, group in enumerate([b"a", b"b", b"a"])] + [b"\n3\0"]
    parts = dict(by_slot(sends(b"", records, GROUPED), SPLIT))
    assert sum(map(len, parts.values())) == 4 and parts[None] == [b"\n3\0"]
    ours = [record for record in parts[SPLIT.of(b"a")] if b":a\n" in record]
    assert ours == [records[0], records[2]]


def test_what_decides_on_partitions_is_told_by_pattern():
    engine = EngineSettings(addresses={"a.#": {"partitions": 3}, "b": {"max_delivery_attempts": 1}})
    assert partitions_by_pattern(engine) == {"": 1, "a.#": 3, "b": None}
