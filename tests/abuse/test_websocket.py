"""The WebSocket port: handshakes, RFC 6455 violations, bombs, and STOMP errors that must arrive before the end."""

from __future__ import annotations

import socket
import struct
import time
import zlib

import pytest

from broker.core.errors import Code

from .ws import BINARY, CLOSE, CONT, PING, PONG, TEXT, WebSocket, frame

MIB = 1 << 20
SETTINGS = {
    "edge.login_timeout_s": 1.0,
    "edge.ws_max_message_bytes": 256 * 1024,
    "wire.max_frame_bytes": 8 * MIB,
    "edge.ws_path": "/stomp",
}


@pytest.fixture
def opened(broker):
    """Upgrades; logged in unless told otherwise."""
    sockets = []

    def opened(login=True, **headers):
        ws = WebSocket(broker.ws_port, "/stomp", **headers)
        sockets.append(ws)
        assert ws.status == 101, ws.head
        if login:
            ws.connect()
        return ws

    yield opened
    for ws in sockets:
        ws.socket.close()


@pytest.mark.parametrize("offered", ["v10.stomp", "v10.stomp, v11.stomp, v12.stomp", "v12.stomp"])
def test_the_highest_stomp_subprotocol_is_chosen(opened, offered):
    ws = opened(login=False, Sec_WebSocket_Protocol=offered)
    assert f"sec-websocket-protocol: {sorted(offered.split(', '))[-1]}" in ws.head.lower()


def test_a_foreign_subprotocol_is_not_echoed(opened):
    assert "sec-websocket-protocol" not in opened(login=False, Sec_WebSocket_Protocol="mqtt").head.lower()


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/other", {}, 404), ("/stomp", {"Origin": "https://evil.example"}, 403), ("/stomp", {"Origin": "null"}, 403),
        ("/stomp", {"Upgrade": ""}, 426), ("/stomp", {"Sec_WebSocket_Version": "8"}, 400),
        ("/stomp", {"Sec_WebSocket_Key": "short"}, 400), ("/stomp", {"Sec_WebSocket_Key": ""}, 400),
        ("/stomp", {"Connection": "close"}, 426),
    ],
)  # fmt: skip
def test_bad_handshakes(broker, path, headers, status):
    with WebSocket(broker.ws_port, path, **headers) as ws:
        assert ws.status == status, ws.head


def test_a_bad_handshake_is_counted(broker, counted):
    with WebSocket(broker.ws_port, "/stomp", Origin="https://evil.example") as ws:
        assert ws.status == 403
        assert ws.closed() is not None
    counted("websocket_protocol")


def test_no_handshake_in_time(broker, counted):
    with socket.create_connection(("127.0.0.1", broker.ws_port), 10) as raw:
        raw.sendall(b"GET /stomp HTTP/1.1\r\n")
        answer = b""
        while data := raw.recv(4096):
            answer += data
    assert answer.startswith(b"HTTP/1.1 408")
    counted("login_timeout")


def test_no_connect_in_time(opened, counted):
    ws = opened(login=False)
    code, before = ws.closed()
    assert b"error-code:%d" % Code.LOGIN_TIMEOUT.number in before[-1]
    assert code == 1008
    counted("login_timeout")


def test_an_endless_request(broker, counted):
    with socket.create_connection(("127.0.0.1", broker.ws_port), 10) as raw:
        try:
            raw.sendall(b"GET /stomp HTTP/1.1\r\n" + b"X-A: b\r\n" * 100_000)
        except OSError:
            pass
        try:
            while raw.recv(4096):
                pass
        except ConnectionResetError:
            pass
    counted("websocket_protocol")


SEND = b"SEND\ndestination:/topic/nobody\nreceipt:r\n\nx\0"

VIOLATIONS = {
    "unmasked": (frame(TEXT, SEND, mask=False), 1002),
    "reserved-bit": (frame(TEXT, SEND, rsv=2), 1002),
    "compressed-without-asking": (frame(TEXT, SEND, rsv=4), 1002),
    "unknown-opcode": (frame(3, SEND), 1002),
    "large-ping": (frame(PING, b"x" * 126), 1002),
    "fragmented-ping": (frame(PING, b"x", fin=False), 1002),
    "continuation-of-nothing": (frame(CONT, b"x"), 1002),
    "new-message-inside-another": (frame(TEXT, b"S", fin=False) + frame(TEXT, b"S"), 1002),
    "bad-close-code": (frame(CLOSE, struct.pack("!H", 1006)), 1002),
    "absurdly-large": (frame(BINARY, b"", length=1 << 63), 1002),
}


@pytest.mark.parametrize("case", VIOLATIONS)
def test_violations_are_named(opened, counted, case):
    data, expected = VIOLATIONS[case]
    ws = opened()
    ws.send(data)
    code, _ = ws.closed()
    assert code == expected
    counted("websocket_protocol")


def test_a_large_payload_before_login(opened, counted):
    ws = opened(login=False)
    ws.send(frame(BINARY, b"CONNECT\naccept-version:1.2\nhost:" + b"x" * 65 * 1024))
    code, before = ws.closed()
    assert b"error-code:" in before[-1]
    assert code == 1009
    counted("header_too_large")


@pytest.mark.parametrize("length", [300 * 1024, 1 << 62])
def test_what_is_over_the_limit_is_refused_before_it_comes(opened, counted, length):
    ws = opened()
    ws.send(frame(BINARY, b"", length=length))
    code, before = ws.closed()
    assert b"error-code:%d" % Code.FRAME_TOO_LARGE.number in before[-1] and b"ws_max_message_bytes" in before[-1]
    assert code == 1009
    counted("frame_too_large")


def test_a_fragmented_bomb_meets_the_frame_limit_of_stomp(broker, opened, counted):
    """Endless fragments of one message: each is small, the SEND in them is not."""
    before = broker.rss()
    ws = opened()
    ws.send(frame(BINARY, b"SEND\ndestination:/topic/nobody\n\n", fin=False))
    for _ in range(80):
        ws.send(frame(CONT, b"x" * 128 * 1024, fin=False))
    code, before_close = ws.closed()
    assert b"error-code:%d" % Code.FRAME_TOO_LARGE.number in before_close[-1]
    assert code == 1009
    counted("frame_too_large")
    assert broker.rss() - before < 12 * MIB


@pytest.mark.parametrize("fill", [b"\n", b"x"])
def test_a_compressed_bomb(broker, opened, fill):
    """100 MB in 100 kB: refused by size, memory stays."""
    before = broker.rss()
    deflate = zlib.compressobj(9, wbits=-15)
    small = deflate.compress(fill * 100_000_000) + deflate.flush(zlib.Z_SYNC_FLUSH)
    ws = opened(Sec_WebSocket_Extensions="permessage-deflate")
    assert "permessage-deflate" in ws.head
    ws.send(frame(BINARY, small[:-4], rsv=4))
    code, _ = ws.closed()
    assert code in (1009, 1008)
    assert broker.rss() - before < 12 * MIB


def test_a_ping_is_answered(opened):
    ws = opened()
    ws.send(frame(PING, b"hello"))
    assert ws.read() == (PONG, b"hello")


def test_a_flood_of_pings_that_nobody_reads(broker, opened):
    before = broker.rss()
    ws = opened()
    ws.socket.settimeout(1)
    try:
        for _ in range(200):
            ws.send(frame(PING, b"x" * 125) * 1000)
    except TimeoutError:
        pass
    assert broker.rss() - before < 12 * MIB


def test_an_error_arrives_before_the_close(opened, counted):
    ws = opened()
    ws.stomp(b"NONSENSE\nreceipt:r\n\n\0")
    code, before = ws.closed()
    assert len(before) == 1
    assert b"error-code:%d" % Code.UNKNOWN_COMMAND.number in before[0] and b"receipt-id:r" in before[0]
    assert code == 1002
    counted("protocol_error")


def test_stomp_frames_may_be_cut_and_joined_in_any_way(opened):
    ws = opened()
    for byte in SEND:
        ws.stomp(bytes([byte]))
    assert b"receipt-id:r" in ws.read()[1]
    ws.stomp(SEND * 3, BINARY)
    assert [b"receipt-id:r" in ws.read()[1] for _ in range(3)] == [True] * 3
    ws.send(frame(TEXT, SEND[:10], fin=False) + frame(PING, b"") + frame(CONT, SEND[10:]))
    assert {opcode for opcode, _ in (ws.read(), ws.read())} == {PONG, TEXT}


def test_text_goes_out_as_text_and_the_rest_as_binary(opened):
    ws = opened()
    ws.stomp(b"SUBSCRIBE\nid:1\ndestination:/queue/kinds\n\n\0")
    for body, kind in ((b"plain", TEXT), ("ünï".encode(), TEXT), (b"\xff\xfe", BINARY)):
        ws.stomp(b"SEND\ndestination:/queue/kinds\ncontent-length:%d\n\n%b\0" % (len(body), body), BINARY)
        opcode, payload = ws.read()
        assert (opcode, payload.endswith(b"\n\n" + body + b"\0")) == (kind, True)


def test_closing_politely_is_answered_politely(opened, counted):
    ws = opened()
    ws.send(frame(CLOSE, struct.pack("!H", 1000)))
    assert ws.closed()[0] == 1000
    time.sleep(0.05)
    counted("client_gone")


def test_plain_stomp_on_the_websocket_port(broker, counted):
    with socket.create_connection(("127.0.0.1", broker.ws_port), 10) as raw:
        raw.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        while raw.recv(4096):
            pass
    counted("websocket_protocol")
