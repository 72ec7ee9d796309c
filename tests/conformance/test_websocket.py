"""STOMP over WebSocket: the same rules, one message per frame out, any cut in; large bodies as fragments."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from websockets.sync.client import ClientConnection, connect

from broker.core.errors import Code
from tests.harness import Broker, Client, build

from .checks import every_version

MIB = 1 << 20
SUBPROTOCOLS = {"1.0": "v10.stomp", "1.1": "v11.stomp", "1.2": "v12.stomp"}


@pytest.fixture
def cut() -> str:
    return "whole"


class Ws:
    """A logged-in STOMP client over the `websockets` package: whole frames in and out."""

    def __init__(self, stack: ExitStack, broker: Broker, version: str, **headers: str) -> None:
        protocols = [SUBPROTOCOLS[version]]
        url = f"ws://127.0.0.1:{broker.ws_port}/"
        made = connect(url, subprotocols=protocols, max_size=None)  # type: ignore[arg-type]
        self.socket: ClientConnection = stack.enter_context(made)
        assert self.socket.subprotocol == SUBPROTOCOLS[version]
        self.send("CONNECT", {"accept-version": version, "host": "x"} | headers)
        assert self.read().startswith(b"CONNECTED\n")

    def send(self, command: str, headers: dict[str, object], body: bytes = b"") -> None:
        data = build(command, headers, body)
        self.socket.send(data if b"\xff" in body else data.decode())

    def read(self) -> bytes:
        """The next frame; heart-beats are skipped."""
        while True:
            data = self.socket.recv(timeout=30)
            frame = data.encode() if isinstance(data, str) else data
            if frame != b"\n":
                return frame

    def ask(self, command: str, headers: dict[str, object], body: bytes = b"") -> None:
        self.send(command, headers | {"receipt": "r"}, body)
        assert self.read().startswith(b"RECEIPT\nreceipt-id:r\n")


@pytest.fixture
def web(broker) -> Iterator[object]:
    with ExitStack() as stack:
        yield lambda version="1.2", **headers: Ws(stack, broker, version, **headers)
    assert broker.alive


@every_version
@pytest.mark.parametrize("body", ["žluťoučký 🐎".encode(), b"\0\xff\xfe\0", b""])
def test_bodies_cross_between_tcp_and_websocket(join, web, queue, version, body):
    tcp, ws = join(version), web(version)
    tcp.subscribe(queue + ".tcp")
    ws.ask("SUBSCRIBE", {"id": "1", "destination": queue + ".ws"})
    tcp.publish(queue + ".ws", body)
    assert ws.read().endswith(b"\n\n" + body + b"\0")
    ws.send("SEND", {"destination": queue + ".tcp", "content-length": len(body)}, body)
    assert tcp.read().body == body


@every_version
def test_every_frame_is_a_message_of_its_own(join, web, queue, version):
    tcp, ws = join(version), web(version)
    ws.ask("SUBSCRIBE", {"id": "1", "destination": queue})
    tcp.raw(build("SEND", {"destination": queue}, b"x") * 50)
    for _ in range(50):
        frame = ws.read()
        assert frame.startswith(b"MESSAGE\n") and frame.count(b"\0") == 1 and frame.endswith(b"x\0")
    ws.socket.send("".join(build("SEND", {"destination": queue, "receipt": n}).decode() for n in range(3)))
    frames = [ws.read() for _ in range(6)]
    assert [f for f in frames if f.startswith(b"RECEIPT")] == [b"RECEIPT\nreceipt-id:%d\n\n\0" % n for n in range(3)]


@every_version
def test_a_large_message_there_and_back(join, web, queue, version):
    """In as fragments, out as fragments; small frames behind it come after it."""
    tcp, ws = join(version), web(version)
    body = random.Random(3).randbytes(3 * MIB)
    ws.ask("SUBSCRIBE", {"id": "1", "destination": queue})
    data = build("SEND", {"destination": queue, "content-length": len(body)}, body)
    ws.socket.send(data[start : start + 100_000] for start in range(0, len(data), 100_000))
    tcp.publish(queue + ".other", b"")
    ws.send("SEND", {"destination": queue}, b"behind")
    head, _, rest = ws.read().partition(b"\n\n")
    assert b"content-length:%d" % len(body) in head
    assert rest[-1:] == b"\0" and hash(rest[:-1]) == hash(body)
    assert ws.read().endswith(b"behind\0")


@every_version
@pytest.mark.parametrize("size", [200_000, 30 * MIB], ids=["200k", "30M"])
def test_a_large_message_of_one_frame_there_and_back_as_text(broker, web, queue, version, size):
    """As @stomp/stompjs sends it in its default mode, and as clients that know nothing but texts must get it."""
    ws = web(version)
    text = "Grüße, 東京 🐘. " * (size // 24)
    before = broker.rss()
    ws.ask("SUBSCRIBE", {"id": "1", "destination": queue})
    ws.socket.send(build("SEND", {"destination": queue}, text.encode()).decode())
    ws.send("SEND", {"destination": queue}, b"behind")
    got = ws.socket.recv(timeout=60)
    assert isinstance(got, str)
    assert hash(got.partition("\n\n")[2]) == hash(text + "\0")
    assert ws.read().endswith(b"behind\0")
    assert broker.rss() - before < 16 * MIB


def test_a_large_body_that_is_no_text_comes_as_binary(join, web, queue):
    """UTF-8 to its last byte but one: a text message that is not valid would end the connection in a browser."""
    ws, tcp = web(), join()
    ws.ask("SUBSCRIBE", {"id": "1", "destination": queue})
    body = b"x" * 999_999 + b"\xc3"
    tcp.publish(queue, body)
    got = ws.socket.recv(timeout=30)
    assert isinstance(got, bytes) and got.endswith(body + b"\0")


@pytest.mark.parametrize("version", ["1.1", "1.2"], ids=["v11", "v12"])
def test_heart_beats_are_messages_of_one_line_feed(web, version):
    ws = web(version, **{"heart-beat": "0,500"})
    start = time.monotonic()
    beats = 0
    while time.monotonic() - start < 1.3:
        assert ws.socket.recv(timeout=30) == "\n"
        beats += 1
    assert 2 <= beats <= 8


@every_version
def test_acks_and_transactions_over_websocket(join, web, queue, version):
    ws, tcp = web(version), join(version)
    ws.ask("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client"})
    tcp.publish(queue, b"x", persistent="true")
    headers = dict(line.split(":", 1) for line in ws.read().decode().split("\n\n")[0].split("\n")[1:])
    id = {"id": headers["ack"]} if version == "1.2" else {"message-id": headers["message-id"], "subscription": "1"}
    ws.ask("BEGIN", {"transaction": "t"})
    ws.ask("ACK", id | {"transaction": "t"})
    ws.ask("SEND", {"destination": queue + ".out", "transaction": "t"}, b"done")
    ws.ask("COMMIT", {"transaction": "t"})
    ws.ask("DISCONNECT", {})
    tcp.subscribe(queue + ".out")
    assert tcp.read().body == b"done"


@every_version
def test_an_error_is_readable_before_the_close(web, version):
    ws = web(version)
    ws.send("SEND", {"destination": "/nonsense", "receipt": "r"})
    frame = ws.read()
    assert frame.startswith(b"ERROR\n") and b"error-code:%d\n" % Code.BAD_DESTINATION.number in frame
    assert b"receipt-id:r\n" in frame
    with pytest.raises(Exception, match=r"1008|policy|refused"):
        ws.read()


@every_version
def test_a_websocket_that_vanishes_gives_its_messages_back(join, web, queue, version):
    ws, tcp = web(version), join(version)
    ws.ask("SUBSCRIBE", {"id": "1", "destination": queue, "ack": "client"})
    tcp.publish(queue, b"x")
    ws.read()
    ws.socket.socket.close()
    tcp.subscribe(queue)
    message = tcp.read()
    assert (message.body, message["redelivered"]) == (b"x", "true")


def test_a_slow_websocket_reader_gets_a_large_message_in_one_piece(broker, web, queue):
    """The pieces wait for the socket; nothing else gets between them, heart-beats included."""
    ws = web("1.2", **{"heart-beat": "0,500"})
    body = random.Random(4).randbytes(8 * MIB)
    with Client(broker.port, timeout=30) as tcp:
        tcp.connect()
        ws.ask("SUBSCRIBE", {"id": "1", "destination": queue})
        before = broker.rss()
        tcp.publish(queue, body)
        tcp.publish(queue, b"behind")
        time.sleep(0.8)
        assert broker.rss() - before < 16 * MIB
        assert hash(ws.read().partition(b"\n\n")[2][:-1]) == hash(body)
        assert ws.read().endswith(b"behind\0")
