"""What waits for the socket leaves in order, whole; while a body is streamed nobody else may send."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from broker.client import ClientError, connect
from broker.client.outbox import UNSENT_BYTES, Outbox
from broker.client.source import Source
from tests.harness.fake_server import FakeServer

BIG = os.urandom(1 << 20) * 3


async def test_other_frames_wait_until_the_body_is_out():
    async with FakeServer() as server, connect(server.url) as client:
        gate = asyncio.Event()

        async def slow():
            yield BIG[:1000]
            await gate.wait()
            yield BIG[1000:]

        big = asyncio.create_task(client.send_file("/queue/big", slow(), len(BIG)))
        await asyncio.sleep(0)
        small = asyncio.create_task(client.send("/queue/small", b"x", receipt=True))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not small.done()
        gate.set()
        await asyncio.gather(big, small)
        assert [body for _, body in server.frames("SEND")] == [BIG, b"x"]


class Pipe:
    """A transport that takes nothing until it is let go."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.free = asyncio.Event()
        self.free.set()

    async def send(self, data: bytes) -> None:
        await self.free.wait()
        self.sent.append(data)


@asynccontextmanager
async def running(pipe: Pipe, times: list[float]) -> AsyncIterator[Outbox]:
    out = Outbox(pipe, times.pop)  # type: ignore[arg-type]
    task = asyncio.create_task(out.run())
    yield out
    task.cancel()
    await asyncio.wait([task])


async def abc() -> AsyncIterator[bytes]:
    yield b"ab"
    yield b"c"


async def turns(n: int = 10) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


async def test_what_has_gathered_leaves_as_one_piece_and_the_time_of_it_is_known():
    pipe = Pipe()
    async with running(pipe, [7.0, 3.0]) as out:
        assert out.last_sent == 3.0 and out.quiet
        out.append(b"a")
        out.append(b"b")
        assert not out.quiet
        await turns()
        assert (pipe.sent, out.last_sent, out.quiet) == ([b"ab"], 7.0, True)


async def test_callers_wait_above_the_bound_and_not_at_it():
    pipe = Pipe()
    pipe.free.clear()
    async with running(pipe, [2.0, 1.0, 0.0]) as out:
        out.append(b"x" * UNSENT_BYTES)
        await asyncio.wait_for(out.room(), 1)
        out.append(b"y")
        waiting = asyncio.create_task(out.room())
        await turns()
        assert not waiting.done()
        pipe.free.set()
        await asyncio.wait_for(waiting, 10)


async def test_a_closed_outbox_lets_everybody_go():
    pipe = Pipe()
    pipe.free.clear()
    async with running(pipe, [0.0]) as out:
        out.append(b"x" * (UNSENT_BYTES + 1))
        streaming = asyncio.create_task(out.stream(b"head", Source(3, None, abc())))
        waiting = asyncio.create_task(out.room())
        await turns()
        assert not waiting.done() and not out.quiet
        out.close()
        await asyncio.wait_for(asyncio.gather(streaming, waiting), 1)


@pytest.mark.parametrize("length", [2, 4])
async def test_a_stream_that_is_not_as_long_as_was_said_has_no_end(length):
    pipe = Pipe()
    async with running(pipe, [1.0, 0.0]) as out:
        with pytest.raises(ClientError, match=f"length of {length}"):
            await out.stream(b"head", Source(length, None, abc()))
        await turns()
        assert not b"".join(pipe.sent).endswith(b"\0")
        await asyncio.wait_for(out.room(), 1)
