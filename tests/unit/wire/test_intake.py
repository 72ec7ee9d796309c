"""One read on its way: like frames are one event, in the order of the frames, and no octet is searched twice."""

from __future__ import annotations

import pytest

from broker.wire.events import Acks, Frame, Head, Sends
from broker.wire.intake import ALIKE_AS_ONE, LINES_AS_ONE, LINES_AT_ONCE, Intake

from .cutting import COMPILED


class CountingBytes(bytes):
    """Counts the octets that find() looks at."""

    looked = 0

    def find(self, sub, start=0, end=None):
        stop = len(self) if end is None else min(end, len(self))
        at = super().find(sub, start, stop)
        CountingBytes.looked += (at if at >= 0 else stop) - start
        return at


@pytest.mark.parametrize("kind", [b"\n", b"\r\n"])
def test_search_for_empty_lines_is_linear(kind):
    """Many frames of one kind of line end behind which the other kind never comes."""
    frame = kind.join([b"BEGIN", b"transaction:1", b"", b"\0"])
    data = CountingBytes(frame * 2000)
    CountingBytes.looked = 0
    intake = Intake(data, True, 0)
    at = 0
    for _ in range(2000):
        at = intake.blank(at)
    assert CountingBytes.looked <= 3 * len(data)


def shown(intake: Intake) -> list[tuple]:
    intake.flush()
    return [
        (event.head.lines, event.records, event.receipts, event.nbytes)
        if isinstance(event, Sends)
        else (event.ids, event.subscriptions, event.receipts)
        if isinstance(event, Acks)
        else event
        for event in intake.out
    ]


A, B = Head(b"a", {}, 0, True), Head(b"bb", {}, 0, True)


def test_frames_of_one_head_gather_and_keep_their_order_among_others():
    intake, other = Intake(b"", False, 0), Frame("BEGIN", {}, b"", None)
    assert intake.add(A, 0, b"1\0", b"r1") is False
    assert intake.add(A, 0, b"2\0", None) is True
    intake.acks([b"x"], None, [])
    intake.acks([b"y"], None, [b"r2"])
    assert intake.add(A, 0, b"3\0", None) is False, "ACKs stand between"
    intake.event(other)
    intake.extend(B, 0, [b"4\0", b"5\0"], [], 0)
    intake.extend(B, 0, [b"6\0"], [b"r3"], 0)
    assert shown(intake) == [
        (b"a", [b"1\0", b"2\0"], [b"r1"], 6),
        ([b"x", b"y"], None, [b"r2"]),
        (b"a", [b"3\0"], None, 3),
        other,
        (b"bb", [b"4\0", b"5\0", b"6\0"], [b"r3"], 12),
    ]


def test_a_group_of_acks_names_subscriptions_everywhere_or_nowhere():
    intake = Intake(b"", False, 0)
    intake.acks([b"1"], [b"s"], [])
    intake.acks([b"2"], [b"t"], [])
    intake.acks([b"3"], None, [])
    intake.acks([b"4"], [b"u"], [])
    intake.extend(A, 0, [b"x\0"], [], 0)
    assert shown(intake) == [
        ([b"1", b"2"], [b"s", b"t"], None),
        ([b"3"], None, None),
        ([b"4"], [b"u"], None),
        (b"a", [b"x\0"], None, 3),
    ]


def ordered(lines: bytes, order: object) -> Head:
    head = Head(lines, {}, 0, True)
    head.goes("somewhere", order)
    return head


def gathered(*frames: tuple[Head, bytes, bytes | None]) -> list[tuple[bytes, bytes]]:
    """Lines of the head and joined records of each event."""
    intake = Intake(b"", False, 0)
    for head, record, receipt in frames:
        intake.add(head, 0, record, receipt)
    return [(event[0], b"".join(event[1])) for event in shown(intake)]


def test_what_goes_elsewhere_gathers_beside():
    a, b = ordered(b"a", 1), ordered(b"b", 2)
    beside = gathered((a, b"1", None), (b, b"2", None), (a, b"3", None), (b, b"4", None))
    assert beside == [(b"a", b"13"), (b"b", b"24")]
    same = ordered(b"c", 1)
    assert gathered((a, b"1", None), (b, b"2", None), (same, b"3", None), (b, b"4", None)) == [
        (b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"b", b"4"),
    ], "to one place in the order of the frames"  # fmt: skip


def test_nothing_passes_what_may_not_be_passed():
    a, b, unknown = ordered(b"a", 1), ordered(b"b", 2), Head(b"u", {}, 0, True)
    assert gathered((a, b"1", None), (unknown, b"2", None), (a, b"3", None)) == [
        (b"a", b"1"), (b"u", b"2"), (b"a", b"3"),
    ]  # fmt: skip
    assert gathered((a, b"1", None), (b, b"2", None), (a, b"3", b"r"), (b, b"4", None), (a, b"5", None)) == [
        (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4"), (b"a", b"5"),
    ], "a receipt is for all in front of it"  # fmt: skip
    intake = Intake(b"", False, 0)
    intake.extend(a, 0, [b"1"], [], 0)
    intake.extend(b, 0, [b"2"], [], 0)
    intake.extend(a, 0, [b"3", b"4"], [b"r3", b"r4"], 0)
    intake.acks([b"x"], None, [])
    intake.extend(b, 0, [b"5"], [], 0)
    assert [event[:3] for event in shown(intake)] == [
        (b"a", [b"1"], None), (b"b", [b"2"], None), (b"a", [b"3", b"4"], [b"r3", b"r4"]), ([b"x"], None, None),
        (b"b", [b"5"], None),
    ]  # fmt: skip


def test_events_beside_each_other_cost_half_before_and_after_they_are_told():
    intake = Intake(b"", False, 0)
    for n in range(9):
        intake.add(ordered(b"%d" % n, n), 0, b"1", None)
    assert len(intake.out) + intake.cost == 4, "the first one counts when it is told"
    intake.flush()
    assert len(intake.out) + intake.cost == 5


@pytest.mark.skipif(COMPILED, reason="its family is a stand-in")
def test_a_family_gets_the_head_of_all_flags_of_its_group():
    made: list[int] = []

    class Family:
        order = None

        def head(self, flags: int) -> Head:
            made.append(flags)
            return A

    intake, family = Intake(b"", False, 0), Family()
    intake.add(family, 8, b"1\0", None)
    intake.extend(family, 4, [b"2\0"], [], 0)
    intake.flush()
    intake.extend(family, 2, [b"3\0"], [], 0)
    intake.flush()
    intake.add(family, 0, b"4\0", None)
    intake.flush()
    intake.flush()
    assert made == [12, 2, 0], "and nothing of the group before"


def test_what_a_read_costs_grows_with_what_was_taken():
    intake = Intake(b"", False, 0)
    for _ in range(2 * ALIKE_AS_ONE):
        intake.add(A, 0, b"\0", None)
    assert intake.cost == 2
    intake.acks([b"1"] * (3 * ALIKE_AS_ONE), None, [])
    assert intake.cost == 5
    intake.extend(A, 0, [b"\0"] * 640, [], 10)
    intake.weigh(4)
    assert intake.cost == 19


def test_empty_lines_are_passed_some_at_once():
    intake = Intake(b"\n\r\n\nSEND", True, 0)
    assert (intake.lines(), intake.pos, intake.lines(), intake.cost) == (3, 4, 0, 0)
    intake = Intake(b"\n" * (LINES_AT_ONCE + 5) + b"\0", True, 0)
    assert (intake.lines(), intake.pos, intake.cost) == (LINES_AT_ONCE, LINES_AT_ONCE, LINES_AT_ONCE // LINES_AS_ONE)
    assert intake.lines() == 5


@pytest.mark.parametrize(
    ("data", "crlf", "at", "found"),
    [
        (b"\n\nb", True, 0, 2),
        (b"a\n\nb", True, 0, 3),
        (b"a\r\n\r\nb", True, 0, 5),
        (b"a\r\n\r\nb", False, 0, -1),
        (b"a\n\r\nb\n\n", True, 0, 4),
        (b"a\n\r\nb\n\n", False, 0, 7),
        (b"a\n\nb\n\r\n", True, 3, 7),
        (b"a\n", True, 0, -1),
    ],
)
def test_the_first_empty_line_of_either_kind_ends_a_block(data, crlf, at, found):
    assert Intake(data, crlf, 0).blank(at) == found
