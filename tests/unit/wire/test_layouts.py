"""A layout says where everything stands in a block of its names, and fits no other block."""

from __future__ import annotations

import pytest

from broker.core.message import GROUPED, TEXT, UNIQUE
from broker.wire.heads import HeadFamily
from broker.wire.shortcuts.layouts import Layout, Spare
from broker.wire.versions import Version

V10, V12 = Version.V10, Version.V12
NAMES = (b"receipt", b"destination", b"content-length", b"transaction", b"n", b"persistent")
BLOCK = b"SEND\nreceipt:r\ndestination:/queue/a\ncontent-length:12\ntransaction:t\nn:\npersistent:true\n\n"


def layout(names: tuple[bytes, ...] = NAMES, version: Version = V12) -> Layout:
    return Layout(names, version, lambda said: HeadFamily(said, version), Spare())


def test_it_finds_what_is_relayed_and_what_a_broker_acts_on():
    found = layout()
    m = found.match(b"x" + BLOCK + b"body", 1)
    assert m is not None and m[0] == BLOCK
    assert b"".join(m.group(*found.lines_at)) == b"destination:/queue/a\nn:\npersistent:true\n"
    assert (m[found.length_at], m[found.receipt_at]) == (b"12", b"r")
    found.means(m.group(*found.said_at))
    assert found.family.headers == {"destination": "/queue/a", "persistent": "true", "transaction": "t"}
    assert found.flags == 0


@pytest.mark.parametrize("odd", [b"\\c", b"\r", b"\0", b":", b"\xc3\xa9", b"\n"])
def test_no_block_that_needs_a_closer_look_fits(odd):
    assert layout().match(BLOCK.replace(b"/queue/a", b"/queue/" + odd)) is None
    assert layout().match(BLOCK.replace(b"\nn:", b"\nn:" + odd)) is None


@pytest.mark.parametrize("length", [b"", b"-1", b"1" * 19, b"1_0", b" 1"])
def test_a_content_length_is_up_to_eighteen_digits(length):
    assert layout().match(BLOCK.replace(b":12", b":" + length)) is None


def test_other_names_or_another_order_do_not_fit():
    assert layout().match(BLOCK.replace(b"\nn:", b"\nN:")) is None
    assert layout().match(BLOCK.replace(b"\nn:\n", b"\n")) is None
    assert layout(NAMES[::-1]).match(BLOCK) is None


def test_names_are_no_patterns():
    assert layout((b"destination", b"a.b")).match(b"SEND\ndestination:d\na-b:1\n\n") is None
    assert layout((b"destination", b"a.b")).match(b"SEND\ndestination:d\na.b:1\n\n") is not None


def test_blanks_are_for_the_reader_in_10_only():
    padded = BLOCK.replace(b"/queue/a", b" /queue/a")
    assert layout().match(padded) is not None
    assert layout(version=V10).match(padded) is None


def test_flags_are_of_the_names():
    assert layout((b"destination", b"JMSXGroupID", b"_AMQ_DUPL_ID")).flags == TEXT | GROUPED | UNIQUE
    assert layout((b"destination", b"content-length")).flags == 0


def test_of_some_headers_only_the_presence_is_said():
    """RabbitMQ refuses a message-id; everywhere else it may be another one in each message."""
    found = layout((b"message-id", b"destination"))
    for n in range(2):
        m = found.match(b"SEND\nmessage-id:%d\ndestination:a\n\n" % n)
        found.means(m.group(*found.said_at))
        assert found.family.headers == {"destination": "a", "message-id": ""}
        assert m[found.lines_at[0]] == b"destination:a\n"
    assert len(found.families) == 1


def test_a_family_has_one_head_for_each_set_of_flags():
    family = HeadFamily(((b"destination", b"a"),), V12)
    assert family.head(TEXT) is family.head(TEXT)
    assert (family.head(0).flags, family.head(TEXT).flags, family.head(0).lines) == (0, TEXT, b"")
