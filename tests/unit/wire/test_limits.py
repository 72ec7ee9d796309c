"""Each bound of WireSettings has its own answer, the same however the octets are cut."""

from __future__ import annotations

import tracemalloc

import pytest

from broker.config.settings import WireSettings
from broker.core.errors import ProtocolViolation
from broker.wire.block import check_limits
from broker.wire.connection import Connection, Role
from broker.wire.events import Violation
from broker.wire.layouts import FAMILIES, NAMES, NAMES_BYTES, REMEMBERED
from broker.wire.memo import LAYOUTS, LEARN_AFTER, Memo
from broker.wire.sends import MAKING, PATIENCE

from .cutting import V10, V11, V12, cut_everywhere, feed, logged_in, one, violation

SMALL = WireSettings(
    max_frame_bytes=5000,
    max_frame_bytes_before_login=600,
    max_control_body_bytes=50,
    max_headers=5,
    max_header_bytes=200,
    max_header_block_bytes=500,
    max_command_bytes=20,
    large_body_bytes=1000,
)
HEAD = b"SEND\ndestination:d\n"


def small():
    return logged_in(V12, SMALL)


def small_v10():
    return logged_in(V10, SMALL)


def small_stranger():
    return Connection(Role.SERVER, SMALL)


def test_number_of_headers():
    assert one(HEAD + b"a:1\nb:1\nc:1\nd:1\n\n\0", small)[0] == "SEND"
    assert violation(HEAD + b"a:1\nb:1\nc:1\nd:1\ne:1\n\n\0", small) == "TOO_MANY_HEADERS"
    assert violation(HEAD + b"a:1\n" * 1000, small) == "TOO_MANY_HEADERS"
    assert violation(HEAD + b"a:1\nb:1\nc:1\nd:1\nreceipt:1\n\n\0", small) == "TOO_MANY_HEADERS"


def test_length_of_a_header():
    assert one(HEAD + b"a:%b\n\n\0" % (b"x" * 198), small)[0] == "SEND"
    assert violation(HEAD + b"a:%b\n\n\0" % (b"x" * 199), small) == "HEADER_TOO_LONG"
    assert violation(HEAD + b"a" * 300, small) == "HEADER_TOO_LONG"


def test_all_headers_together():
    lines = b"".join(b"%c:%b\n" % (c, b"x" * 150) for c in b"abcd")
    assert violation(HEAD + lines + b"\n\0", small) == "HEADERS_TOO_LARGE"
    assert violation(HEAD + lines[:520], small) == "HEADERS_TOO_LARGE"


@pytest.mark.parametrize(
    "version, line, receipt",
    [(V12, b" 7\t", b" 7\t"), (V11, b" 7\t", b" 7\t"), (V10, b" 7\t", b"7"), (V12, b"7\r", b"7")],
)
def test_the_receipt_of_a_frame_over_a_limit_is_read_by_its_version(version, line, receipt):
    """C11, C12, C03: else the client gets another receipt-id than it waits for."""
    data = HEAD + b"receipt:%b\na:%b\n" % (line, b"x" * 300)
    for rest in (b"", b"\n\0"):
        connection = logged_in(version, SMALL)
        with pytest.raises(ProtocolViolation) as found:
            check_limits(data + rest, SMALL, SMALL.max_frame_bytes, version)
        assert found.value.receipt == receipt
        (event,) = [event for event in connection.receive(data + rest) if isinstance(event, Violation)]
        assert (event.code.name, event.receipt) == ("HEADER_TOO_LONG", receipt)


def test_length_of_the_command():
    assert violation(b"X" * 20 + b"\n\n\0", small) == "UNKNOWN_COMMAND"
    assert violation(b"X" * 21 + b"\n\n\0", small) == "COMMAND_TOO_LONG"
    assert violation(b"X" * 3000, small) == "COMMAND_TOO_LONG"


def test_size_of_a_frame():
    body = b"x" * (5000 - len(HEAD) - len(b"content-length:4962\n\n"))
    assert cut_everywhere(HEAD + b"content-length:%d\n\n%b\0" % (len(body), body), small)[1] == ("END",)
    assert violation(HEAD + b"content-length:5001\n\n", small) == "FRAME_TOO_LARGE"
    assert violation(HEAD + b"content-length:4999\n\n", small) == "FRAME_TOO_LARGE"
    assert violation(HEAD + b"content-length:1%b\n\n" % (b"0" * 30), small) == "FRAME_TOO_LARGE"
    assert violation(HEAD + b"\n" + b"x" * 6000 + b"\0", small) == "FRAME_TOO_LARGE"


def test_before_login():
    connect = b"CONNECT\naccept-version:1.1\nhost:h\n"
    assert one(connect + b"a:b\n\n\0", small_stranger)[0] == "CONNECT"
    assert violation(connect + b"content-length:700\n\n", small_stranger) == "FRAME_TOO_LARGE"
    tiny = WireSettings(max_frame_bytes_before_login=60)
    assert violation(connect + b"a:%b" % (b"x" * 60), lambda: Connection(Role.SERVER, tiny)) == "FRAME_TOO_LARGE"


def test_too_much_behind_connect():
    connection = small_stranger()
    connection.receive(b"CONNECT\n\n\0")
    assert connection.receive(b"x" * 1000) == []
    [event] = connection.receive(b"x" * 1000)
    assert event.code.name == "FRAME_TOO_LARGE"
    assert len(connection._held) == 0
    connection.accept_login(V12)
    assert connection.receive(b"BEGIN\ntransaction:1\n\n\0") == []


@pytest.mark.parametrize("make", [small_v10])
def test_body_of_control_frames(make):
    block = b"BEGIN\ntransaction:1\n"
    assert one(block + b"\n" + b"x" * 50 + b"\0", make)[2] == b"x" * 50
    assert violation(block + b"\n" + b"x" * 51 + b"\0", make) == "FRAME_TOO_LARGE"
    assert violation(block + b"content-length:51\n\n", make) == "FRAME_TOO_LARGE"


# ── large bodies ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [1000, 1001, 3000])
def test_large_bodies_are_streamed(size):
    body = (b"a\0b" * size)[:size]
    stream = HEAD + b"x:1\nreceipt:r\ncontent-length:%d\n\n%b\0" % (size, body)
    flat = cut_everywhere(stream * 2, small)
    start = ("START", "SEND", b"destination:d\nx:1\n", size, b"r", body)
    assert flat == [start, ("END",), start, ("END",), ("RECEIPTS", [])]


def test_large_bodies_without_a_length():
    body = b"y" * 1000
    flat = cut_everywhere(HEAD + b"\n%b\0" % body + HEAD + b"\n" + body[1:] + b"\0", small)
    assert flat[:2] == [("START", "SEND", b"destination:d\n", None, None, body), ("END",)]
    assert flat[2][1] == b"destination:d\ncontent-length:999\n\n" + body[1:] + b"\0"


def test_just_not_large():
    assert one(HEAD + b"content-length:999\n\n%b\0" % (b"z" * 999), small)[0] == "SEND"


def test_large_body_with_a_wrong_length():
    assert violation(HEAD + b"content-length:1000\n\n%b" % (b"z" * 1001), small) == "MISSING_NUL"


def test_pieces_of_a_large_body_are_slices_of_the_reads():
    connection = logged_in()
    piece = b"p" * 65536
    connection.receive(HEAD + b"content-length:1000000\n\n")
    [event] = connection.receive(piece)
    assert event.data is piece
    assert connection.mid_frame
    assert len(connection._held) == 0


def test_large_block_that_is_known():
    """The stream's lines do not depend on how the block was understood."""
    small_frame = HEAD + b"content-length:3\n\nabc\0"
    large_frame = HEAD + b"content-length:1500\n\n%b\0" % (b"q" * 1500)
    memo = Memo(100)
    for _ in range(5):
        flat = feed(logged_in(V12, SMALL, memo), [(small_frame + large_frame) * 4])
        assert [f[2] for f in flat if f[0] == "START"] == [b"destination:d\n"] * 4


def test_client_streams_large_messages():
    def client():
        return Connection(Role.CLIENT, SMALL)

    body = b"m" * 2000
    message = b"MESSAGE\ndestination:d\nmessage-id:1\nsubscription:s\ncontent-length:2000\n\n%b\0" % body
    flat = cut_everywhere(b"CONNECTED\nversion:1.2\n\n\0" + message, client)
    assert flat[1] == ("START", "MESSAGE", b"", 2000, None, body)


# ── cost ───────────────────────────────────────────────────────────────────────────────────────────────


def test_memory_of_an_idle_connection():
    settings, memo = WireSettings(), Memo(100)
    logged_in(V12, settings, memo)
    tracemalloc.start()
    kept = [logged_in(V12, settings, memo) for _ in range(100)]
    size = tracemalloc.get_traced_memory()[0] / len(kept)
    tracemalloc.stop()
    assert size < 400


def test_memo_is_bounded_and_learns_names_that_come_again():
    memo = Memo(8)
    table = memo.table(V12)

    def send(n, destination=b"d"):
        return b"SEND\ndestination:%b\nname%d:1\ncontent-length:1\n\nx\0" % (destination, n)

    # One connection each: what is learned is the memo's.
    for _ in range(LEARN_AFTER - 1):
        logged_in(V12, memo=memo).receive(send(1))
    assert not table.layouts
    logged_in(V12, memo=memo).receive(send(1))
    assert list(table.layouts) == [(b"destination", b"name1", b"content-length")]
    for n in range(LAYOUTS + 50):
        for _ in range(LEARN_AFTER):
            logged_in(V12, memo=memo).receive(send(n, b"d%d" % n))
        assert len(table.layouts) <= LAYOUTS
        assert len(table.families) <= 8
    assert len(table._seen) <= 8


def test_only_plain_blocks_are_learned():
    memo = Memo(8)
    for _ in range(LEARN_AFTER + 1):
        for line in (b"a:\\c", b"a:b:c", b"a\\c:1", b"a:\xc3\xa9", b"d:1\nd:2"):
            logged_in(V12, memo=memo).receive(HEAD + line + b"\ncontent-length:1\n\nx\0")
        logged_in(V12, memo=memo).receive(b"SEND\r\ndestination:d\r\ncontent-length:1\r\n\r\nx\0")
    assert not memo.table(V12).layouts


def test_what_layouts_keep_is_bounded():
    """A destination of its own in each message, and a client whose names never fit what was learned."""
    memo = Memo(8)
    connection = logged_in(V12, memo=memo)
    frame = b"SEND\ndestination:d%d\nn:%d\n\nx\0"
    connection.receive(b"".join(frame % (n, n) for n in range(FAMILIES + 500)))
    [layout] = memo.table(V12).layouts.values()
    assert 0 < len(layout._families) <= FAMILIES
    connection.receive(b"".join(b"SEND\ndestination:d\nn%d:1\n\nx\0" % n for n in range(PATIENCE + 1)))
    assert not connection._sends._layouts


def test_what_a_client_says_at_length_is_not_kept():
    """Of headers a broker acts on 10 KB may be in each message, and a thousand are kept."""
    memo = Memo(8)
    connection = logged_in(V12, memo=memo)
    frame = b"SEND\ndestination:d\nreply-to:%b%d\n\nx\0"
    connection.receive(b"".join(frame % (b"x" * REMEMBERED, n) for n in range(40)))
    table = memo.table(V12)
    [layout] = table.layouts.values()
    assert not layout._families and not table.families
    connection.receive(frame % (b"x", 1))
    assert len(layout._families) == len(table.families) == 1


@pytest.mark.parametrize("names", [[b"n%d" % n for n in range(NAMES)], [b"n" * NAMES_BYTES]])
def test_names_that_take_long_to_learn_are_not(names):
    """A pattern of 90 names of 170 bytes each took 70 ms to make."""
    memo = Memo(8)
    block = b"SEND\ndestination:d\n%b\n\0" % b"".join(b"%b:1\n" % name for name in names)
    events = logged_in(V12, memo=memo).receive(block * (LEARN_AFTER + 1))
    assert sum(len(event.records) for event in events) == LEARN_AFTER + 1
    assert not memo.table(V12).layouts
    logged_in(V12, memo=memo).receive(block.replace(b"\n%b:1" % names[0], b"\ns:1") * (LEARN_AFTER + 1))
    assert len(memo.table(V12).layouts) == (len(names) == 1)


def looked_at(connection):
    """What a receive() has held against patterns, in bytes; whatever came of it."""
    seen = 0

    class Counted:
        def __init__(self, layout):
            self.match_of = layout.match

        def __call__(self, data, at, stop):
            nonlocal seen
            seen += min(data.index(b"\n\n", at), stop) - at
            return self.match_of(data, at, stop)

    for layout in connection._sends._table.layouts.values():
        layout.match = Counted(layout)
    events = connection.receive(b"")
    return sum(len(event.records) for event in events), seen


@pytest.mark.parametrize(("size", "kinds"), [(10, 4), (200, 4), (200, 5), (2000, 1), (2000, 5), (9000, 4), (9000, 5)])
def test_frames_held_against_names_that_do_not_fit_count_as_more(size, kinds):
    """Names that differ at the end only, in turn: each is held against four patterns. 16 KB take 0.25 ms."""
    connection = logged_in(V12)
    frames = [b"SEND\ndestination:%b\nn%d:1\n\nx\0" % (b"d" * size, n) for n in range(kinds)]
    for frame in frames:
        connection.receive(frame * LEARN_AFTER)
    connection.burst = 0
    connection.receive(b"".join(frames) * (4_000_000 // size // kinds if size > 10 else 4000))
    connection.burst = 128
    taken, seen = looked_at(connection)
    assert connection.more
    assert taken * 2 + seen / 64 <= 128 * 16 * 4, "as much as 128 frames of 30 µs: 2 µs a frame, 15 ns a byte"


def test_making_layouts_counts_as_work():
    """Of names that each come three times; a pattern takes as long as some frames."""
    connection = logged_in()
    connection.burst = 128
    names = b"".join(b"SEND\ndestination:d\nn%d:1\n\nx\0" % (n // LEARN_AFTER) for n in range(600))
    connection.receive(names)
    assert connection.more
    assert 0 < len(connection._sends._table.layouts) <= 128 // MAKING


def test_memo_keeps_versions_apart():
    memo = Memo(8)
    stream = b"SEND\ndestination:d\nx: 1 \ncontent-length:1\n\nx\0"
    for _ in range(3):
        assert b"x: 1 \n" in feed(logged_in(V12, memo=memo), [stream])[0][1]
        assert b"x:1\n" in feed(logged_in(V10, memo=memo), [stream])[0][1]


def test_like_frames_are_one_event():
    stream = b"".join(HEAD + b"receipt:%d\ncontent-length:1\n\nx\0" % n for n in range(200))
    events = logged_in().receive(stream)
    assert len(events) <= 4
    stream = b"".join(HEAD + b"seq:%d\ncontent-length:1\n\nx\0" % n for n in range(200))
    assert len(logged_in().receive(stream)) <= 3
    acks = b"".join(b"ACK\nid:%d\n\n\0" % n for n in range(200))
    assert len(logged_in().receive(acks)) == 1


class CountingBytes(bytes):
    """Counts the octets that find() looks at."""

    looked = 0

    def find(self, sub, start=0, end=None):
        at = super().find(sub, start, len(self) if end is None else end)
        CountingBytes.looked += (at if at >= 0 else len(self)) - start
        return at


@pytest.mark.parametrize("kind", [b"\n", b"\r\n"])
def test_search_for_empty_lines_is_linear(kind):
    """Many frames of one kind of line end behind which the other kind never comes."""
    from broker.wire.intake import Intake

    frame = kind.join([b"BEGIN", b"transaction:1", b"", b"\0"])
    data = CountingBytes(frame * 2000)
    CountingBytes.looked = 0
    intake = Intake(data, True, 0)
    at = 0
    for _ in range(2000):
        at = intake.blank(at)
    assert CountingBytes.looked <= 3 * len(data)


def test_what_stands_before_a_frame_in_the_same_read_does_not_count_for_its_size():
    """Of a body without a content-length that is not complete, either."""
    earlier = HEAD + b"\n" + b"x" * 900 + b"\0"
    connection = small()
    events = feed(connection, [earlier * 6 + HEAD + b"\n" + b"y" * 900, b"\0"])
    assert [event[0] for event in events].count("SEND") == 7
