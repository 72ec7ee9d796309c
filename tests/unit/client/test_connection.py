"""Client against a server on loopback: what applications rely on."""

import asyncio

import pytest

from broker.client import ClientTimeout, ConnectionLost, ServerError, connect
from tests.harness.fake_server import FakeServer
from tests.harness.waiting import eventually


async def test_headers_survive_escaping():
    nasty = {"a:b": "c\\d\ne:f\rg"}
    async with FakeServer() as server, connect(server.url) as client, client.subscribe("/queue/a") as sub:
        await client.send("/queue/a", b"", nasty)
        message = await anext(sub)
        assert message.headers["a:b"] == nasty["a:b"]
        assert message.body == b""


async def test_receipt_that_does_not_come():
    async with FakeServer() as server, connect(server.url, receipt_timeout=0.05) as client:
        server.hold_receipts = True
        with pytest.raises(ClientTimeout, match="RECEIPT of SEND"):
            await client.send("/queue/a", b"", receipt=True)
        server.release()
        await client.send("/queue/a", b"", receipt=True)


async def test_error_reaches_the_call_it_answers_and_ends_everything_else():
    async with FakeServer() as server:
        client = await connect(server.url)
        server.refuse.add("UNSUBSCRIBE")
        server.hold_receipts = False
        async with client.subscribe("/queue/a") as other:
            pending = asyncio.create_task(anext(other))
            async with client.subscribe("/queue/b") as sub:
                with pytest.raises(ServerError) as caught:
                    await sub.unsubscribe()
            assert caught.value.receipt is not None
            with pytest.raises(ServerError):
                await pending
            with pytest.raises(ServerError, match="refused"):
                await client.send("/queue/a", b"x")
        await client.close()


async def test_close_tells_of_an_error_nobody_has_seen():
    async with FakeServer() as server:
        client = await connect(server.url)
        server.refuse.add("BEGIN")
        await client.request("BEGIN", [("transaction", "t")])
        with pytest.raises(ServerError, match="refused"):
            await client.close()


async def test_connection_lost_wakes_everybody():
    async with FakeServer() as server:
        client = await connect(server.url)
        async with client.subscribe("/queue/a") as sub:
            server.hold_receipts = True
            send = asyncio.create_task(client.send("/queue/b", b"", receipt=True))
            take = asyncio.create_task(anext(sub))
            await server.until_held(1)
            server.peers[0].writer.close()
            for task in (send, take):
                with pytest.raises(ConnectionLost, match="closed the connection"):
                    await task
        await client.close()


async def test_garbage_from_the_server():
    async with FakeServer() as server:
        client = await connect(server.url)
        async with client.subscribe("/queue/a") as sub:
            server.peers[0].write(b"MESSAGE\nsubscription:s1\nmessage-id:1\ndestination:a\nbad:\\q\n\n\0")
            with pytest.raises(ConnectionLost, match="not STOMP"):
                await anext(sub)
        await client.close()


async def test_heart_beats_go_out():
    async with FakeServer(heartbeat="0,20") as server:
        client = await connect(server.url, heartbeat=(20, 0))
        await eventually(lambda: server.peers[0].wire.eols >= 2)
        await client.close()


async def test_silence_is_noticed():
    async with FakeServer(heartbeat="20,0") as server:
        client = await connect(server.url, heartbeat=(0, 20))
        async with client.subscribe("/queue/a") as sub:
            with pytest.raises(ConnectionLost, match="heart-beat"):
                await anext(sub)
        await client.close()
