"""A connection: what may come before and behind what, large bodies in pieces, and small while it is idle."""

from __future__ import annotations

import tracemalloc

import pytest

from broker.config.settings import WireSettings
from broker.wire.connection import Connection, Role
from broker.wire.events import Acks, BodyEnd, Frame
from broker.wire.memo import Memo
from broker.wire.versions import Version

from .cutting import (
    ALL,
    COMPILED,
    HEAD,
    SMALL,
    V12,
    client,
    cut_everywhere,
    feed,
    logged_in,
    one,
    sent,
    small,
    small_stranger,
    stranger,
    violation,
)


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
    assert event.data == piece and (event.data is piece or COMPILED)
    assert connection.mid_frame
    assert len(connection._held) == 0


def test_client_streams_large_messages():
    def client():
        return Connection(Role.CLIENT, SMALL)

    body = b"m" * 2000
    message = b"MESSAGE\ndestination:d\nmessage-id:1\nsubscription:s\ncontent-length:2000\n\n%b\0" % body
    flat = cut_everywhere(b"CONNECTED\nversion:1.2\n\n\0" + message, client)
    assert flat[1] == ("START", "MESSAGE", b"", 2000, None, body)


def test_memory_of_an_idle_connection():
    settings, memo = WireSettings(), Memo(100)
    logged_in(V12, settings, memo)
    tracemalloc.start()
    kept = [logged_in(V12, settings, memo) for _ in range(100)]
    size = tracemalloc.get_traced_memory()[0] / len(kept)
    tracemalloc.stop()
    assert size < 400


def test_what_stands_before_a_frame_in_the_same_read_does_not_count_for_its_size():
    """Of a body without a content-length that is not complete, either."""
    earlier = HEAD + b"\n" + b"x" * 900 + b"\0"
    connection = small()
    events = feed(connection, [earlier * 6 + HEAD + b"\n" + b"y" * 900, b"\0"])
    assert [event[0] for event in events].count("SEND") == 7


@pytest.mark.parametrize("frame", [b"SEND\ndestination:d\n\n\0", b"NACK\nid:1\n\n\0", b"DISCONNECT\n\n\0"])
def test_frames_before_connect(frame):
    assert violation(frame, stranger) == "NOT_CONNECTED"


@pytest.mark.parametrize("version", ALL)
def test_second_connect(version):
    assert violation(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", sent(version)) == "ALREADY_CONNECTED"
    assert violation(b"STOMP\naccept-version:1.2\nhost:h\n\n\0", sent(version)) == "ALREADY_CONNECTED"


def test_frames_after_disconnect():
    assert violation(b"DISCONNECT\nreceipt:1\n\n\0SEND\ndestination:d\n\n\0", sent(V12)) == "AFTER_DISCONNECT"
    assert one(b"DISCONNECT\n\n\0\n\n", sent(V12))[0] == "DISCONNECT"


def test_bytes_behind_connect_wait_for_the_decision():
    connection = stranger()
    behind = b"SEND\ndestination:a\\cb\nreceipt:1\n\n\0"
    [connect] = connection.receive(b"CONNECT\naccept-version:1.2\n\n\0" + behind[:10])
    assert isinstance(connect, Frame)
    assert not connection.mid_frame
    assert connection.receive(behind[10:]) == []
    assert len(connection._held) == len(behind)
    connection.accept_login(V12)
    [event] = connection.receive(b"")
    assert event.head.headers["destination"] == "a:b"


def test_nothing_comes_after_a_violation():
    connection = sent(V12)()
    assert len(connection.receive(b"HELLO\n\n\0")) == 1
    assert connection.receive(b"SEND\ndestination:d\n\n\0") == []
    assert not connection.mid_frame


def test_mid_frame():
    connection = sent(V12)()
    for piece, inside in ((b"\n", False), (b"SE", True), (b"ND\ndestination:d\n\nbo", True), (b"dy\0\n", False)):
        connection.receive(piece)
        assert connection.mid_frame is inside


def test_wrong_doors():
    assert violation(b"\x16\x03\x01\x02", stranger) == "TLS_ON_PLAIN_PORT"
    assert violation(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", stranger) == "HTTP_ON_STOMP_PORT"
    assert violation(b"CONNECT h:443 HTTP/1.1\r\n\r\n", stranger) == "HTTP_ON_STOMP_PORT"


def test_client_takes_the_version_of_connected_at_once():
    stream = b"CONNECTED\nversion:1.2\n\n\0MESSAGE\r\ndestination:a\\cb\r\nmessage-id:1\r\nsubscription:s\r\n\r\nhi\0"
    frames = cut_everywhere(stream, client)
    assert frames[1] == ("MESSAGE", {"destination": "a:b", "message-id": "1", "subscription": "s"}, b"hi", None)


def test_client_reads_an_error_before_connected():
    assert one(b"ERROR\nmessage:no\n\nwhy\0", client)[:3] == ("ERROR", {"message": "no"}, b"why")


@pytest.mark.parametrize("frame", [b"MESSAGE\nmessage-id:1\nsubscription:1\n\n\0", b"RECEIPT\n\n\0"])
def test_client_checks_what_servers_must_send(frame):
    assert violation(b"CONNECTED\nversion:1.1\n\n\0" + frame, client) == "MISSING_HEADER"


def test_client_refuses_an_unknown_version():
    assert violation(b"CONNECTED\nversion:3.0\n\n\0", client) == "VERSION_MISMATCH"


def test_a_large_body_is_told_in_pieces_that_hold_something():
    connection = small()
    connection.receive(HEAD + b"content-length:2000\n\n" + b"z" * 2000)
    assert [type(event) for event in connection.receive(b"\0")] == [BodyEnd]


def test_a_frame_behind_thousands_of_line_ends_is_taken_with_the_same_read():
    connection = sent(V12)()
    events = connection.receive(
        b"\n" * 5000 + b"BEGIN\ntransaction:1\n\n\0" + b"\r\n" * 5000 + b"ABORT\ntransaction:1\n\n\0"
    )
    assert [event.command for event in events] == ["BEGIN", "ABORT"] and connection.eols == 10_000


@pytest.mark.parametrize(
    ("version", "headers"),
    [
        (Version.V10, b"message-id:7"), (Version.V10, b"message-id:7\nsubscription:s"),
        (Version.V11, b"message-id:7\nsubscription:s"), (V12, b"id:7"),
    ],
)  # fmt: skip
def test_an_ack_of_an_id_alone_joins_its_neighbours_however_it_is_read(version, headers):
    """Also where the short cut does not: another order of headers, CR LF in 1.2."""
    for first, more in ((b"", b""), (b"", b"\nreceipt:r"), (b"receipt:r\n", b"")):
        frame = b"ACK\n" + first + headers + more + b"\n\n\0"
        [acks] = sent(version)().receive(frame * 3)
        assert isinstance(acks, Acks) and list(acks.ids) == [b"7"] * 3, frame
    if version is V12:
        assert isinstance(sent(V12)().receive(b"ACK\r\nid:7\r\n\r\n\0")[0], Acks)


@pytest.mark.parametrize("more", [b"transaction:t\n\n\0", b"content-length:1\n\nx\0"])
@pytest.mark.parametrize("version", [Version.V10, Version.V11])
def test_an_ack_that_says_more_is_a_frame(version, more):
    [event] = sent(version)().receive(b"ACK\nmessage-id:7\nsubscription:s\n" + more)
    assert isinstance(event, Frame) and event.headers["message-id"] == "7"
