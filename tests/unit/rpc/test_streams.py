"""Streams over gRPC as link and replication rely on them: order, ends told once, refusals told fast."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, closing
from types import SimpleNamespace

import pytest

from broker.config.settings import ClusterSettings
from broker.core.errors import ConfigError
from broker.rpc import streams
from broker.rpc.dialer import GrpcDialer
from broker.rpc.server import GrpcServer
from broker.rpc.streams import EOF, GrpcStream
from broker.seams.steps import Steps
from broker.seams.stream import Ended, EndKind
from tests.harness.broker import ROOT, free_ports
from tests.harness.shells import both_loops, run
from tests.harness.waiting import eventually


class End:
    """Remembers what it heard. `closed` is the list of reasons: it must end with exactly one."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.closed: list[str] = []
        self.kinds: list[EndKind] = []
        self.changed = asyncio.Event()
        self.stream = None

    def on_message(self, message: bytes) -> None:
        assert not self.closed, "a message after the end"
        self.messages.append(message)
        self.changed.set()
        if message == b"raise":
            raise RuntimeError("a bug of the handler")

    def on_closed(self, why: str) -> None:
        self.closed.append(str(why))
        self.kinds.append(why.kind)
        self.changed.set()

    async def until(self, condition, timeout: float = 30.0) -> None:
        async with asyncio.timeout(timeout):
            while not condition(self):
                self.changed.clear()
                await self.changed.wait()

    async def end(self, timeout: float = 30.0) -> str:
        await self.until(lambda end: end.closed, timeout)
        await asyncio.sleep(0.02)
        assert len(self.closed) == 1
        return self.closed[0]


class Doors:
    """An acceptor that keeps the ends it made."""

    def __init__(self) -> None:
        self.ends: list[End] = []
        self.services: list[str] = []

    def accept(self, service, stream):
        end = End()
        end.stream = stream
        self.ends.append(end)
        self.services.append(service)
        return end


@asynccontextmanager
async def pair(**more):
    """(dialer, acceptor, address) of a server in this process."""
    doors = Doors()
    server = GrpcServer(ClusterSettings(port=0, **more), doors)
    port = await server.start()
    dialer = GrpcDialer(ClusterSettings(**more), asyncio.get_running_loop(), dial_timeout_s=0.4)
    try:
        yield dialer, doors, f"127.0.0.1:{port}"
    finally:
        await dialer.close()
        await server.stop()


async def joined(dialer: GrpcDialer, doors: Doors, address: str, service: str = "edge"):
    """(client end, server end) of a stream that stands."""
    end, count = End(), len(doors.ends)
    end.stream = dialer.dial(address, service, end)
    end.stream.send(b"hello")
    async with asyncio.timeout(5):
        await eventually(lambda: len(doors.ends) > count and doors.ends[-1].messages)
    other = doors.ends[-1]
    assert other.messages.pop() == b"hello"
    return end, other


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


async def test_nobody_listens_is_told_as_refused_and_fast():
    (port,) = free_ports(1)
    dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop())
    await refused_after(dialer, port)  # the first dial of a process also starts gRPC
    assert min([await refused_after(dialer, port) for _ in range(5)]) < 0.1


async def refused_after(dialer: GrpcDialer, port: int) -> float:
    end, begun = End(), time.monotonic()
    stream = dialer.dial(f"127.0.0.1:{port}", "edge", end)
    stream.send(b"ignored")
    await end.until(lambda e: e.closed)
    took = time.monotonic() - begun
    assert await end.end() == f"refused: nobody listens at 127.0.0.1:{port}"
    assert stream.pending == 0
    return took


async def test_a_listener_that_never_answers_is_unreachable_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop(), dial_timeout_s=0.2)
        end, begun = End(), time.monotonic()
        dialer.dial(f"127.0.0.1:{silent.getsockname()[1]}", "edge", end)
        assert (await end.end()).startswith("unreachable: ")
        assert 0.15 < time.monotonic() - begun < 5


async def test_a_listener_that_comes_back_is_reached_at_the_next_dial():
    """A fresh channel each: no back-off of an earlier failure."""
    (port,) = free_ports(1)
    dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop())
    for _ in range(3):
        await refused_after(dialer, port)
    doors = Doors()
    server = GrpcServer(ClusterSettings(port=port), doors)
    await server.start()
    begun = time.monotonic()
    await joined(dialer, doors, f"127.0.0.1:{port}")
    assert time.monotonic() - begun < 0.9  # gRPC's first back-off is a second
    await dialer.close()
    await server.stop()


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


async def test_a_peer_that_is_late_by_seconds_is_reached():
    with stranger() as (process, port):
        dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop())
        for seconds in (1.5, 3.0):
            os.kill(process.pid, signal.SIGSTOP)
            end = End()
            dialer.dial(f"127.0.0.1:{port}", "edge", end).send(b"hello")
            await asyncio.sleep(seconds)
            os.kill(process.pid, signal.SIGCONT)
            await end.until(lambda e: e.closed or e.messages)
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


async def test_a_quiet_stream_stays():
    """gRPC's own defaults end it after the third ping."""
    async with pair() as (dialer, doors, address):
        client, server = await joined(dialer, doors, address)
        await asyncio.sleep(4)
        client.stream.send(b"still here")
        await server.until(lambda end: end.messages)
        assert client.closed == server.closed == []


async def test_a_handler_that_raises_loses_its_stream_only(caplog):
    async with pair() as (dialer, doors, address):
        client, server = await joined(dialer, doors, address)
        innocent, _ = await joined(dialer, doors, address)
        client.stream.send(b"raise")
        assert await server.end() == "internal error"
        assert await client.end() == "ended by the other side"
        assert "a bug of the handler" in caplog.text
        assert innocent.closed == []


async def test_strangers_disturb_nobody_and_are_logged_once(caplog):
    async with pair() as (dialer, doors, address):
        innocent, server = await joined(dialer, doors, address)
        port = int(address.rpartition(":")[2])
        with caplog.at_level(logging.INFO, "stampede.rpc"):
            for _ in range(3):
                end = End()
                dialer.dial(address, "nonsense", end)
                assert (await end.end()).startswith("foreign: ")
        assert caplog.text.count("/stampede.v1.Link/Nonsense") == 1
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"CONNECT\n\n\0", os.urandom(3000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n"):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(garbage)
            writer.close()
        await asyncio.sleep(0.05)
        innocent.stream.send(b"fine")
        await server.until(lambda end: end.messages == [b"fine"])
        assert innocent.closed == []


async def test_stopping_tells_every_end():
    async with pair() as (dialer, doors, address):
        first, other = await joined(dialer, doors, address)
        second, _ = await joined(dialer, doors, address, "replica")
        await dialer.close()
        assert (await first.end(), await second.end()) == ("stopping", "stopping")
        assert await other.end()


async def test_a_port_that_is_taken_is_named():
    first = GrpcServer(ClusterSettings(port=0), Doors())
    second = GrpcServer(ClusterSettings(port=await first.start()), Doors())
    with pytest.raises(ConfigError, match=r"cluster\.port"):
        await second.start()
    await first.stop()


class stranger:
    """An echoing component in a process of its own, to be frozen and killed: (process, port)."""

    SOURCE = """
import asyncio
import time
from broker.config.settings import ClusterSettings
from broker.rpc.server import GrpcServer

class Echo:
    def __init__(self, stream):
        self.stream = stream
    def on_message(self, message):
        self.stream.send(message)
        if message == b"sleep":
            asyncio.get_running_loop().call_later(0.05, time.sleep, 5)
        if message[:4] == b"late":
            asyncio.get_running_loop().call_later(0.05, time.sleep, float(message[8:]))
    def on_closed(self, why):
        pass

class Doors:
    def accept(self, service, stream):
        return Echo(stream)

async def main():
    server = GrpcServer(ClusterSettings(port=0), Doors())
    print(await server.start(), flush=True)
    await asyncio.sleep(30)

asyncio.run(main())
"""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", self.SOURCE], stdout=subprocess.PIPE, cwd=ROOT)
        assert self.process.stdout is not None
        return self.process, int(self.process.stdout.readline())

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


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
