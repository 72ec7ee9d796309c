"""Messages carried from queue to queue: in order, whole, and given back when nobody waits any more."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from broker.admin.api.actions import Acting
from broker.admin.desk import bulk_moves
from broker.client import connect
from broker.core.message import Run
from tests.harness.admin_messages import depth, send
from tests.harness.api import Api, running
from tests.harness.waiting import eventually


async def bodies(api: Api, queue: str) -> list[str]:
    return [row["body"] for row in (await api.get(f"/queues/{queue}/messages", limit=200))["items"]]


async def dead(api: Api, queue: str, count: int) -> None:
    """So many messages that were rejected are among the dead letters."""
    await send(api, queue, count)
    async with connect(api.url) as client, client.subscribe(queue, ack="client-individual") as subscription:
        async for message in subscription:
            await message.nack(headers={"requeue": "false"}, receipt=True)
            count -= 1
            if not count:
                break


async def test_a_limit_is_one_of_all_parts_of_a_queue_together(tmp_path):
    """It was one of each part: four of them copied four times as many."""
    async with running(tmp_path, engine={"addresses": {"orders": {"partitions": 4}}}) as api:
        await send(api, "orders", 24)
        parts = (await api.get("/queues/orders"))["parts"]
        assert len(parts) == 4 and sum(bool(part["messages"]) for part in parts) > 1
        for action, many in (("copy", 3), ("copy", 20), ("move", 5)):
            told = await api.call("POST", f"/queues/orders/{action}", to=f"{action}-{many}", limit=many)
            assert (told["done"], told["more"]) == (many, True)
            assert await depth(api, f"{action}-{many}") == many
        told = await api.call("POST", "/queues/orders/copy", to="rest", limit=1000)
        assert (told["done"], told["more"]) == (19, False)


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


@pytest.mark.parametrize("said, status", [({"ids": []}, 400), ({"selector": ""}, 400), ({"limit": 100_000}, 200)])
async def test_a_purge_that_says_which_messages_is_none_of_all(api, said, status):
    """A script whose list came out empty emptied the queue, what consumers hold included."""
    async with connect(api.url) as client:
        for n in range(3):
            await client.send("orders", str(n), {"destination-type": "ANYCAST"}, receipt=True)
        async with client.subscribe("orders", ack="client-individual") as held:
            await anext(aiter(held))
            found, _ = await api.raw("POST", "/queues/orders/purge", json=said)
            assert found == status
            assert await depth(api, "orders") >= 1, "what a consumer holds is there"


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
        assert told["done"] == 3 and told["left"] == [], "what was not asked for is not said to stay"
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


async def letters(api: Api, count: int, body: str, *headers: str) -> None:
    """So many dead letters with these headers, in one go."""
    await api.call("POST", "/addresses/DLQ/messages", 201, body=body, headers=[f"mark:{body}", *headers])
    (*_, row) = (await api.get("/queues/DLQ/messages", raw="true", selector=f"mark = '{body}'"))["items"]
    if count > 1:
        await api.call("POST", "/addresses/DLQ/messages", 201, exported=[row] * (count - 1))


async def test_what_stays_does_not_keep_those_behind_it(tmp_path):
    """1,500 that say no origin, as many of a full address, then one of orders: the retry showed 1 and did 0."""
    rules = {"full": {"max_size_messages": 1, "full_policy": "FAIL"}}
    async with running(tmp_path, engine={"addresses": rules}) as api:
        await send(api, "full", 1)
        await letters(api, 1500, "nowhere")
        await letters(api, 1500, "full", "_AMQ_ORIG_ADDRESS:full", "_AMQ_ORIG_QUEUE:full")
        await letters(api, 1, "here", "_AMQ_ORIG_ADDRESS:orders")
        assert (await api.call("POST", "/queues/DLQ/retry", dry_run=True))["preview"]["count"] == 1501
        told = await api.call("POST", "/queues/DLQ/retry")
        assert (told["done"], told["more"]) == (1, False) and await bodies(api, "orders") == ["here"]
        assert len(told["left"]) == 2 and all(entry["count"] > bulk_moves.FILLED for entry in told["left"])
        told = await api.call("POST", "/queues/DLQ/retry", selector="mark = 'nowhere'")
        assert (told["done"], told["more"]) == (0, False)
        assert await depth(api, "DLQ") == 3000


async def test_what_came_later_does_not_keep_those_before_it(api):
    """Of a higher priority, so that it stands in front."""
    await letters(api, 2, "old", "_AMQ_ORIG_ADDRESS:orders")
    (part,) = (await api.get("/queues/DLQ"))["parts"]
    await api.call("POST", "/addresses/DLQ/messages", 201, body="new", priority=9, headers=["new:1"])
    (row,) = (await api.get("/queues/DLQ/messages", raw="true", selector="new IS NOT NULL"))["items"]
    await api.call("POST", "/addresses/DLQ/messages", 201, exported=[row] * 1500)
    source = bulk_moves.MoveSource(part["slot"], "DLQ", "DLQ", part["last_message"])
    report, to = bulk_moves.MoveReport(), bulk_moves.MoveTarget("orders", None)
    await bulk_moves.carry(api.broker.admin._api.desk, source, bulk_moves.MoveOrder(lambda _: to), None, 100, report)
    assert (report.done, report.more) == (2, False) and await bodies(api, "orders") == ["old", "old"]


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


async def test_an_errand_that_is_given_up_gives_everything_back(api, monkeypatch):
    """In its order, and nobody's attempts are counted."""
    await send(api, "orders", 5)
    monkeypatch.setattr("broker.admin.desk.bulk_moves._Work._commit", lambda *_: asyncio.sleep(1000))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await api.raw("POST", "/queues/orders/move", json={"to": "b"})
    await eventually(lambda: not [e for e in api.broker.shard.engines.values() if e.shown.consumers])
    rows = (await api.get("/queues/orders/messages"))["items"]
    assert [(row["body"], row["attempts"]) for row in rows] == [(str(n), 0) for n in range(5)]


async def test_messages_expire_when_an_operator_says_so(tmp_path):
    addresses = {"#": {"expiry_address": "EXPIRED"}, "gone": {"expiry_address": ""}}
    async with running(tmp_path, engine={"addresses": addresses}) as api:
        await send(api, "orders", 4, expires="4102444800000")
        assert (await api.call("POST", "/queues/orders/expire", selector="n < 2"))["done"] == 2
        assert await bodies(api, "orders") == ["2", "3"]
        rows = (await api.get("/queues/EXPIRED/messages"))["items"]
        headers = [dict(row["headers"]) for row in rows]
        assert [row["body"] for row in rows] == ["0", "1"] and [row["expires"] for row in rows] == [0, 0]
        for name, value in (("_AMQ_ORIG_ADDRESS", "orders"), ("dead-letter-reason", "expired")):
            assert [told[name] for told in headers] == [value] * 2
        assert all(int(told["_AMQ_ACTUAL_EXPIRY"]) > 1_700_000_000_000 for told in headers)
        groups = (await api.get("/queues/EXPIRED/dead-letters"))["groups"]
        assert groups == [{"address": "orders", "queue": "orders", "reason": "expired", "count": 2}]
        assert (await api.call("POST", "/queues/EXPIRED/retry", reason="expired"))["done"] == 2
        assert sorted(await bodies(api, "orders")) == ["0", "1", "2", "3"]
        await send(api, "gone", 2)
        assert (await api.call("POST", "/queues/gone/expire"))["done"] == 2
        assert (await api.get("/queues", q="gone"))["items"] == [], "they went nowhere, and it with them"
        await send(api, "EXPIRED", 1)
        status, told = await api.raw("POST", "/queues/EXPIRED/expire", json={})
        assert (status, told["type"]) == (409, "urn:stampede:problem:not-now"), told


async def test_each_address_has_its_own_queue_of_what_expired_where_the_settings_say_so(tmp_path):
    own = {"expiry_address": "EXP", "auto_create_expiry_resources": True}
    async with running(tmp_path, engine={"addresses": {"#": own}}) as api:
        await send(api, "orders", 2)
        assert (await api.call("POST", "/queues/orders/expire"))["done"] == 2
        (row,) = (await api.get("/queues", address="EXP"))["items"]
        assert row["messages"] == 2 and row["name"].endswith("orders") and row["routing"] == "MULTICAST"


async def test_a_rate_is_kept_and_a_limit_is_no_purge_of_all(api):
    await send(api, "orders", 12)
    loop = asyncio.get_running_loop()
    began = loop.time()
    told = await api.call("POST", "/queues/orders/move", to="archive", limit=10, rate=20)
    assert (told["done"], told["more"]) == (10, True)
    assert loop.time() - began >= 0.4, "ten at twenty a second"
    assert await bodies(api, "archive") == [f"{n}" for n in range(10)]
    assert (await api.call("POST", "/queues/orders/purge", limit=1))["done"] == 1
    assert await bodies(api, "orders") == ["11"]
    status, told = await api.raw("POST", "/queues/archive/copy", json={"to": "x", "rate": 1, "limit": 1000})
    assert (status, told["parameter"]) == (400, "limit")


async def test_what_has_a_pace_answers_after_a_while_and_goes_on_when_it_is_asked_again(api, monkeypatch):
    monkeypatch.setattr("broker.admin.desk.bulk_moves.PACED_S", 0.2)
    await send(api, "orders", 8)
    done = []
    while True:
        told = await api.call("POST", "/queues/orders/move", to="archive", rate=10)
        done.append(told["done"])
        if not told["more"]:
            break
    assert sum(done) == 8 and len(done) > 1 and await bodies(api, "archive") == [f"{n}" for n in range(8)]


async def test_a_copy_with_a_rate_does_not_send_a_whole_run_at_once():
    run, sent = Run(list(range(30)), b"", [b"x:1\n\n\0"] * 30, 180), []

    class Copying:
        """Desk, errand and feed."""

        def __init__(self):
            self.runs = [run, None]

        def errand(self):
            return nullcontext(self)

        async def subscribe(self, *_, browse):
            return self

        async def next(self):
            return self.runs.pop(0)

        async def ask(self, publish):
            sent.append(len(publish(1, 1).run.records))

    report, to = bulk_moves.MoveReport(), bulk_moves.MoveTarget("x", None)
    order = bulk_moves.MoveOrder(lambda _: to, rate=100)
    await bulk_moves.copy(Copying(), bulk_moves.MoveSource(0, "a", "a", 99), order, None, 25, report)
    assert sent == [10, 10, 5] and (report.done, report.more) == (25, True)


@pytest.mark.parametrize(("late", "parts"), [(False, 2), (True, 1)])
async def test_what_stays_in_one_partition_keeps_nobody_from_the_others(monkeypatch, late, parts):
    """Letters of others filled the window in the first one: those of the second were never looked at."""
    seen = []

    async def carry(_desk, source, _order, _selector, _limit, report):
        seen.append(source)
        report.more, report.late = True, late

    async def sources(_call, _condition, *, moving):
        return [(1, {}, None), (2, {}, None)]

    acting = Acting(None, None, None)
    monkeypatch.setattr(acting, "_sources", sources)
    monkeypatch.setattr(bulk_moves, "carry", carry)
    call = SimpleNamespace(body={"limit": 10, "dry_run": False}, noted={})
    told = await acting._carry(call, lambda _: bulk_moves.MoveOrder(lambda _: None))
    assert len(seen) == parts and told["more"]
