"""Feeds bytes to a Connection in every way they may be cut, and flattens events so that grouping does not matter."""

from __future__ import annotations

import os
import random

import broker.wire.connection
from broker.config.settings import WireSettings
from broker.core.message import ESCAPED, GROUPED, TEXT, is_text
from broker.wire.connection import Connection, Role
from broker.wire.events import Acks, BodyData, BodyEnd, BodyStart, Frame, Sends, Violation
from broker.wire.heads import SIGNIFICANT
from broker.wire.versions import Version

COMPILED = not broker.wire.connection.__file__.endswith(".py")
"""The reader is the one of make test-compiled: it copies slices that are all of their bytes, and takes no stand-ins."""
assert COMPILED or "COMPILED" not in os.environ, "the reader was to be a compiled one"
CONNECT = b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:h\n\n\0"
V10, V11, V12 = Version.V10, Version.V11, Version.V12


def logged_in(version=V12, settings=None, memo=None):
    """A server-side connection that has accepted CONNECT."""
    connection = Connection(Role.SERVER, settings or WireSettings(), memo)
    [event] = connection.receive(CONNECT)
    assert event.command == "CONNECT"
    connection.accept_login(version)
    return connection


def stranger(role=Role.SERVER, settings=None):
    return Connection(role, settings or WireSettings())


def flatten(events):
    """Events without their grouping: one tuple per frame, pieces of bodies joined, receipts of SENDs and ACKs at
    the end (a group does not say which of its frames asked)."""
    flat, receipts = [], []
    for event in events:
        match event:
            case Sends():
                headers = {name: value for name, value in event.head.headers.items() if name in SIGNIFICANT}
                for record in event.records:
                    message = event.head.lines + record
                    flat.append(("SEND", length_last(message), flags_of(message, event.head.flags), headers))
                assert event.nbytes == sum(len(event.head.lines) + len(record) for record in event.records)
                receipts += event.receipts or []
            case Acks():
                subscriptions = event.subscriptions or [None] * len(event.ids)
                flat += [("ACK", id, sub) for id, sub in zip(event.ids, subscriptions, strict=True)]
                receipts += event.receipts or []
            case Frame():
                flat.append((event.command, event.headers, event.body, event.receipt))
            case BodyStart():
                assert not event.head.whole
                flat.append(("START", event.command, event.head.lines, event.length, event.receipt, b""))
            case BodyData():
                flat[-1] = (*flat[-1][:-1], flat[-1][-1] + event.data)
            case BodyEnd():
                flat.append(("END",))
            case Violation():
                assert event.detail, "a complaint says what to do"
                flat.append(("VIOLATION", event.code.name, event.receipt))
    return [*flat, ("RECEIPTS", receipts)]


def length_last(message):
    """A message with its content-length behind all other header lines, whoever has given it."""
    lines, empty, body = message.partition(b"\n\n")
    rows = lines.split(b"\n")
    return b"\n".join(sorted(rows, key=lambda row: row.startswith(b"content-length:"))) + empty + body


def flags_of(message, flags):
    """Those of this message, of a group of which some have these."""
    if flags & TEXT and not is_text(message):
        flags &= ~TEXT
    lines = b"\n" + message.partition(b"\n\n")[0]
    if b"\\" not in lines:
        flags &= ~ESCAPED
    if b"\nJMSXGroupID:" not in lines:
        flags &= ~GROUPED
    return flags


def feed(connection, pieces):
    events = []
    for piece in pieces:
        events += connection.receive(piece)
    return flatten(events)


def cuts(data, seed):
    """`data` in random pieces."""
    rng = random.Random(seed)
    at, pieces = 0, []
    while at < len(data):
        size = rng.choice((1, 2, 3, 7, 20, 100, 1000))
        pieces.append(data[at : at + size])
        at += size
    return pieces


def cut_everywhere(data, make=logged_in, trailing=b"\n"):
    """The flat events of `data`, which must be the same whole, octet by octet, at seeded random cuts, and with
    heart-beats behind it."""
    whole = feed(make(), [data])
    assert feed(make(), [data[i : i + 1] for i in range(len(data))]) == whole
    for seed in range(3):
        assert feed(make(), cuts(data, seed)) == whole
    assert feed(make(), [data + trailing]) == whole
    return whole


def one(data, make=logged_in):
    """The only frame of `data`, flat."""
    frames = cut_everywhere(data, make)[:-1]
    assert len(frames) == 1, frames
    return frames[0]


def violation(data, make=logged_in):
    """The name of the code `data` ends with."""
    kind, code, *_ = cut_everywhere(data, make)[-2]
    assert kind == "VIOLATION"
    return code


def sent(version):
    """A `make` for connections of a version."""

    def make(memo=None):
        return logged_in(version, memo=memo)

    return make


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


ALL = [V10, V11, V12]


def client():
    return Connection(Role.CLIENT, stranger()._settings)
