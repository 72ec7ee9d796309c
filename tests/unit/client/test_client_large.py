"""Large bodies and bounded memory."""

import asyncio
import os

import pytest

from broker.client import ClientError, connect
from tests.harness.fake_server import FakeServer

BIG = os.urandom(1 << 20) * 3


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
