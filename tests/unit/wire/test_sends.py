"""SENDs read in full: the record of one says where its length came from, and what it costs is counted."""

from __future__ import annotations

import pytest

from broker.config.settings import WireSettings
from broker.core.errors import ProtocolViolation
from broker.core.message import TEXT
from broker.wire.heads import Families
from broker.wire.intake import Intake
from broker.wire.sends import SendReader
from broker.wire.versions import Version


def reader() -> SendReader:
    return SendReader(Version.V12, WireSettings(), Families(8, Version.V12))


def added(*frames: tuple[bytes, bytes]) -> Intake:
    sends, intake = reader(), Intake(b"", True, 0)
    for raw, body in frames:
        sends.add(intake, sends.find(raw), body)
    intake.flush()
    return intake


def test_a_length_that_was_given_stands_in_front_and_one_that_was_not_behind():
    raw = b"SEND\ndestination:d\nn:\\c\n"
    [given] = added((raw + b"content-length:1\n\n", b"x\0")).out
    assert given.records == [b"content-length:1\ndestination:d\nn:\\c\n\nx\0"] and not given.head.flags & TEXT
    [found] = added((raw + b"\n", b"x\0")).out
    assert found.records == [b"destination:d\nn:\\c\ncontent-length:1\n\nx\0"] and found.head.flags & TEXT


def test_those_that_say_the_same_are_one_event_and_cost_a_frame_each():
    one = (b"SEND\ndestination:d\nreceipt:1\nn:1\n\n", b"x\0"), (b"SEND\ndestination:d\nn:2\n\n", b"y\0")
    intake = added(*one)
    assert [(len(event.records), event.receipts) for event in intake.out] == [(2, [b"1"])] and intake.cost == 1
    other = added(one[0], (b"SEND\ndestination:e\nn:2\n\n", b"y\0"))
    assert len(other.out) == 2 and other.cost == 0


def test_a_streamed_body_has_a_head_of_its_own():
    sends = reader()
    block = sends.find(b"SEND\ndestination:d\nn:1\n\n")
    head = sends.open_head(block)
    assert (head.lines, head.flags & TEXT, head.headers) == (b"destination:d\nn:1\n", TEXT, {"destination": "d"})
    assert head is not sends.open_head(block)


def test_a_broken_block_is_a_violation():
    with pytest.raises(ProtocolViolation):
        reader().find(b"SEND\ndestination:d\nno colon\n\n")
