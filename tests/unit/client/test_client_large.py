"""Large bodies and bounded memory."""

import asyncio
import os

import pytest

from broker.client import ClientError, ConnectionLost, connect
from tests.harness.fake_server import FakeServer

BIG = os.urandom(1 << 20) * 3


async def pieces_of(body, size=100_000):
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def test_file_round_trip(tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(BIG)
    async with FakeServer() as server, connect(server.url, large_body_bytes=65536, buffer_bytes=200_000) as client:
        async with client.subscribe("/queue/big") as sub:
            sending = asyncio.create_task(client.send_file("/queue/big", source, receipt=False))
            message = await anext(sub)
            assert message.large and message.length == len(BIG)
            with pytest.raises(ClientError, match="large"):
                _ = message.body
            assert await message.save(target) == len(BIG)
            await sending
        assert target.read_bytes() == BIG


@pytest.mark.parametrize("length", [None, len(BIG)])
async def test_stream_with_and_without_a_length(length):
    async with FakeServer() as server, connect(server.url) as client:
        await client.send_file("/queue/big", pieces_of(BIG), length, {"k": "v"})
        ((headers, body),) = server.frames("SEND")
        assert body == BIG and headers["k"] == "v"


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


@pytest.mark.parametrize("length", [len(BIG) - 1, len(BIG) + 1])
async def test_a_stream_of_another_length_ends_the_connection(length):
    async with FakeServer() as server:
        client = await connect(server.url)
        with pytest.raises(ClientError, match="does not match"):
            await client.send_file("/queue/big", pieces_of(BIG), length)
        with pytest.raises(ConnectionLost):
            await client.send("/queue/a", b"")
        await client.close()


async def test_unreadable_file_leaves_the_connection_alone(tmp_path):
    async with FakeServer() as server, connect(server.url) as client:
        with pytest.raises(ClientError, match="cannot read"):
            await client.send_file("/queue/a", tmp_path / "none")
        await client.send("/queue/a", b"", receipt=True)


async def test_a_large_body_that_nobody_reads_is_skipped():
    async with (
        FakeServer() as server,
        connect(server.url, large_body_bytes=65536, buffer_bytes=100_000) as client,
        client.subscribe("/queue/a") as sub,
    ):
        server.publish("/queue/a", BIG)
        server.publish("/queue/a", b"next")
        first = await anext(sub)
        second = await anext(sub)
        assert second.body == b"next"
        with pytest.raises(ClientError, match="discarded"):
            await first.read()


async def test_leaving_a_stream_early_discards_the_rest():
    async with (
        FakeServer() as server,
        connect(server.url, large_body_bytes=65536, buffer_bytes=100_000) as client,
        client.subscribe("/queue/a") as sub,
    ):
        server.publish("/queue/a", BIG)
        server.publish("/queue/a", b"next")
        stream = (await anext(sub)).stream()
        assert BIG.startswith(await anext(stream))
        await stream.aclose()
        assert (await anext(sub)).body == b"next"


async def test_connection_lost_in_the_middle_of_a_body():
    async with FakeServer() as server:
        client = await connect(server.url, large_body_bytes=65536)
        async with client.subscribe("/queue/a") as sub:
            head = b"MESSAGE\nsubscription:s1\nmessage-id:1\ndestination:/queue/a\ncontent-length:100000\n\n"
            server.peers[0].write(head + b"x" * 70_000)
            message = await anext(sub)
            server.peers[0].writer.close()
            with pytest.raises(ConnectionLost):
                await message.read()
        await client.close()


async def test_reading_stops_when_much_is_unread_and_goes_on_later():
    async with (
        FakeServer() as server,
        connect(server.url, buffer_bytes=50_000) as client,
        client.subscribe("/queue/a") as sub,
    ):
        for i in range(3000):
            server.publish("/queue/a", b"%04d" % i + b"x" * 1000)
        first = await anext(sub)
        assert first.body.startswith(b"0000")
        for _ in range(200):
            await asyncio.sleep(0)
        # A read may pass the bound by what one read brings, and no more.
        assert client._held < 50_000 + 2 * 256 * 1024
        rest = [await anext(sub) for _ in range(2999)]
        assert [int(m.body[:4]) for m in rest] == list(range(1, 3000))
        assert client._held == 0


async def test_a_receipt_behind_unread_messages_is_found():
    async with (
        FakeServer() as server,
        connect(server.url, buffer_bytes=100_000, receipt_timeout=5) as client,
        client.subscribe("/queue/a") as sub,
    ):
        for _ in range(1000):
            server.publish("/queue/a", b"x" * 1000)
        await anext(sub)
        await client.send("/queue/other", b"", receipt=True)
        assert len([await anext(sub) for _ in range(999)]) == 999


async def test_a_receipt_behind_a_large_unread_body_is_found_and_the_body_is_whole():
    async with (
        FakeServer() as server,
        connect(server.url, large_body_bytes=65536, buffer_bytes=100_000, receipt_timeout=5) as client,
        client.subscribe("/queue/a") as sub,
    ):
        server.publish("/queue/a", BIG)
        message = await anext(sub)
        await client.send("/queue/other", b"", receipt=True)
        assert client._held < 1 << 20
        assert await message.read() == BIG
        assert client._held == 0
