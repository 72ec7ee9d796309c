"""Bytes that are not STOMP at all, and connections that come and go."""

from __future__ import annotations

import random
import socket
import struct

import pytest

from broker.core.errors import Code
from tests.harness import Broker, Client, until

HELLO = bytes.fromhex("16030100c8010000c40303") + b"\x5a" * 190
SETTINGS = {"edge.login_timeout_s": 5}


def logged(broker: Broker, reason: str) -> str:
    """The first line of the log with this reason; it may be written after the client has seen the end."""

    def lines() -> list[str]:
        return [line for line in broker.log().splitlines() if reason in line]

    until(lines, lambda: f"no line with {reason}:\n{broker.log()[-2000:]}")
    return lines()[0]


@pytest.mark.parametrize("cut", [1, 3, 200])
def test_a_tls_hello_on_the_plain_port(broker, dial, counted, cut):
    client = dial()
    client.raw(HELLO[:cut])
    client.raw(HELLO[cut:])
    try:
        assert client.read()["error-code"] == str(Code.TLS_ON_PLAIN_PORT.number)
    except Exception as error:
        assert type(error).__name__ == "ClosedByBroker"
    counted("tls_on_plain_port")
    line = logged(broker, "tls_on_plain_port")
    assert "127.0.0.1" in line and "TLS" in line


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "CONNECT x:1", "PRI"])
def test_http_on_the_plain_port(broker, dial, method):
    """CONNECT is a word of both languages: `CONNECT x:1 HTTP/1.1` is HTTP."""
    client = dial()
    client.raw(f"{method} / HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    frame = client.read()
    expected = {Code.HTTP_ON_STOMP_PORT} if " " not in method and method != "PRI" else {
        Code.HTTP_ON_STOMP_PORT, Code.UNKNOWN_COMMAND, Code.MALFORMED_FRAME, Code.NOT_CONNECTED
    }  # fmt: skip
    assert frame["error-code"] in {str(code.number) for code in expected}
    client.ended()


def test_http_on_the_plain_port_is_named_in_the_log(broker, dial, counted):
    client = dial()
    client.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    client.expect("ERROR")
    client.ended()
    counted("http_on_stomp_port")
    line = logged(broker, "http_on_stomp_port")
    assert "WebSocket" in line or "HTTP" in line


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes(broker, dial, seed):
    before = broker.rss()
    client = dial()
    client.raw(random.Random(seed).randbytes(300_000))
    assert client.read().command == "ERROR"
    client.ended()
    assert broker.rss() - before < 4_000_000


@pytest.mark.parametrize("seed", range(10))
def test_a_good_frame_with_one_byte_changed(dial, join, seed):
    """Whatever the byte: an ERROR, or a frame that is legal all the same; never silence, never a crash."""
    rng = random.Random(seed)
    good = b"SEND\ndestination:/topic/nobody\ncontent-length:3\nreceipt:r\n\nabc\0"
    for _ in range(30):
        client = join()
        position = rng.randrange(len(good))
        client.raw(good[:position] + bytes([rng.randrange(256)]) + good[position + 1 :])
        client.raw(b"\nSEND\ndestination:/topic/nobody\nreceipt:end\n\n\0" + b"\0" * 200)
        frame = client.read()
        assert frame.command in ("ERROR", "RECEIPT")
        client.close()


def test_connections_that_are_reset_at_once(broker):
    before = broker.open_files()
    for _ in range(300):
        client = Client(broker.port)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.raw(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        client.close()
    with Client(broker.port) as client:
        client.connect()
        client.nothing()
    assert broker.open_files() <= before + 20


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_nul_bytes_alone(join, version):
    client = join(version)
    client.raw(b"\0" * 1000)
    assert client.expect("ERROR")["error-code"] in (str(Code.MALFORMED_FRAME.number), str(Code.UNKNOWN_COMMAND.number))
    client.ended()
