"""Our own asyncio client against a real broker, over TCP and WebSocket."""

from __future__ import annotations

import asyncio

import pytest

from broker.client import Client, ServerError, connect
from tests.harness import Broker

BIG = bytes(range(256)) * 16384


@pytest.fixture(params=["stomp", "ws"])
def url(request: pytest.FixtureRequest, broker: Broker) -> str:
    port = broker.port if request.param == "stomp" else broker.ws_port
    return f"{request.param}://127.0.0.1:{port}"


async def bodies(client: Client, destination: str) -> list[bytes]:
    """What waits in a queue."""
    async with client.subscribe(destination, browse=True) as sub:
        return [message.body async for message in sub]


@pytest.mark.parametrize("version", ["1.2", "1.1", "1.0"])
async def test_confirmed_send_and_acknowledged_receive(url: str, name: str, version: str) -> None:
    async with connect(url, version=version) as client:
        await client.send(name, "grüße", {"k": "v", "persistent": "true"}, receipt=True)
        async with client.subscribe(name, ack="client", prefetch=1) as sub:
            message = await anext(sub)
            assert (message.body, message.headers["k"]) == ("grüße".encode(), "v")
            await message.ack(receipt=True)
        assert await bodies(client, name) == []


async def test_pipeline_in_order(url: str, name: str) -> None:
    wanted = [b"%d" % i for i in range(2000)]
    async with connect(url) as client, client.subscribe(name) as sub:
        async with client.pipeline(window=50) as pipeline:
            for body in wanted:
                await pipeline.send(name, body)
        assert pipeline.confirmed == 2000
        assert [(await anext(sub)).body for _ in wanted] == wanted


async def test_transaction_moves_a_message_or_does_not(url: str, name: str) -> None:
    async with connect(url) as client:
        await client.send(name, b"job", receipt=True)
        async with client.subscribe(name, ack="client-individual") as sub:
            with pytest.raises(RuntimeError):
                async with client.transaction() as tx:
                    await tx.send(f"{name}.done", b"no")
                    await tx.ack(await anext(sub))
                    raise RuntimeError
            async with client.transaction() as tx:
                await tx.send(f"{name}.done", b"yes")
                await tx.ack(await anext(sub))
        assert await bodies(client, name) == []
        assert await bodies(client, f"{name}.done") == [b"yes"]


async def test_large_body_both_ways(url: str, name: str) -> None:
    async def pieces():
        for start in range(0, len(BIG), 100_000):
            yield BIG[start : start + 100_000]

    async with connect(url, buffer_bytes=300_000) as client:
        await client.send_file(name, pieces(), len(BIG))
        async with client.subscribe(name, ack="client") as sub:
            message = await anext(sub)
            assert message.large and message.length == len(BIG)
            assert await message.read() == BIG
            await message.ack(receipt=True)


async def test_a_refusal_has_a_code_and_names_the_receipt(url: str) -> None:
    client = await connect(url)
    with pytest.raises(ServerError) as caught:
        await client.send("/nowhere/at/all", b"", receipt=True)
    assert caught.value.code == 1303 and caught.value.receipt
    await client.close()


async def test_heart_beats_keep_an_idle_connection(url: str, name: str) -> None:
    async with connect(url, heartbeat=(100, 500)) as client, client.subscribe(name) as sub:
        await asyncio.sleep(1.2)
        await client.send(name, b"still here", receipt=True)
        assert (await anext(sub)).body == b"still here"
