"""Each bound of WireSettings has its own answer, the same however the octets are cut."""

from __future__ import annotations

import pytest

from broker.core.errors import ProtocolViolation
from broker.wire.block import check_limits
from broker.wire.events import Violation
from broker.wire.heads import REMEMBERED
from broker.wire.memo import Memo
from broker.wire.shortcuts.known_layouts import LAYOUTS, LEARN_AFTER
from broker.wire.shortcuts.layouts import NAMES, NAMES_BYTES

from .cutting import HEAD, SMALL, V10, V11, V12, cut_everywhere, feed, logged_in, one, small, small_v10, violation


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


@pytest.mark.parametrize("make", [small_v10])
def test_body_of_control_frames(make):
    block = b"BEGIN\ntransaction:1\n"
    assert one(block + b"\n" + b"x" * 50 + b"\0", make)[2] == b"x" * 50
    assert violation(block + b"\n" + b"x" * 51 + b"\0", make) == "FRAME_TOO_LARGE"
    assert violation(block + b"content-length:51\n\n", make) == "FRAME_TOO_LARGE"


# ── large bodies ───────────────────────────────────────────────────────────────────────────────────────


# ── cost ───────────────────────────────────────────────────────────────────────────────────────────────


def test_memo_is_bounded_and_learns_names_that_come_again():
    memo = Memo(8)
    layouts, families = memo.layouts(V12), memo.families(V12)

    def send(n, destination=b"d"):
        return b"SEND\ndestination:%b\nname%d:1\ncontent-length:1\n\nx\0" % (destination, n)

    # One connection each: what is learned is the memo's.
    for _ in range(LEARN_AFTER - 1):
        logged_in(V12, memo=memo).receive(send(1))
    assert not layouts.known
    logged_in(V12, memo=memo).receive(send(1))
    assert list(layouts.known) == [(b"destination", b"name1", b"content-length")]
    for n in range(LAYOUTS + 50):
        for _ in range(LEARN_AFTER):
            logged_in(V12, memo=memo).receive(send(n, b"d%d" % n))
        assert len(layouts.known) <= LAYOUTS
        assert len(families.known) <= 8
    assert len(layouts._seen) <= 8


def test_what_a_client_says_at_length_is_not_kept():
    """Of headers a broker acts on 10 KB may be in each message, and a thousand are kept."""
    memo = Memo(8)
    connection = logged_in(V12, memo=memo)
    frame = b"SEND\ndestination:d\nreply-to:%b%d\n\nx\0"
    connection.receive(b"".join(frame % (b"x" * REMEMBERED, n) for n in range(40)))
    layouts, families = memo.layouts(V12), memo.families(V12)
    [layout] = layouts.known.values()
    assert not layout.families and not families.known
    connection.receive(frame % (b"x", 1))
    assert len(layout.families) == len(families.known) == 1


@pytest.mark.parametrize("names", [[b"n%d" % n for n in range(NAMES)], [b"n" * NAMES_BYTES]])
def test_names_that_take_long_to_learn_are_not(names):
    """A pattern of 90 names of 170 bytes each took 70 ms to make."""
    memo = Memo(8)
    block = b"SEND\ndestination:d\n%b\n\0" % b"".join(b"%b:1\n" % name for name in names)
    events = logged_in(V12, memo=memo).receive(block * (LEARN_AFTER + 1))
    assert sum(len(event.records) for event in events) == LEARN_AFTER + 1
    assert not memo.layouts(V12).known
    logged_in(V12, memo=memo).receive(block.replace(b"\n%b:1" % names[0], b"\ns:1") * (LEARN_AFTER + 1))
    assert len(memo.layouts(V12).known) == (len(names) == 1)


def test_memo_keeps_versions_apart():
    memo = Memo(8)
    stream = b"SEND\ndestination:d\nx: 1 \ncontent-length:1\n\nx\0"
    for _ in range(3):
        assert b"x: 1 \n" in feed(logged_in(V12, memo=memo), [stream])[0][1]
        assert b"x:1\n" in feed(logged_in(V10, memo=memo), [stream])[0][1]
