"""SENDs read in full: the record of one says where its length came from, and what it costs is counted."""

from __future__ import annotations

import pytest

from broker.config.settings import WireSettings
from broker.core.errors import ProtocolViolation
from broker.core.message import ESCAPED, TEXT
from broker.wire.block import read_block
from broker.wire.heads import Families
from broker.wire.intake import Intake
from broker.wire.rules import Role
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


def read(data: bytes, version: Version = Version.V12, burst: int = 99, stops: bool = False):
    """What the reader takes of it: empty lines passed, frames, octets left, names learned."""
    learned = []
    intake = Intake(data, True, 0)
    eols = SendReader(version, WireSettings(), Families(8, version)).read(
        intake, burst, lambda raw, names, intake: bool(learned.append(names)) or stops
    )
    intake.flush()
    return eols, [record for event in intake.out for record in event.records], data[intake.pos :], learned


LARGE = WireSettings().large_body_bytes
WILD = (
    b"SEND\nx-a:1\\c\ndestination:d\nx-b\\n:2\n\none\0\n\n" + b"SEND\nb:a:b\ncontent-length:3\ndestination:d\n\nt\0o\0"
)


def test_usual_frames_are_taken_together_as_they_come():
    one = b"x-a:1\\c\ndestination:d\nx-b\\n:2\ncontent-length:3\n\none\0"
    two = b"content-length:3\nb:a\\cb\ndestination:d\n\nt\0o\0"
    assert read(WILD) == (2, [one, two], b"", [])
    assert read(WILD * 3, burst=4) == (4, [one, two, one, two], WILD, [])


@pytest.mark.parametrize(
    "stop",
    [
        b"SEND\r\ndestination:d\r\n\r\n\0", b"SEND\na:1\n\n\0", b"ACK\nid:1\n\n\0", b"\n\n\n\n\nSEND",
        *[
            b"SEND\ndestination:d\n%b\0" % more
            for more in (
                b"a:1\na:2\n\n", b"no colon\n\n", b":no name\n\n", b"a:\\t\n\n", b"a:\xff\n\n", b"a:\0\n\n",
                b"content-length:+1\n\nx", b"content-length:1\n\nxy", b"content-length:999\n\nxy",
                b"".join([b"%d:b\n" % n for n in range(200)]) + b"\n", b"a:%b\n\n" % (b"x" * 9000),
                b"\n%b" % (b"x" * LARGE),
                b"content-length:%d\n\n%b" % (LARGE, b"x" * LARGE),
                b"content-length:%d\n\n%b" % (LARGE, b"\0" * LARGE),
            )
        ],
    ],
)  # fmt: skip
def test_what_is_not_usual_is_left_where_it_stands(stop):
    assert read(stop + WILD)[:3] == (-1, [], stop + WILD)
    _, records, rest, _ = read(WILD + stop)
    assert (len(records), rest.lstrip(b"\n")) == (2, stop.lstrip(b"\n"))


@pytest.mark.parametrize("more", [b"S", b"SEND\ndestination:d", b"SEND\ndestination:d\n\nhalf"])
def test_what_is_not_whole_is_left_where_it_stands(more):
    assert read(WILD + more)[:3] == (2, read(WILD)[1], more)


def test_a_frame_over_the_limit_is_left_and_so_are_many_empty_lines():
    settings, intake = WireSettings(max_frame_bytes=60), Intake(WILD + WILD.replace(b"one", b"x" * 60), True, 0)
    SendReader(Version.V12, settings, Families(8, Version.V12)).read(intake, 99, lambda *_: False)
    assert intake.pos == len(WILD)
    assert read(WILD + b"\n" * 9)[0] == 2 + 3


def test_a_turn_counts_frames_and_long_blocks():
    intake, reads = Intake(WILD * 3, True, 0), reader()
    reads.read(intake, 99, lambda *_: False)
    assert intake.cost == 5  # beside one for their event
    long = Intake(b"SEND\ndestination:d\n%b\n\0" % (b"a%d:\\c\n" * 50 % tuple(range(50))), True, 0)
    reads.read(long, 99, lambda *_: False)
    assert long.cost == 6


@pytest.mark.parametrize(
    "more, escaped",
    [
        (b"a:\\c", True), (b"a\\c:", True), (b"a:b:c", True), (b"receipt:\\c", False), (b"ack:\\c", False),
        (b"receipt:\\c\na:\\c", True), (b"ack:\\c\na:\\c", True), (b"receipt:a:b", False), (b"a:b", False),
        (b"persistent:\\c", True), (b"JMSXGroupID:g", False),
    ],
)  # fmt: skip
def test_escapes_show_in_the_flags_where_they_are_relayed(more, escaped):
    raw = b"SEND\ndestination:d\n%b\n\n" % more
    found = reader().find(raw)
    full = read_block(raw, Role.SERVER, Version.V12, WireSettings(), 5000, False)
    assert (found.lines, found.flags, found.receipt) == (full.lines, full.flags, full.receipt)
    assert bool(found.flags & ESCAPED) is escaped


def test_blanks_and_backslashes_of_1_0_are_left():
    assert read(b"SEND\ndestination:d\na:b\n\n\0", Version.V10)[0] == 0
    assert read(b"SEND\ndestination:d\na:b \n\n\0", Version.V10)[0] == -1
    assert read(b"SEND\ndestination:d\na:\\n\n\n\0", Version.V10)[0] == -1
    assert read(b"SEND\ndestination:d\na:\\r\n\n\0", Version.V11)[0] == -1


def test_of_plain_blocks_the_names_are_learned_and_whoever_knows_the_next_has_it():
    plain = b"SEND\ndestination:d\nreceipt:1\nn:1\n\n\0\n"
    assert read(WILD + plain * 2)[2:] == (b"", [[b"destination", b"receipt", b"n"]] * 2)
    assert read(WILD + plain + WILD, stops=True)[2] == WILD
