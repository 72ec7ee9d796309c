"""Transactions end with their block; pipelines keep to their window and raise what was refused."""

from __future__ import annotations

import asyncio

import pytest

from broker.client import ConnectionLost, ServerError, connect
from broker.client.errors import ClientError
from broker.client.transaction import Pipeline, Transaction
from tests.harness.fake_server import FakeServer


async def test_transaction_commits_at_the_end_and_aborts_on_an_exception():
    async with FakeServer() as server, connect(server.url) as client:
        async with client.subscribe("/queue/in", ack="client-individual") as sub:
            server.publish("/queue/in", b"1")
            message = await anext(sub)
            async with client.transaction() as tx:
                await tx.send("/queue/a", b"in tx")
                await tx.ack(message)
            with pytest.raises(RuntimeError):
                async with client.transaction() as tx2:
                    await tx2.send("/queue/a", b"never")
                    raise RuntimeError
        await client.send("/queue/a", b"", receipt=True)
        assert [h["transaction"] for h, _ in server.frames("COMMIT")] == [tx.id]
        assert [h["transaction"] for h, _ in server.frames("ABORT")] == [tx2.id]
        assert server.frames("ACK")[0][0]["transaction"] == tx.id


async def test_pipeline_keeps_to_its_window():
    async with FakeServer() as server, connect(server.url) as client:
        server.hold_receipts = True
        async with client.pipeline(window=3) as pipeline:
            for i in range(3):
                await pipeline.send("/queue/a", str(i))
            fourth = asyncio.create_task(pipeline.send("/queue/a", "3"))
            await server.until_held(3)
            assert not fourth.done() and len(server.frames("SEND")) == 3
            server.release()
            await fourth
        assert pipeline.confirmed == 4
        assert [body for _, body in server.frames("SEND")] == [b"0", b"1", b"2", b"3"]


async def test_pipeline_raises_the_refusal():
    async with FakeServer() as server:
        client = await connect(server.url)
        server.hold_receipts = True
        with pytest.raises((ServerError, ConnectionLost)):
            async with client.pipeline() as pipeline:
                await pipeline.send("/queue/a", b"1")
                await server.until_held(1)
                server.peers[0].error("refused")
        with pytest.raises(ServerError):
            await client.close()


def test_a_window_has_room_for_one():
    with pytest.raises(ClientError, match="at least 1"):
        Pipeline(None, 0)  # type: ignore[arg-type]
    Pipeline(None, 1)  # type: ignore[arg-type]


async def test_the_first_refusal_is_raised_by_the_next_send_and_at_the_end():
    answers: list[asyncio.Future[None]] = []

    class Answering:
        async def send_for_receipt(self, *_):
            answers.append(asyncio.get_running_loop().create_future())
            return answers[-1]

        async def wait_for(self, event, what):
            await event.wait()

    pipeline = Pipeline(Answering(), 2)  # type: ignore[arg-type]
    await pipeline.send("/q")
    await pipeline.send("/q")
    third = asyncio.create_task(pipeline.send("/q"))
    await asyncio.sleep(0)
    answers[0].set_exception(ClientError("first"))
    answers[1].set_exception(ClientError("second"))
    for call in (third, pipeline.send("/q"), pipeline.drain()):
        with pytest.raises(ClientError, match="first"):
            await call
    assert len(answers) == 2 and pipeline.confirmed == 0


async def test_an_abort_that_cannot_be_sent_hides_nothing():
    class Gone:
        async def request(self, command, headers, body=b"", *, receipt=False):
            if command != "BEGIN":
                raise ConnectionLost("gone")

    with pytest.raises(RuntimeError, match="own"):
        async with Transaction(Gone(), "t"):  # type: ignore[arg-type]
            raise RuntimeError("own")
    with pytest.raises(ConnectionLost):
        async with Transaction(Gone(), "t"):  # type: ignore[arg-type]
            pass
