"""Streams over a unix socket, as the link of edge processes relies on them: order, ends told once, strangers cut."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from broker.rpc import framed
from broker.rpc.framed import FAREWELL, HEAD, MOST, FramedDialer, FramedServer, FramedStream
from broker.seams.files import reached
from broker.seams.stream import EndKind
from tests.harness.shells import both_loops, run
from tests.harness.waiting import eventually
from tests.unit.rpc.stream_world import Doors, End

SERVICES = frozenset(("edge", "talk"))


@asynccontextmanager
async def pair(folder: Path):
    """(dialer, acceptor, path)"""
    doors, loop, path = Doors(), asyncio.get_running_loop(), str(folder / "s")
    server, dialer = FramedServer(loop, path, doors, SERVICES), FramedDialer(loop)
    await server.start()
    try:
        yield dialer, doors, path
    finally:
        await dialer.close()
        await server.stop()
    assert "s" not in os.listdir(folder)


async def joined(dialer, doors, path, service="edge"):
    end = End()
    end.stream = dialer.dial(path, service, end)
    await eventually(lambda: doors.ends)
    return end, doors.ends[-1]


@both_loops
def test_messages_arrive_whole_and_in_order_both_ways(kind, tmp_path):
    run(kind, whole_and_in_order(tmp_path))


async def whole_and_in_order(folder):
    async with pair(folder) as (dialer, doors, path):
        client, server = await joined(dialer, doors, path, "talk")
        assert doors.services == ["talk"]
        many = [b"", b"\0", b"x" * 9_000_000, bytes(range(256)), *(b"%d" % n for n in range(2000))]
        for message in many:
            client.stream.send(message)
            server.stream.send(message)
        await client.until(lambda end: len(end.messages) == len(many))
        await server.until(lambda end: len(end.messages) == len(many))
        assert client.messages == server.messages == many
        assert client.stream.pending == server.stream.pending == 0
        assert server.stream.peer.startswith("process ")


@both_loops
def test_close_says_what_is_queued_and_why(kind, tmp_path):
    run(kind, says_why(tmp_path))


async def says_why(folder):
    async with pair(folder) as (dialer, doors, path):
        client, server = await joined(dialer, doors, path)
        server.stream.send(b"last")
        server.stream.close("drained: épuisé", EndKind.ALIVE)
        server.stream.send(b"too late")
        assert await client.end() == "drained: épuisé"
        assert client.messages == [b"last"] and client.kinds == [EndKind.ALIVE]
        assert await server.end() == "drained: épuisé"


@both_loops
def test_what_was_sent_leaves_before_the_dialer_closes(kind, tmp_path):
    run(kind, leaves_before(tmp_path))


async def leaves_before(folder):
    async with pair(folder) as (dialer, doors, path):
        ended, server = await joined(dialer, doors, path)
        client = End()
        client.stream = dialer.dial(path, "edge", client)
        await eventually(lambda: len(doors.ends) == 2)
        many = [bytes([n]) * 100_000 for n in range(100)]
        for message in many:
            ended.stream.send(message)
            client.stream.send(message)
        ended.stream.close("as its user says")
        await dialer.close()
        other = doors.ends[1]
        assert [await server.end(), await other.end()] == ["as its user says", "stopping"]
        assert server.messages == other.messages == many
        assert ended.closed == ["as its user says"] and client.closed == ["stopping"]


async def test_who_does_not_read_holds_up_a_closing_dialer_for_a_short_time_only(tmp_path, monkeypatch):
    monkeypatch.setattr(framed, "FAREWELL_S", 0.05)
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(Deaf, str(tmp_path / "s"))
    end, dialer = End(), FramedDialer(loop)
    end.stream = dialer.dial(str(tmp_path / "s"), "edge", end)
    end.stream.send(b"x" * 9_000_000)
    await eventually(lambda: Deaf.made)
    async with asyncio.timeout(10):
        await dialer.close()
    assert end.closed == ["stopping"]
    server.close()
    for transport in Deaf.made:
        transport.abort()


class Deaf(asyncio.Protocol):
    """Reads nothing."""

    made: ClassVar[list[asyncio.Transport]] = []

    def connection_made(self, transport):
        transport.pause_reading()
        self.made.append(transport)


async def test_a_broken_connection_is_lost_and_said_once(tmp_path):
    async with pair(tmp_path) as (dialer, doors, path):
        client, server = await joined(dialer, doors, path)
        client.stream.abort("enough")
        assert await client.end() == "enough"
        await server.end()
        assert server.kinds == [EndKind.LOST]


async def test_nobody_there_is_refused(tmp_path):
    end = End()
    stream = FramedDialer(asyncio.get_running_loop()).dial(str(tmp_path / "none"), "edge", end)
    stream.send(b"is never sent")
    assert stream.pending
    await end.end()
    assert end.kinds == [EndKind.REFUSED]


async def test_given_up_before_it_stood(tmp_path):
    async with pair(tmp_path) as (dialer, doors, path):
        closed, aborted = End(), End()
        dialer.dial(path, "edge", closed).close("not wanted")
        dialer.dial(path, "edge", aborted).abort("nor this one")
        assert [await closed.end(), await aborted.end()] == ["not wanted", "nor this one"]
        await asyncio.sleep(0.05)
        assert not doors.ends


async def test_an_unknown_service_is_cut(tmp_path):
    async with pair(tmp_path) as (dialer, doors, path):
        end = End()
        dialer.dial(path, "replica", end)
        await end.end()
        assert not doors.ends


async def test_another_user_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(framed, "peer_of", lambda transport: (7, 123_456))
    async with pair(tmp_path) as (dialer, doors, path):
        end = End()
        dialer.dial(path, "edge", end)
        await end.end()
        assert not doors.ends


class Transport:
    """Of a stream that is fed by hand."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.aborted = self.closed = False

    def write(self, data):
        self.written.append(data)

    def writelines(self, pieces):
        self.written += pieces

    def close(self):
        self.closed = True

    def abort(self):
        self.aborted = True


async def fed(pieces):
    """End and transport after these reads."""
    stream, end, transport = FramedStream(asyncio.get_running_loop(), "x"), End(), Transport()
    stream.start(end, lambda _: None)
    stream.connection_made(transport)
    for piece in pieces:
        stream.data_received(piece)
    return stream, end, transport


async def test_however_the_bytes_come_the_messages_are_the_same():
    many = [b"", b"a", b"bc" * 500, b"d"]
    raw = b"".join(len(each).to_bytes(HEAD, "little") + each for each in many)
    for size in (1, 2, 3, 7, 1000, len(raw)):
        _, end, _ = await fed([raw[at : at + size] for at in range(0, len(raw), size)])
        assert end.messages == many


async def test_a_message_beyond_the_bound_is_not_waited_for():
    _, end, transport = await fed([(MOST + 1).to_bytes(HEAD, "little")])
    assert transport.aborted and not end.messages


async def test_nothing_comes_behind_a_farewell():
    text = bytes([99]) + b"who knows"
    farewell = (FAREWELL | len(text)).to_bytes(HEAD, "little") + text
    stream, end, transport = await fed([farewell + b"\1\0\0\0x"])
    stream.connection_lost(None)
    assert transport.closed and not end.messages
    assert end.closed == ["who knows"] and end.kinds == [EndKind.CLOSED], "a kind of another release is none"


@pytest.mark.parametrize("length", [20, 300])
async def test_a_long_path_is_reached_as_well(tmp_path, length):
    folder = tmp_path / ("d" * (length // 2)) / ("e" * (length // 2))
    folder.mkdir(parents=True)
    async with pair(folder) as (dialer, doors, path):
        await joined(dialer, doors, path)
    with reached("/tmp/short") as short:
        assert short == "/tmp/short"
