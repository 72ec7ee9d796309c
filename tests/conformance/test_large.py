"""Large messages: streamed to a file and back, byte for byte, in every version."""

from __future__ import annotations

import hashlib
import random
import socket
import threading

import pytest

from broker.core.errors import Code

from .checks import error, every_version

KIB, MIB = 1024, 1024 * 1024


@pytest.fixture
def cut() -> str:
    """A mebibyte sent byte by byte would take minutes; the cuts are the socket's."""
    return "whole"


def body_of(size: int, nul: bool = True) -> bytes:
    block = random.Random(size).randbytes(min(size, 64 * KIB))
    if not nul:
        block = block.replace(b"\0", b"\1")
    return (block * (size // len(block) + 1))[:size]


def same(got: bytes, sent: bytes) -> bool:
    """Compared by digest: a failing assert must not print megabytes."""
    return hashlib.sha256(got).digest() == hashlib.sha256(sent).digest()


@every_version
@pytest.mark.parametrize("persistent", ["false", "true"])
@pytest.mark.parametrize("size", [100 * KIB - 1, 100 * KIB, 100 * KIB + 1, MIB], ids=lambda n: f"{n}B")
def test_a_body_with_content_length_comes_back_the_same(join, queue, version, size, persistent):
    reader, writer = join(version), join(version)
    body = body_of(size)
    writer.publish(queue, body, persistent=persistent, foo="bar")
    writer.publish(queue, b"small", persistent=persistent)
    reader.subscribe(queue)
    message = reader.read()
    assert same(message.body, body)
    assert (message["foo"], message["content-length"], message["destination"]) == ("bar", str(size), queue)
    assert reader.read().body == b"small"


@every_version
@pytest.mark.parametrize("size", [99 * KIB, MIB], ids=lambda n: f"{n}B")
def test_a_body_without_content_length_comes_back_the_same(join, queue, version, size):
    client = join(version)
    client.subscribe(queue)
    body = body_of(size, nul=False)
    client.send("SEND", {"destination": queue, "receipt": "r"}, body)
    frames = {frame.command: frame for frame in (client.read(), client.read())}
    assert same(frames["MESSAGE"].body, body)
    assert frames["MESSAGE"].get("content-length") == (None if version == "1.0" else str(size))


@pytest.mark.parametrize("version", ["1.0", "1.2"], ids=["v10", "v12"])
def test_twenty_mebibytes(join, broker, queue, version):
    before = broker.rss()
    reader, writer = join(version, timeout=30), join(version, timeout=30)
    body = body_of(20 * MIB)
    reader.subscribe(queue)
    threading.Thread(target=writer.publish, args=(queue, body)).start()
    assert same(reader.read().body, body)
    assert broker.rss() - before < 16 * MIB


@every_version
def test_frames_behind_a_large_one_keep_their_order(join, queue, version):
    client = join(version)
    client.subscribe(queue)
    body = body_of(300 * KIB)
    for number in range(3):
        client.send("SEND", {"destination": queue}, b"before %d" % number)
        client.send("SEND", {"destination": queue, "content-length": len(body)}, body)
    client.send("SEND", {"destination": queue, "receipt": "r"}, b"end")
    got = [frame for frame in (client.read() for _ in range(8)) if frame.command == "MESSAGE"]
    shapes = [frame.body if len(frame.body) < 100 else same(frame.body, body) for frame in got]
    assert shapes == [b"before 0", True, b"before 1", True, b"before 2", True, b"end"]


@every_version
@pytest.mark.parametrize("kind", ["topic", "queue"])
def test_two_subscribers_of_the_same_large_message(join, name, version, kind):
    """On a topic both get it; on a queue the second gets it after the first has gone without an ACK."""
    first, second, writer = join(version), join(version), join(version)
    body = body_of(MIB)
    destination = f"/{kind}/{name}"
    first.subscribe(destination, ack="client")
    second.subscribe(destination, ack="client") if kind == "topic" else None
    writer.publish(destination, body, persistent="true")
    assert same(first.read().body, body)
    if kind == "queue":
        first.ask("DISCONNECT")
        second.subscribe(destination, ack="client")
    message = second.read()
    assert same(message.body, body)
    assert message.get("redelivered", "false") == ("true" if kind == "queue" else "false")
    second.ack(message)
    second.ask("DISCONNECT")


@every_version
def test_a_large_message_can_be_nacked_and_comes_again(join, queue, version):
    if version == "1.0":
        pytest.skip("1.0 has no NACK")
    client = join(version)
    client.subscribe(queue, ack="client-individual")
    body = body_of(200 * KIB)
    client.publish(queue, body)
    for _ in range(2):
        message = client.read()
        assert same(message.body, body)
        client.nack(message)
    client.ack(client.read())
    client.ask("DISCONNECT")


@every_version
def test_a_missing_nul_behind_a_large_body_is_an_error_and_nothing_is_kept(join, queue, version):
    client, reader = join(version), join(version)
    client.send("SEND", {"destination": queue, "content-length": 200 * KIB, "receipt": "r"}, b"x" * (200 * KIB + 1))
    frame = client.expect("ERROR")
    assert frame["error-code"] == str(Code.MISSING_NUL.number)
    reader.subscribe(queue)
    reader.nothing()


@every_version
def test_a_connection_lost_inside_a_large_body_leaves_nothing(join, broker, queue, version):
    client, reader = join(version), join(version)
    client.raw(f"SEND\ndestination:{queue}\ncontent-length:{MIB}\n\n".encode() + b"x" * (MIB // 2))
    client.socket.shutdown(socket.SHUT_RDWR)
    client.close()
    reader.subscribe(queue)
    reader.nothing()


@every_version
def test_a_consumer_lost_inside_a_large_message_gives_it_back(join, queue, version):
    writer, reader = join(version), join(version)
    gone = join(version, receive_buffer=4096)
    body = body_of(4 * MIB)
    gone.subscribe(queue, ack="client")
    writer.publish(queue, body)
    gone.socket.recv(1000)
    gone.close()
    reader.subscribe(queue, ack="client")
    message = reader.read()
    assert same(message.body, body)
    assert message["redelivered"] == "true"


@every_version
def test_large_messages_in_a_transaction_are_refused_by_name(join, queue, version):
    client = join(version)
    client.ask("BEGIN", {"transaction": "t"})
    client.send("SEND", {"destination": queue, "transaction": "t", "receipt": "r"}, body_of(200 * KIB, nul=False))
    assert b"transaction" in error(client, Code.MESSAGE_TOO_LARGE, "r").body


@every_version
def test_large_and_escaped(join, queue, version):
    """Header lines of a large message are rewritten for older clients too."""
    reader, writer = join(version), join("1.2")
    reader.subscribe(queue)
    body = body_of(150 * KIB)
    writer.publish(queue, body, foo=r"a\cb\\")
    message = reader.read()
    assert message["foo"] == ("a:b\\" if version == "1.0" else r"a\cb\\")
    assert same(message.body, body)
