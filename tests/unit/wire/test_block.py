"""One header block: what its content-length may be, and which receipt the ERROR about a broken one names."""

from __future__ import annotations

import pytest

from broker.config.settings import WireSettings
from broker.core.errors import Code, ProtocolViolation
from broker.wire import block
from broker.wire.block import find_receipt, read_block, read_send
from broker.wire.rules import Role

from .cutting import V10, V11, V12

SETTINGS = WireSettings(max_frame_bytes=5000)


@pytest.mark.parametrize(
    "line, version, found",
    [
        (b"receipt:a b", V12, b"a b"),
        (b"receipt: a\t", V10, b"a"),  # C11: may be trimmed
        (b"receipt: a ", V11, b" a "),  # C12: must not
        (b"receipt: a ", V12, b" a "),
        (b"receipt:a\r", V12, b"a"),  # C03: the CR belongs to the line end
        (b"receipt:a\r", V11, b"a\r"),  # C02: it does not
        (b"receipt:a\rb", V12, None),
        (b"receipt:a\\c", V11, b"a\\c"),
        (b"receipt:a\\t", V11, None),  # C08
        (b"receipt:a\\r", V12, b"a\\r"),
        (b"receipt:\xff", V12, None),  # C05
        (b"receipt:a\0", V12, None),
        (b"xreceipt:a", V12, None),
    ],
)
def test_the_receipt_of_a_broken_block_is_told_raw_or_not_at_all(line, version, found):
    assert find_receipt(b"SEND\nno colon\n" + line + b"\n\n", version) == found


def test_a_receipt_whose_line_has_no_end_is_none():
    assert find_receipt(b"SEND\nreceipt:a", V12) is None
    assert find_receipt(b"receipt:a\n\n", V12) is None, "the first line is the command"


def length(value):
    raw = b"SEND\ndestination:d\ncontent-length:%b\n\n" % value
    return read_block(raw, Role.SERVER, V12, SETTINGS, SETTINGS.max_frame_bytes, False).length


@pytest.mark.parametrize("value, means", [(b"0", 0), (b"007", 7), (b"5000", 5000), (b"0" * 17 + b"9", 9)])
def test_a_content_length_is_digits(value, means):
    assert length(value) == means


@pytest.mark.parametrize("value", [b"", b"-1", b"+1", b" 1", b"1_0", b"1.0", "٣".encode()])
def test_and_nothing_else(value):
    with pytest.raises(ProtocolViolation, match="digits only"):
        length(value)


@pytest.mark.parametrize("value", [b"5001", b"9" * 18, b"0" * 19, b"1" * 200])
def test_what_is_over_every_limit_is_refused_by_its_number(value):
    """Of endless digits no int() is made: that would cost time that grows with their square."""
    with pytest.raises(ProtocolViolation, match=r"content-length:\d{1,40} is over the 5000 bytes"):
        length(value)


def test_a_send_of_many_kilobytes_of_headers_is_read_the_short_way_and_means_the_same(monkeypatch):
    """Only a single line has that bound; 60 KB of escapes the long way are most of a millisecond."""
    settings = WireSettings()
    lines = b"".join([b"h%d:%b\n" % (n, b"\\c\\\\" * 150) for n in range(80)])
    raw = b"SEND\ndestination:d\ncontent-length:3\nreceipt:r\n%b\n" % lines
    assert settings.max_header_bytes < len(raw) < settings.max_header_block_bytes
    long = read_block(raw, Role.SERVER, V12, settings, settings.max_frame_bytes, False)
    with monkeypatch.context() as patched:
        patched.delattr(block, "_general")
        short = read_send(raw, V12, settings)
    assert (short.lines, short.flags, short.length, short.receipt) == (long.lines, long.flags, 3, b"r")


@pytest.mark.parametrize("more, refused", [(0, False), (1, True)])
def test_a_line_of_such_a_send_may_be_as_long_as_any(more, refused):
    settings = WireSettings()
    name = b"x" * 9 + b":"
    line = name + b"y" * (settings.max_header_bytes - len(name) + more)
    raw = b"SEND\ndestination:d\n%b\n%b\n\n" % (b"a:b" * 500, line)
    if refused:
        with pytest.raises(ProtocolViolation) as caught:
            read_send(raw, V12, settings)
        assert caught.value.code is Code.HEADER_TOO_LONG
    else:
        assert line + b"\n" in read_send(raw, V12, settings).lines


def test_what_stands_behind_a_repeated_header_is_read():
    """C17: the first counts."""
    found = read_block(b"ACK\na:1\na:2\nid:3\na:4\nb:5\n", Role.SERVER, V12, SETTINGS, 5000, False)
    assert found.headers == {"a": "1", "id": "3", "b": "5"}
