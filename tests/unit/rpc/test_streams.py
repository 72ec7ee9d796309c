"""Streams over gRPC as link and replication rely on them: order, ends told once, refusals told fast."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from contextlib import closing, suppress
from types import SimpleNamespace

import pytest

from broker.config.settings import ClusterSettings
from broker.rpc import options, streams
from broker.rpc.dialer import GrpcDialer
from broker.rpc.streams import EOF, GrpcStream
from broker.seams.loop_watchdog import Steps
from broker.seams.stream import Ended, EndKind
from tests.harness.shells import both_loops, run
from tests.harness.waiting import eventually
from tests.unit.rpc.stream_world import End, joined, pair, stranger


@both_loops
def test_messages_arrive_whole_and_in_order_both_ways(kind):
    run(kind, whole_and_in_order())


async def whole_and_in_order():
    odd = [b"", b"\0", b"\0\0", b"\0\x01not a farewell", b"x" * 9_000_000, bytes(range(256))]
    async with pair() as (dialer, doors, address):
        client, server = await joined(dialer, doors, address, "replica")
        assert doors.services == ["replica"]
        many = odd + [b"%d" % n for n in range(2000)]
        await eventually(lambda: not client.stream.pending)  # its first word has arrived, which is told here later
        for message in many:
            client.stream.send(message)
            server.stream.send(message)
        assert client.stream.pending == sum(map(len, many))
        await client.until(lambda end: len(end.messages) == len(many))
        await server.until(lambda end: len(end.messages) == len(many))
        assert client.messages == many
        assert server.messages == many
        assert client.stream.pending == server.stream.pending == 0
        assert client.stream.peer == address
        assert server.stream.peer.startswith("127.0.0.1:")


@pytest.mark.parametrize("closer", ["client", "server"])
async def test_close_sends_what_is_queued_and_says_why(closer):
    async with pair() as (dialer, doors, address):
        ends = await joined(dialer, doors, address)
        mine, other = ends if closer == "client" else ends[::-1]
        for n in range(100):
            mine.stream.send(b"%d" % n)
        mine.stream.close("drained: épuisé")
        mine.stream.send(b"too late")
        mine.stream.close("a second reason")
        assert not mine.closed, "on_closed from within close()"
        assert await other.end() == "drained: épuisé"
        assert await mine.end() == "drained: épuisé"
        assert other.messages == [b"%d" % n for n in range(100)]


async def test_the_other_end_hears_of_what_kind_an_end_is():
    async with pair() as (dialer, doors, address):
        mine, other = await joined(dialer, doors, address)
        mine.stream.close("no slot needs it", EndKind.ALIVE)
        assert await other.end() == await mine.end() == "no slot needs it"
        assert other.kinds == mine.kinds == [EndKind.ALIVE]
        assert await nobody(dialer) == [EndKind.REFUSED]


async def nobody(dialer):
    """How a stream ends to a port where nobody listens."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        end = End()
        dialer.dial(f"127.0.0.1:{taken.getsockname()[1]}", "edge", end)
        await end.end()
        return end.kinds


@pytest.mark.parametrize(
    "told, text, kind",
    [
        (b"alive: you were silent", "you were silent", EndKind.ALIVE),  # of a release before 0.2
        (b"drained", "drained", EndKind.CLOSED),
        (b"alive: you were silent\0\x01", "you were silent", EndKind.ALIVE),
        (b"drained\0\xc8", "drained", EndKind.CLOSED),  # of a kind to come
        (b"", "closed by the other side", EndKind.CLOSED),
    ],
)
def test_a_farewell_of_another_release_is_understood(told, text, kind):
    heard = streams._heard(told)
    assert heard == Ended(text, kind)


def test_what_an_older_release_reads_of_a_farewell_begins_as_it_knows_it():
    assert streams._farewell(Ended("bye")) == b"\0\x01bye"
    assert streams._farewell(Ended("you\0were silent", EndKind.ALIVE)) == b"\0\x01alive: you were silent\0\x01"


@pytest.mark.parametrize("closer", ["client", "server"])
async def test_abort_ends_both_sides_at_once(closer):
    async with pair() as (dialer, doors, address):
        ends = await joined(dialer, doors, address)
        mine, other = ends if closer == "client" else ends[::-1]
        begun = time.monotonic()
        mine.stream.abort("frozen")
        assert not mine.closed, "on_closed from within abort()"
        assert await mine.end() == "frozen"
        assert await other.end() != ""
        assert time.monotonic() - begun < 0.9  # a close waits for a second


async def test_close_is_bounded_when_the_other_side_does_not_read():
    """Its event loop is stuck; gRPC's core goes on answering pings."""
    with stranger() as (_, port):
        dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop())
        end = End()
        stream = dialer.dial(f"127.0.0.1:{port}", "edge", end)
        stream.send(b"sleep")
        await end.until(lambda e: e.messages)
        for _ in range(80):
            stream.send(bytes(1 << 20))
        await asyncio.sleep(0.1)
        assert stream.pending > 20 << 20
        stream.close("tired")
        begun = time.monotonic()
        assert await end.end() == "tired"
        assert 0.9 < time.monotonic() - begun < 8
        await dialer.close()


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_after_ending_it_nothing_is_heard_but_the_end(how):
    async with pair() as (dialer, doors, address):
        client = End()
        hear = client.on_message

        def once(message: bytes) -> None:
            hear(message)
            getattr(client.stream, how)("enough")

        client.on_message = once
        client.stream = dialer.dial(address, "edge", client)
        client.stream.send(b"hello")
        await eventually(lambda: doors.ends and doors.ends[0].messages)
        for n in range(100):
            doors.ends[0].stream.send(b"%d" % n)
        assert await client.end() == "enough"
        assert client.messages == [b"0"]


async def test_a_killed_peer_is_noticed_at_once():
    with stranger() as (process, port):
        dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop())
        end = End()
        dialer.dial(f"127.0.0.1:{port}", "edge", end).send(b"hello")
        await end.until(lambda e: e.messages)
        begun = time.monotonic()
        process.kill()
        why = await end.end()
        assert time.monotonic() - begun < 0.9  # and not by a ping
        assert why.startswith(("lost", "ended"))
        await dialer.close()


@pytest.mark.parametrize("how", ["loop", "process"])
async def test_a_peer_that_is_late_by_seconds_again_and_again_keeps_its_stream(how):
    """Its users may have patience with it (core/patience.py); what is below them must not end what they bear."""
    with stranger() as (process, port):
        dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop())
        end = End()
        stream = dialer.dial(f"127.0.0.1:{port}", "edge", end)
        for number, seconds in enumerate((1.2, 2.0, 3.0)):
            stream.send(b"late by %.1f" % seconds if how == "loop" else b"hello")
            await end.until(lambda e, n=number: len(e.messages) > 2 * n)
            if how == "process":
                os.kill(process.pid, signal.SIGSTOP)
            await asyncio.sleep(seconds)
            if how == "process":
                os.kill(process.pid, signal.SIGCONT)
            stream.send(b"awake")
            await end.until(lambda e, n=number: e.closed or len(e.messages) > 2 * n + 1)
            assert end.closed == []
        await dialer.close()


async def test_a_frozen_peer_is_noticed_by_the_pings():
    """Also where nobody listens to the stream; who does is told by pings of its own long before."""
    with stranger() as (process, port):
        dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop())
        end = End()
        dialer.dial(f"127.0.0.1:{port}", "edge", end).send(b"hello")
        await end.until(lambda e: e.messages)
        begun = time.monotonic()
        os.kill(process.pid, signal.SIGSTOP)
        await end.end()
        assert time.monotonic() - begun < 10
        await dialer.close()


async def test_a_quiet_stream_stays(monkeypatch):
    """gRPC's own defaults end it after the third ping."""
    monkeypatch.setattr(options, "KEEPALIVE_MS", 500)
    async with pair() as (dialer, doors, address):
        client, server = await joined(dialer, doors, address)
        await asyncio.sleep(4)
        client.stream.send(b"still here")
        await server.until(lambda end: end.messages)
        assert client.closed == server.closed == []


async def test_a_message_that_takes_long_is_named(caplog):
    """In a cluster all that owners and edges tell each other comes this way."""
    now = [0.0]
    steps = Steps(SimpleNamespace(monotonic=lambda: now[0]), cpu=lambda: 0.0)
    stream = GrpcStream(asyncio.get_running_loop(), "10.0.0.7:7000", steps.kind("message"))

    def handle(message):
        now[0] += 0.08

    stream.start(SimpleNamespace(on_message=handle, on_closed=lambda why: None), None, bool)
    messages = iter([b"one", EOF])

    async def read():
        return next(messages)

    await stream.read_all(read)
    assert "a message took 80 ms" in caplog.text and "3 bytes from 10.0.0.7:7000" in caplog.text
    _, longest, slow = steps.metrics()
    assert longest.samples == [({"step": "message"}, 0.08)] and slow.samples == [({"step": "message"}, 1.0)]
    stream.finish("over")


async def test_a_message_is_on_its_way_before_the_loop_goes_on():
    """When nothing is before it; what comes meanwhile keeps its order, and counts as pending until it is written."""
    wrote, gates = [], []

    async def write(message):
        wrote.append(message)
        gates.append(asyncio.get_running_loop().create_future())
        await gates[-1]

    stream = GrpcStream(asyncio.get_running_loop(), "peer")
    stream.send(b"before it starts")
    stream.start(None, write, bool)
    await asyncio.sleep(0)
    gates[0].set_result(None)
    await asyncio.sleep(0.01)
    assert wrote == [b"before it starts"] and stream.pending == 0
    stream.send(b"one")
    assert wrote[1:] == [b"one"] and stream.pending == 3
    stream.send(b"\0two")
    await asyncio.sleep(0.01)
    assert wrote[1:] == [b"one"] and stream.pending == 7
    gates[1].set_result(None)
    await asyncio.sleep(0.01)
    assert wrote[2:] == [b"\0\0two"] and stream.pending == 4
    gates[2].set_result(None)
    await asyncio.sleep(0.01)
    assert stream.pending == 0
    stream.finish("over")


@pytest.mark.parametrize("late", [False, True])
async def test_a_write_that_fails_ends_the_call(late):
    async def write(message):
        if late:
            await asyncio.sleep(0.01)
        raise asyncio.InvalidStateError("the call is over")

    cancelled = []
    stream = GrpcStream(asyncio.get_running_loop(), "peer")
    stream.start(None, write, lambda: cancelled.append(True))
    await asyncio.sleep(0)
    stream.send(b"m")
    await asyncio.sleep(0.05)
    assert cancelled == [True]
    stream.finish("over")
    await stream.written()


PING = b"\0\0\x08\x06"
"""So begins a PING of HTTP/2, asked or answered."""


async def test_a_heart_beat_is_answered_by_nothing_below_the_stream():
    """gRPC looks how wide the way is by a ping behind each message that comes after a pause: another round trip."""
    async with pair() as (dialer, doors, address):
        seen = [0]

        async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(65536):
                seen[0] += data.count(PING)
                writer.write(data)
            writer.close()

        writers: list[asyncio.StreamWriter] = []

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await asyncio.open_connection(*address.split(":"))
            writers.extend((writer, there[1]))
            await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

        between = await asyncio.start_server(relay, "127.0.0.1", 0)
        async with between:
            client, server = await joined(dialer, doors, f"127.0.0.1:{between.sockets[0].getsockname()[1]}")
            seen[0] = 0
            for number in range(10):
                client.stream.send(b"beat")
                await server.until(lambda end, n=number: len(end.messages) > n)
                server.stream.send(b"beat")
                await client.until(lambda end, n=number: len(end.messages) > n)
                await asyncio.sleep(0.05)
            assert seen[0] == 0
            await dialer.close()
            for writer in writers:  # gRPC closes its own when it likes
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
