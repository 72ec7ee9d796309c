"""Pieces of a large body come out in order, each once; memory is bounded, and so is the wait."""

from __future__ import annotations

import asyncio
import os

import pytest

from broker.client import ClientError, ConnectionLost, connect
from broker.client.body import BodyStream
from tests.harness.fake_server import FakeServer

BIG = os.urandom(1 << 20) * 3


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


def bodies() -> tuple[BodyStream, list[int]]:
    told: list[int] = []
    return BodyStream(told.append), told


async def test_pieces_come_out_in_order_and_memory_is_told_both_ways():
    body, told = bodies()
    body.feed(b"abc", False)
    body.feed(b"de", False)
    assert told == [3, 2]
    assert [await body.next(), await body.next()] == [b"abc", b"de"] and told == [3, 2, -3, -2]
    body.end()
    assert await body.next() == b"" and sum(told) == 0


async def test_what_memory_has_no_room_for_goes_to_disk_and_stays_in_order():
    body, told = bodies()
    body.feed(b"a", False)
    body.feed(b"b", True)
    body.feed(b"c", False)  # behind what is on disk, so it goes there, too
    body.end()
    got = b""
    while piece := await body.next():
        got += piece
    assert got == b"abc" and [n for n in told if n] == [1, -1]


async def test_a_body_that_breaks_gives_what_came_and_then_says_why():
    body, _ = bodies()
    body.feed(b"a", False)
    body.fail(lambda: ConnectionLost("gone"))
    assert await body.next() == b"a"
    for _ in range(2):
        with pytest.raises(ConnectionLost, match="gone"):
            await body.next()


async def test_a_whole_body_outlives_its_connection():
    body, _ = bodies()
    body.feed(b"a", False)
    body.end()
    body.fail(lambda: ConnectionLost("gone"))
    assert [await body.next(), await body.next()] == [b"a", b""]


async def test_nothing_of_a_body_that_is_not_wanted_is_kept():
    body, told = bodies()
    body.feed(b"abc", False)
    body.feed(b"abc", True)
    body.discard()
    body.feed(b"more", False)
    assert body.discarded and sum(told) == 0


async def test_who_waits_is_woken_by_a_piece_and_by_the_end():
    body, _ = bodies()
    for wake, expected in ((lambda: body.feed(b"a", False), b"a"), (body.end, b"")):
        waiting = asyncio.create_task(body.next())
        await asyncio.sleep(0)
        assert not waiting.done()
        wake()
        assert await asyncio.wait_for(waiting, 10) == expected
