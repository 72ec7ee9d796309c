"""What operators do to queues and messages, on a broker with real clients."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from urllib.parse import quote

import pytest

from broker.client import ClientError, connect
from tests.harness.api import Api, running
from tests.harness.waiting import eventually


@pytest.fixture
async def api(tmp_path):
    async with running(tmp_path) as api:
        yield api


async def send(api: Api, queue: str, count: int, **headers: str) -> None:
    async with connect(api.url) as client:
        for n in range(count):
            await client.send(
                queue,
                f"{n}",
                {"destination-type": "ANYCAST", "n": str(n), "persistent": "true", **headers},
                receipt=True,
            )


async def bodies(api: Api, queue: str) -> list[str]:
    return [row["body"] for row in (await api.get(f"/queues/{queue}/messages", limit=200))["items"]]


async def depth(api: Api, queue: str) -> int:
    return sum([part["messages"] for part in (await api.get(f"/queues/{queue}"))["parts"]])


async def dead(api: Api, queue: str, count: int) -> None:
    """So many messages that were rejected are among the dead letters."""
    await send(api, queue, count)
    async with connect(api.url) as client, client.subscribe(queue, ack="client-individual") as subscription:
        async for message in subscription:
            await message.nack(headers={"requeue": "false"}, receipt=True)
            count -= 1
            if not count:
                break


# ── queues ──────────────────────────────────────────────────────────────────────────────────────────


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


async def test_what_cannot_be_done_is_named_with_the_fix(api):
    await send(api, "orders", 1)
    for path, body, status, says in (
        ("/queues", {}, 400, "address"),
        ("/queues", {"address": "a", "routing": "BOTH"}, 400, "MULTICAST"),
        ("/queues", {"address": "a::b"}, 400, "without"),
        ("/queues", {"address": "a", "colour": "red"}, 400, "known are"),
        ("/queues", {"address": "x", "selector": "a =="}, 400, "character 4"),
        ("/queues/nothing/purge", {}, 404, "nothing"),
        ("/queues/orders/purge", {"selector": "a =="}, 400, "character 4"),
        ("/queues/orders/purge", {"ids": ["x"]}, 400, "GET messages"),
        ("/queues/orders/move", {}, 400, "to"),
        ("/queues/orders/move", {"to": "orders"}, 400, "another"),
        ("/queues/orders/move", {"to": "a::"}, 400, "ADDRESS"),
        ("/queues/orders/move", {"to": "$scheduled.orders"}, 400, "again and again"),
        ("/queues/orders/copy", {"to": "$temp.orders::x"}, 400, "an address of clients"),
        ("/queues", {"address": "$scheduled.orders"}, 400, "again and again"),
        ("/addresses/$scheduled.orders/messages", {"body": "x"}, 400, "exported"),
    ):
        found, told = await api.raw("POST", path, json=body)
        assert found == status and says in f"{told['detail']} {told.get('fix', '')}", (path, body, told)
    status, told = await api.raw("POST", "/queues/orders/purge", data={"selector": "x"})
    assert (status, told["type"]) == (415, "urn:stampede:problem:not-json"), "a form of any page could have sent it"
    assert await depth(api, "orders") == 1
    await api.call("POST", "/queues/orders/pause")
    status, told = await api.raw("POST", "/queues/orders/move", json={"to": "b"})
    assert status == 409 and "resume it first" in told["fix"]


async def test_a_purge_of_all_and_of_some(api):
    await api.call("POST", "/queues", 201, address="orders")
    await send(api, "orders", 5)
    told = await api.call("POST", "/queues/orders/purge", selector="n BETWEEN 1 AND 2")
    assert (told["done"], told["more"], told["left"]) == (2, False, [])
    assert await bodies(api, "orders") == ["0", "3", "4"]
    ids = [row["id"] for row in (await api.get("/queues/orders/messages"))["items"]]
    assert (await api.call("POST", "/queues/orders/purge", ids=ids[1:2]))["done"] == 1
    assert await bodies(api, "orders") == ["0", "4"]
    assert (await api.call("POST", "/queues/orders/purge"))["done"] == 2
    assert await depth(api, "orders") == 0


# ── messages ────────────────────────────────────────────────────────────────────────────────────────


async def test_messages_are_paged_filtered_and_previewed(api):
    await send(api, "orders", 7, kind="new")
    page = await api.get("/queues/orders/messages", limit=3, preview=0)
    assert [row["body"] for row in page["items"]] == ["", "", ""]
    assert page["items"][0]["length"] == 1 and not page["items"][0]["complete"]
    assert ["kind", "new"] in page["items"][0]["headers"]
    rest = await api.get("/queues/orders/messages", limit=3, preview=0, page=page["next"])
    last = await api.get("/queues/orders/messages", limit=3, page=rest["next"])
    assert [row["body"] for row in last["items"]] == ["6"] and last["next"] is None
    status, told = await api.raw("GET", f"/queues/orders/messages?page={page['next']}")
    assert status == 400 and "begin anew" in told["fix"]
    some = await api.get("/queues/orders/messages", selector="n > 4")
    assert [row["body"] for row in some["items"]] == ["5", "6"]
    one = await api.get(f"/queues/orders/messages/{some['items'][1]['id']}")
    assert one["body"] == "6" and one["complete"] and one["durable"]
    assert (await api.raw("GET", "/queues/orders/messages/0-99999999"))[0] == 404
    assert await depth(api, "orders") == 7, "nothing was taken"


async def test_messages_are_moved_and_copied_in_order(api):
    await send(api, "orders", 6)
    told = await api.call("POST", "/queues/orders/copy", to="copies", selector="n < 2")
    assert told["done"] == 2
    told = await api.call("POST", "/queues/orders/move", to="archive", limit=4)
    assert (told["done"], told["more"]) == (4, True)
    assert await bodies(api, "archive") == ["0", "1", "2", "3"]
    told = await api.call("POST", "/queues/orders/move", to="archive", limit=4)
    assert (told["done"], told["more"]) == (2, False)
    assert await bodies(api, "archive") == ["0", "1", "2", "3", "4", "5"]
    assert await bodies(api, "copies") == ["0", "1"]


async def test_dead_letters_go_back_where_they_come_from(tmp_path):
    addresses = {"#": {"dead_letter_address": "DLQ"}}
    async with running(tmp_path, engine={"addresses": addresses}) as api:
        await dead(api, "orders", 5)
        await dead(api, "mail", 2)
        await eventually(lambda: "DLQ" in {a for e in api.broker.shard.engines.values() for a in e.shown.addresses})
        told = await api.get("/queues/DLQ/dead-letters")
        assert {(group["address"], group["reason"], group["count"]) for group in told["groups"]} == {
            ("orders", "rejected", 5), ("mail", "rejected", 2),
        }  # fmt: skip
        ids = [row["id"] for row in (await api.get("/queues/DLQ/messages"))["items"]]
        assert (await api.call("POST", "/queues/DLQ/retry", ids=[ids[3], ids[1]]))["done"] == 2
        assert await bodies(api, "orders") == ["1", "3"]
        told = await api.call("POST", "/queues/DLQ/retry", address="orders")
        assert told["done"] == 3 and told["left"][0]["count"] == 2
        assert await bodies(api, "orders") == ["1", "3", "0", "2", "4"]
        assert await bodies(api, "DLQ") == ["0", "1"], "what comes from elsewhere stays, in its order"
        (row, *_) = (await api.get("/queues/orders/messages"))["items"]
        assert not [name for name, _ in row["headers"] if name.startswith("_AMQ_ORIG") or "reason" in name]
        assert (await api.call("POST", "/queues/DLQ/retry", reason="expired"))["done"] == 0
        assert (await api.call("POST", "/queues/DLQ/retry"))["done"] == 2


async def test_what_its_address_does_not_take_stays_a_dead_letter(tmp_path):
    addresses = {
        "#": {"dead_letter_address": "DLQ"},
        "full": {"dead_letter_address": "DLQ", "max_size_messages": 1, "full_policy": "FAIL"},
    }
    async with running(tmp_path, engine={"addresses": addresses}) as api:
        await dead(api, "full", 1)
        await dead(api, "full", 1)
        await dead(api, "orders", 1)
        await send(api, "full", 1)
        told = await api.call("POST", "/queues/DLQ/retry")
        assert told["done"] == 1
        assert [entry["count"] for entry in told["left"]] == [2] and "full" in told["left"][0]["why"]
        assert await depth(api, "DLQ") == 2


async def test_what_a_client_wrote_of_its_origin_leads_no_letter_into_another_host(tmp_path):
    """A client of a virtual host may send to its DLQ; who retried that sent it to the address of the default host."""
    async with running(tmp_path) as api:
        for queue, origin, back in (
            ("$host/shop.DLQ", "orders", 0),
            ("DLQ", "$host/shop.orders", 0),
            ("$host/shop.DLQ", "$host/shop.orders", 1),
            ("DLQ", "$scheduled.orders", 0),  # where it would be dropped when its time came
            ("DLQ", "$temp.00", 0),
        ):
            name, said = quote(queue, ""), [f"_AMQ_ORIG_ADDRESS:{origin}"]
            await api.call("POST", f"/addresses/{name}/messages", 201, headers=said, body="x", queue=queue)
            told = await api.call("POST", f"/queues/{name}/retry")
            assert told["done"] == back, (queue, origin)


async def test_large_messages_are_moved_with_their_bodies(tmp_path):
    async with running(tmp_path, wire={"large_body_bytes": 10_000}) as api:
        body = b"x" * 300_000
        async with connect(api.url) as client:
            await client.send("orders", body, {"destination-type": "ANYCAST"}, receipt=True)
        (row,) = (await api.get("/queues/orders/messages"))["items"]
        assert row["large"] and row["length"] == 300_000
        assert (await api.call("POST", "/queues/orders/move", to="archive"))["done"] == 1
        async with connect(api.url) as client, client.subscribe("archive") as subscription:
            assert await (await anext(aiter(subscription))).read() == body


async def test_exported_messages_come_back_as_they_were(api):
    async with connect(api.url) as client:
        await client.send("a", b"\x00\xff\n\n:", {"destination-type": "ANYCAST", "x": "1:2\n\\"}, receipt=True)
        await client.send(
            "a", "ü", {"destination-type": "ANYCAST", "priority": "7", "persistent": "false"}, receipt=True
        )
    before = (await api.get("/queues/a/messages", raw="true"))["items"]
    await api.call("POST", "/addresses/b/messages", 201, exported=before)
    after = (await api.get("/queues/b/messages", raw="true"))["items"]
    for old, new in zip(before, after, strict=True):
        for name in ("raw", "flags", "priority", "durable", "expires", "headers", "body"):
            assert old[name] == new[name], name
    assert [row["encoding"] for row in after] == ["text", "base64"], "the higher priority is first"
    status, told = await api.raw("POST", "/addresses/b/messages", json={"exported": [{"raw": "AAAA"}]})
    assert status == 400 and "export" in told["fix"]


async def test_a_message_is_sent(api):
    await api.call("POST", "/addresses/orders/messages", 201, body="hello", headers=["kind:test"])
    (row,) = (await api.get("/queues/orders/messages"))["items"]
    assert row["body"] == "hello" and ["kind", "test"] in row["headers"] and row["durable"]
    async with connect(api.url) as client, client.subscribe("orders", ack="client-individual") as subscription:
        message = await anext(aiter(subscription))
        assert message.headers["destination"] == "orders", "a MESSAGE needs one"
        assert message.body == b"hello"


async def test_what_is_sent_with_zeros_in_it_is_read_whole(api):
    await api.call("POST", "/addresses/orders/messages", 201, body="a\0b", headers=["destination:/queue/orders"])
    async with connect(api.url) as client, client.subscribe("orders", ack="client-individual") as subscription:
        message = await anext(aiter(subscription))
        assert message.body == b"a\0b" and message.headers["destination"] == "/queue/orders"
    status, told = await api.raw("POST", "/addresses/orders/messages", json={"headers": ["message-id:1"]})
    assert status == 400 and "message-id" in told["detail"]


async def test_a_client_is_disconnected_and_told_by_whom(api):
    async with connect(api.url, client_id="shop") as client:
        (row,) = (await api.get("/connections"))["items"]
        await api.call("DELETE", f"/connections/{row['id']}")
        await eventually(lambda: not api.broker.edge.sessions)
        with pytest.raises(ClientError, match="operator"):
            await client.send("a", "b", receipt=True)
    assert (await api.raw("DELETE", f"/connections/{row['id']}"))[0] == 404


async def test_an_errand_that_is_given_up_gives_everything_back(api, monkeypatch):
    """In its order, and nobody's attempts are counted."""
    await send(api, "orders", 5)
    monkeypatch.setattr("broker.admin.desk.carrying._Work._commit", lambda *_: asyncio.sleep(1000))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await api.raw("POST", "/queues/orders/move", json={"to": "b"})
    await eventually(lambda: not [e for e in api.broker.shard.engines.values() if e.shown.consumers])
    rows = (await api.get("/queues/orders/messages"))["items"]
    assert [(row["body"], row["attempts"]) for row in rows] == [(str(n), 0) for n in range(5)]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),  # a page in a sandbox, a file, a redirect from elsewhere
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),  # another port of the same host is another page
    ],
)
async def test_no_operation_is_carried_out_for_a_page_of_others(api, headers, status):
    """Every one that changes something, as the document has them: also those that are yet to come."""
    await send(api, "orders", 2)
    document = await api.get("/openapi.json")
    changing = [
        (method.upper(), re.sub(r"\{\w+\}", "orders", path).removeprefix("/api/v1"))
        for path, methods in document["paths"].items()
        for method in methods
        if method != "get"
    ]
    assert len(changing) > 5
    for method, path in changing:
        found, told = await api.raw(method, path, headers=headers)
        assert found == status and told["fix"], (method, path, told)
    assert await depth(api, "orders") == 2
