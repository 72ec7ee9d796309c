"""What operators do to queues and messages, on a broker with real clients."""

from __future__ import annotations

import json
import logging
from contextlib import AsyncExitStack

import pytest

from broker.client import ClientError, connect
from tests.harness.api import Api
from tests.harness.waiting import eventually


async def bodies(api: Api, queue: str) -> list[str]:
    return [row["body"] for row in (await api.get(f"/queues/{queue}/messages", limit=200))["items"]]


async def test_a_queue_is_made_paused_resumed_and_deleted(api, caplog):
    caplog.set_level(logging.INFO, "stampede.audit")
    await api.call("POST", "/queues", 201, address="orders", name="audit", routing="MULTICAST", selector="n = '1'")
    status, told = await api.raw("POST", "/queues", json={"address": "orders", "name": "audit"})
    assert (status, told["type"]) == (409, "urn:stampede:problem:queue-exists")
    async with connect(api.url) as client:
        for n in range(3):
            await client.send("orders", str(n), {"destination-type": "MULTICAST", "n": str(n)}, receipt=True)
    assert await bodies(api, "orders%3A%3Aaudit") == ["1"]
    await api.call("POST", "/queues/orders%3A%3Aaudit/pause")
    (part,) = (await api.get("/queues/orders%3A%3Aaudit"))["parts"]
    assert part["paused"] and "paused by an operator" in part["why"][0]
    await api.call("POST", "/queues/orders%3A%3Aaudit/resume")
    await api.call("DELETE", "/queues/orders%3A%3Aaudit")
    assert (await api.raw("GET", "/queues/orders%3A%3Aaudit"))[0] == 404
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "stampede.audit"]
    assert [line["action"] for line in lines] == [
        "create-queue", "create-queue", "pause-queue", "resume-queue", "delete-queue",
    ]  # fmt: skip
    assert [line["outcome"] for line in lines][:2] == ["done", "queue-exists"]
    assert lines[0]["who"] == "anonymous" and lines[0]["from"].startswith("127.0.0.1:")
    assert (lines[2]["before"]["paused"], lines[2]["after"]) == (False, {"paused": True})
    assert (lines[3]["before"]["paused"], lines[3]["after"]) == (True, {"paused": False})
    assert lines[4]["before"] == {"paused": False, "messages": 1, "consumers": 0}


async def test_a_message_is_sent(api):
    await api.call("POST", "/addresses/orders/messages", 201, body="hello", headers=["kind:test"])
    (row,) = (await api.get("/queues/orders/messages"))["items"]
    assert row["body"] == "hello" and ["kind", "test"] in row["headers"] and row["durable"]
    async with connect(api.url) as client, client.subscribe("orders", ack="client-individual") as subscription:
        message = await anext(aiter(subscription))
        assert message.headers["destination"] == "orders", "a MESSAGE needs one"
        assert message.body == b"hello"


async def test_a_client_is_disconnected_and_told_by_whom(api):
    async with connect(api.url, client_id="shop") as client:
        (row,) = (await api.get("/connections"))["items"]
        await api.call("DELETE", f"/connections/{row['id']}")
        await eventually(lambda: not api.broker.edge.sessions)
        with pytest.raises(ClientError, match="operator"):
            await client.send("a", "b", receipt=True)
    assert (await api.raw("DELETE", f"/connections/{row['id']}"))[0] == 404


async def test_clients_of_an_address_are_disconnected_some_at_a_time(api):
    async with AsyncExitStack() as clients:
        for _ in range(3):
            clients.enter_context(pytest.raises(ClientError, match="operator"))
            await clients.enter_async_context(connect(api.url))
        status, told = await api.raw("DELETE", "/connections")
        assert (status, told["parameter"]) == (400, "user"), "nobody ends all by leaving something out"
        for query, done in (("peer=10.0.0.7", 0), ("user=bob", 0), ("peer=127.0.0.1&limit=2", 2)):
            told = await api.call("DELETE", f"/connections?{query}")
            assert (told["done"], told["more"], told["missing"]) == (done, done == 2, []), query
        await eventually(lambda: len(api.broker.edge.sessions) == 1)
        assert (await api.call("DELETE", "/connections?peer=127.0.0.1"))["done"] == 1
        await eventually(lambda: not api.broker.edge.sessions)
