"""Many like frames at once: what the way frame by frame gives, or nothing."""

from __future__ import annotations

import pytest

from broker.wire.events import Head
from broker.wire.intake import SENDS_AS_ONE, Intake
from broker.wire.shortcuts.bulk import ACKS, FIRST_PIECE, LARGEST_PIECE, OneValue, SameBlock, read_acks

from .cutting import HEAD, V10, V11, V12, logged_in


def test_like_frames_are_one_event():
    stream = b"".join(HEAD + b"receipt:%d\ncontent-length:1\n\nx\0" % n for n in range(200))
    events = logged_in().receive(stream)
    assert len(events) <= 4
    stream = b"".join(HEAD + b"seq:%d\ncontent-length:1\n\nx\0" % n for n in range(200))
    assert len(logged_in().receive(stream)) <= 3
    acks = b"".join(b"ACK\nid:%d\n\n\0" % n for n in range(200))
    assert len(logged_in().receive(acks)) == 1


PLAIN = Head(b"", {}, 0, True)
BLOCK = b"SEND\n\n"


def same(data: bytes, size: int = 6) -> tuple[SameBlock, Intake]:
    return SameBlock(BLOCK, PLAIN, size), Intake(data, False, 0)


def records(intake: Intake) -> list[bytes]:
    intake.flush()
    return [record for event in intake.out for record in event.records]


def taken_whole(reader: SameBlock, intake: Intake) -> int:
    """Empty lines passed until it takes nothing."""
    lines = 0
    while (passed := reader.read(intake)) >= 0:
        lines += passed
    return lines


@pytest.mark.parametrize("gap", [b"", b"\n"])
def test_complete_frames_with_the_last_block_are_taken_and_half_a_one_is_not(gap):
    bodies = [b"%05d\0" % n for n in range(100)]
    reader, intake = same(b"".join(BLOCK + body + gap for body in bodies) + BLOCK + b"1234")
    assert taken_whole(reader, intake) == 100 * len(gap)
    assert intake.data[intake.pos :] == BLOCK + b"1234"
    assert records(intake) == bodies and intake.cost <= len(bodies) / SENDS_AS_ONE


def test_other_blocks_and_other_sizes_are_left():
    for data in (b"SEND\na:1\n\n12345\0", BLOCK + b"123456\0", BLOCK + b"12345", b""):
        reader, intake = same(data)
        assert reader.read(intake) == -1 and intake.pos == 0 and not records(intake)


def test_what_stands_between_frames_and_is_no_line_feed_is_left_to_the_reader():
    """A peer that writes something else there has to hear of it."""
    bodies = [b"%05d\0" % n for n in range(6)]
    gaps = [b"\n", b"\n", b"X", b"\n", b"\n", b"\n"]
    reader, intake = same(b"".join(BLOCK + body + gap for body, gap in zip(bodies, gaps, strict=True)))
    taken_whole(reader, intake)
    assert records(intake) == bodies[:3] and intake.data[intake.pos :].startswith(b"X" + BLOCK)


def test_a_body_that_holds_the_block_is_one_body():
    inner = b"x" + BLOCK + b"y\0"
    bodies = [inner, b"12345678"[: len(inner) - 1].ljust(len(inner) - 1, b"z") + b"\0"] * 20
    reader, intake = same(b"".join(BLOCK + body for body in bodies), len(inner))
    taken_whole(reader, intake)
    assert intake.pos == intake.end and records(intake) == bodies


def test_what_is_split_in_vain_makes_the_next_piece_no_larger_than_what_was_good():
    """Else a client that alternates costs a square."""
    good = b"12345\0"
    reader, intake = same(b"".join(BLOCK + good for _ in range(FIRST_PIECE * 3)))
    reader.read(intake)
    assert len(records(intake)) == FIRST_PIECE and reader._piece == 2 * FIRST_PIECE
    broken = BLOCK + good + BLOCK + good + BLOCK + good + BLOCK + b"1234567\0" + (BLOCK + good) * 200
    intake = Intake(broken, False, 0)
    reader.read(intake)
    assert records(intake) == [good] * 3 and reader._piece == 3
    grown, intake = same(b"".join(BLOCK + good for _ in range(3 * LARGEST_PIECE)))
    taken_whole(grown, intake)
    assert grown._piece == LARGEST_PIECE


def one_value(data: bytes, limit: int = 20) -> tuple[OneValue, Intake]:
    """SENDs that differ in their header n, with bodies of three octets."""
    reader = OneValue(b"SEND\nn:", b"\ncontent-length:3\n\n", (b"n:", b""), PLAIN, 0, 3, limit)
    return reader, Intake(data, False, 0)


def differing(values: list[bytes], body: bytes = b"abc\0") -> bytes:
    return b"".join(b"SEND\nn:%b\ncontent-length:3\n\n%b" % (value, body) for value in values)


def test_frames_that_differ_in_one_value_are_taken_together_and_half_a_one_waits():
    values = [b"%d" % n for n in range(FIRST_PIECE - 1)]
    reader, intake = one_value(differing(values) + differing([b"x"])[:-1])
    assert reader.read(intake)
    assert intake.data[intake.pos :] == differing([b"x"])[:-1] and intake.cost == 0, "less than one frame's"
    assert records(intake) == [b"content-length:3\nn:%b\nabc\0" % value for value in values]


@pytest.mark.parametrize("odd", [b"a\\nb", b"a\rb", b"a\0b", b"a:b", b"a\nm:1", "é".encode(), b"x" * 21])
def test_a_value_that_needs_a_closer_look_is_not_taken(odd):
    reader, intake = one_value(differing([odd]))
    assert not reader.read(intake) and intake.pos == 0 and not intake.out
    reader, intake = one_value(differing([b"1", b"2", odd, b"3"]))
    assert not reader.read(intake) and intake.pos == 0, "nor what came with it: the reader goes on from here"
    while reader.read(intake):
        pass
    assert intake.data[intake.pos :] == differing([odd, b"3"]) and len(records(intake)) == 2, "and then one by one"


def test_a_receipt_that_differs_belongs_to_the_event_and_not_to_the_message():
    reader = OneValue(b"SEND\nreceipt:", b"\ncontent-length:3\n\n", None, PLAIN, 0, 3, 20)
    data = differing([b"1", b"2"]).replace(b"n:", b"receipt:")
    intake = Intake(data, False, 0)
    assert reader.read(intake) and records(intake) == [b"abc\0", b"abc\0"]
    assert intake.out[0].receipts == [b"1", b"2"]


def test_what_receipts_cost_grows_with_how_many_there_are():
    """Their messages are taken together: so many are one frame's worth, never the other way round."""
    values = [b"%03d" % n for n in range(4 * SENDS_AS_ONE)]
    frames = b"".join(b"SEND\nreceipt:%b\ncontent-length:3\n\nabc\0" % value for value in values)
    reader = OneValue(b"SEND\nreceipt:", b"\ncontent-length:3\n\n", None, PLAIN, 0, 3, 40)
    intake = Intake(frames, False, 0)
    while intake.pos < intake.end and reader.read(intake):
        pass
    intake.flush()
    [event] = intake.out
    assert event.receipts == values[: len(event.records)] and len(values) - len(event.records) < 2
    assert 0 < intake.cost <= 4


def acks(data: bytes, version=V12, limit: int = 20) -> tuple[int, Intake]:
    intake = Intake(data, False, 0)
    return read_acks(intake, version, limit), intake


def taken(intake: Intake) -> tuple:
    intake.flush()
    [event] = intake.out
    return event.ids, event.subscriptions, event.receipts


def test_plain_acks_with_and_without_receipts():
    lines, intake = acks(b"ACK\nid:1\n\n\0\nACK\nid:2\nreceipt:r\n\n\0ACK\nid:3\n\n")
    assert lines == 1 and taken(intake) == ([b"1", b"2"], None, [b"r"])
    assert intake.data[intake.pos :] == b"ACK\nid:3\n\n", "half a one waits"


@pytest.mark.parametrize("gap", [b"", b"\n"])
def test_a_row_of_acks_is_split_and_half_a_one_waits(gap):
    ids = [b"h-%d" % n for n in range(100)]
    frames = b"".join(b"ACK\nid:%b\n\n\0%b" % (id, gap) for id in ids)
    for behind in (
        b"",
        b"ACK\nid:h-100",
        b"ACK\nid:h-100\n\n\0"[:-1],
        b"SEND\ndestination:d\n\n\0",
        b"ACK\nid:h\n\nx\0",
    ):
        lines, intake = acks(frames + behind)
        assert taken(intake) == (ids, None, None)
        assert lines == len(gap) * 100 and intake.data[intake.pos :] == behind


@pytest.mark.parametrize("at", [0, 50, 99])
def test_a_row_with_another_one_in_it_is_taken_one_by_one(at):
    def row(odd: bytes) -> tuple[int, Intake]:
        ids = [odd if n == at else b"h-%d" % n for n in range(100)]
        return acks(b"".join(b"ACK\nid:%b\n\n\0" % id for id in ids))

    _, intake = row(b"o\nreceipt:r")
    found, _, receipts = taken(intake)
    assert len(found) == 100 and found[at] == b"o" and receipts == [b"r"]
    for odd in (b"\\c", b"x" * 21, b"h\r", b"h\0", "é".encode()):
        lines, intake = row(odd)
        assert (lines, intake.pos, intake.plain_acks) == (-1, 0, False)
    for odd in (b"h\nx:1", b"h\nid:2"):
        lines, intake = row(odd)
        assert lines == (0 if at else -1) and intake.pos == sum(len(b"ACK\nid:h-%d\n\n\0" % n) for n in range(at))


def test_older_versions_name_the_subscription_in_either_order():
    for first, second in ((b"message-id:1\nsubscription:s", b"subscription:t\nmessage-id:2"),):
        _, intake = acks(b"ACK\n%b\n\n\0ACK\n%b\n\n\0" % (first, second), V11)
        assert taken(intake) == ([b"1", b"2"], [b"s", b"t"], None)
    assert acks(b"ACK\nmessage-id:1\n\n\0", V11)[0] == -1, "only 1.0 may leave it out"
    _, intake = acks(b"ACK\nmessage-id:1\n\n\0ACK\nmessage-id:2\nsubscription:s\n\n\0", V10)
    assert taken(intake) == ([b"1"], None, None), "a group has it everywhere or nowhere"
    _, intake = acks(b"ACK\nmessage-id:1\nsubscription:s\n\n\0ACK\nmessage-id:2\nsubscription:t\n\n", V11)
    assert taken(intake) == ([b"1"], [b"s"], None), "half a one leaves nothing behind"


@pytest.mark.parametrize(
    ("frame", "version"),
    [
        (b"ACK\nid:a\\c\n\n\0", V12),
        (b"ACK\nid:%b\n\n\0" % (b"x" * 21), V12),
        (b"ACK\nid:a\r\n\n\0", V12),
        (b"ACK\nmessage-id: 1\n\n\0", V10),
        ("ACK\nid:é\n\n\0".encode(), V12),
    ],
)
def test_an_ack_that_needs_a_closer_look_gives_all_of_this_read_to_the_reader(frame, version):
    lines, intake = acks(frame, version)
    assert lines == -1 and intake.pos == 0 and intake.plain_acks is False


@pytest.mark.parametrize(
    "frame", [b"ACK\nx:1\n\n\0", b"NACK\nid:1\n\n\0", b"ACK\nid:1\nx:1\n\n\0", b"ACK\nid:1\n\nx\0"]
)
def test_other_frames_are_left(frame):
    lines, intake = acks(frame)
    assert (lines, intake.pos, intake.plain_acks) == (-1, 0, True)


def test_no_more_acks_at_once_than_are_looked_at_in_a_step():
    _, intake = acks(b"ACK\nid:1\n\n\0" * (ACKS + 5))
    assert len(taken(intake)[0]) == ACKS
