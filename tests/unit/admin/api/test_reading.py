"""What operators see, on a broker with real clients."""

from __future__ import annotations

import asyncio

from broker.admin.desk import shown_messages
from broker.client import connect
from broker.core.address import Routing
from broker.core.commands import Prepare, Publish
from broker.core.ids import slot_of
from tests.harness.admin_messages import filled
from tests.harness.api import running
from tests.harness.waiting import PATIENCE_S, eventually


async def test_the_overview_counts_everything(api):
    await filled(api)
    told = await api.get("/overview")
    assert told["role"] == "standalone" and told["ready"] and not told["users"]
    assert told["messaging"]["queues"] == 3
    assert told["messaging"]["messages"] == told["messaging"]["waiting"] == 6
    assert told["messaging"]["since_start"]["accepted"] == 6
    assert told["missing"] == []


async def test_an_edge_that_there_is_not_has_no_connections(api):
    """Without edges with names the word was left out of account: who meant one edge's clients got, and ended, all."""
    async with connect(api.url):
        assert (await api.raw("GET", "/connections?edge=typo"))[0] == 404
        assert len((await api.get("/connections"))["items"]) == 1


async def test_who_cannot_send_on_is_told_apart_and_what_he_waits_for(tmp_path):
    full = {"max_size_messages": 2, "full_policy": "BLOCK"}
    async with running(tmp_path, engine={"addresses": {"orders": full}}) as api:  # noqa: SIM117 (in this order)
        async with connect(api.url) as sender, connect(api.url):
            for n in range(2):
                await sender.send("orders", f"{n}", {"destination-type": "ANYCAST"}, receipt=True)

            async def blocked(many: int) -> list[dict]:
                async with asyncio.timeout(PATIENCE_S):
                    while len(found := (await api.get("/connections", blocked="true"))["items"]) != many:
                        if many:  # what is on its way when an address becomes full passes
                            await sender.send("orders", "more", {"destination-type": "ANYCAST"})
                        await asyncio.sleep(0.02)
                return found

            (row,) = await blocked(1)
            assert row["blocked_by"] == ["address orders is full"] and row["blocked_bytes"] > 0
            assert (await api.get(f"/connections/{row['id']}"))["blocked_by"] == row["blocked_by"]
            (free,) = (await api.get("/connections", blocked="false"))["items"]
            assert free["id"] != row["id"] and free["blocked_by"] == []
            await api.call("POST", "/queues/orders/purge")
            assert await blocked(0) == []


async def test_commits_that_are_prepared_and_not_carried_out(api):
    assert (await api.get("/transactions"))["items"] == []
    slot, coordinator = slot_of("orders"), (slot_of("orders") + 1) % 256
    run = shown_messages.made({"destination": "orders"}, b"x", True, 4)
    with api.broker.admin._api.desk.errand() as errand:
        await errand.ask(lambda session, seq: Prepare(
            slot, session, seq, "tx-1", coordinator, [Publish(slot, session, 0, "orders", Routing.ANYCAST, run)]
        ))  # fmt: skip
        (row,) = (await api.get("/transactions", sort="-since"))["items"]
        assert (row["tx"], row["slot"], row["coordinator"]) == ("tx-1", slot, coordinator)
        assert (row["sends"], row["settles"], row["addresses"]) == (1, 0, ["orders"])
        status, told = await api.raw("GET", "/transactions?sort=colour")
        assert status == 400 and "sort" in told["detail"]


async def test_the_overview_says_how_long_messages_took(api):
    await api.call("POST", "/queues", 201, address="orders")
    async with connect(api.url) as client, client.subscribe("orders", ack="client-individual") as subscription:
        await client.send("orders", "x", receipt=True)
        await (await anext(aiter(subscription))).ack(receipt=True)
    latency = (await api.get("/overview"))["messaging"]["latency"]
    assert sum(latency["delivered"].values()) == sum(latency["acked"].values()) == 1
    assert [*latency["delivered"]][:2] + [*latency["delivered"]][-1:] == ["1", "2", "more"]


async def test_queues_are_sorted_filtered_and_paged(api):
    await filled(api)
    assert [row["name"] for row in (await api.get("/queues"))["items"]] == ["invoices", "mail", "orders"]
    most = await api.get("/queues", sort="-messages", limit=2)
    assert [(row["name"], row["messages"]) for row in most["items"]] == [("orders", 3), ("mail", 2)]
    assert most["total"] == 3
    rest = await api.get("/queues", sort="-messages", limit=2, page=most["next"])
    assert [row["name"] for row in rest["items"]] == ["invoices"]
    assert rest["next"] is None
    assert [row["name"] for row in (await api.get("/queues", q="voi"))["items"]] == ["invoices"]
    assert (await api.get("/queues", consumed="true"))["items"] == []
    assert (await api.get("/queues", filled="true", routing="ANYCAST"))["total"] == 3
    assert (await api.get("/queues", type="subscription"))["total"] == 0


async def test_ports_for_clients(tmp_path):
    acceptors = {"public": {"host": "127.0.0.1", "port": 0, "transport": "websocket", "dialect": "rabbitmq"}}
    async with running(tmp_path, edge={"ws_path": "/stomp"}, acceptors=acceptors) as api, connect(api.url):
        tcp, public = (await api.get("/acceptors"))["items"]
    assert (tcp["name"], tcp["label"], tcp["transport"], tcp["path"]) == ("tcp", "STOMP", "stomp", "")
    assert (tcp["connections"], public["connections"]) == (1, 0)
    assert (public["label"], public["dialect"], public["path"], public["tls"]) == (
        "acceptor public", "rabbitmq", "/stomp", False,
    )  # fmt: skip
    assert public["port"] > 0 and public["host"] == "127.0.0.1"


async def test_a_queue_says_why_nothing_is_delivered(api):
    await filled(api)
    told = await api.get("/queues/orders")
    (part,) = told["parts"]
    assert part["messages"] == 3
    assert "Nobody consumes it" in part["why"][0]
    async with (
        connect(api.url, client_id="shop") as client,
        client.subscribe("orders", ack="client-individual", prefetch=1) as subscription,
    ):
        message = await anext(aiter(subscription))
        (part,) = (await api.get("/queues/orders"))["parts"]
        assert part["delivering"] == 1 and part["consumers"] == 1
        assert "window is full" in part["why"][0], part["why"]
        (consumer,) = (await api.get("/queues/orders/consumers"))["items"]
        assert consumer["unacknowledged"] == 1 and not consumer["ready"]
        (connection,) = (await api.get("/connections", q="shop"))["items"]
        assert connection["client_id"] == "shop" and connection["id"] == consumer["session"]
        assert part["host"] == connection["host"] == "", "the default one"
        detail = await api.get(f"/connections/{connection['id']}")
        assert [one["queue"] for one in detail["consumers"]] == ["orders"]
        assert (await api.get("/consumers", session=connection["id"]))["total"] == 1
        await message.ack()
    await eventually(lambda: not api.broker.edge.sessions)
    assert (await api.get("/connections"))["total"] == 0


async def test_durable_subscriptions_and_addresses(api):
    durable = {"destination-type": "MULTICAST", "durable-subscription-name": "daily"}
    async with connect(api.url, client_id="shop") as client, client.subscribe("news", headers=durable):
        await client.send("news", "one", {"destination-type": "MULTICAST"}, receipt=True)
    (subscription,) = (await api.get("/subscriptions"))["items"]
    assert (subscription["name"], subscription["address"], subscription["kind"]) == (
        "shop.daily", "news", "subscription",
    )  # fmt: skip
    assert (await api.get("/queues/shop.daily"))["address"] == "news"
    assert (await api.get("/queues/news%3A%3Ashop.daily"))["name"] == "shop.daily"
    (address,) = (await api.get("/addresses"))["items"]
    assert address["routing"] == ["MULTICAST"] and address["queues"] == 1


async def test_settings_come_with_their_reasons(api):
    rows = {row["name"]: row for row in (await api.get("/settings"))["items"]}
    assert rows["admin.port"]["source"] == "set" and rows["admin.administrators"]["source"] == "default"
    assert rows["admin.hosts"]["why"]
    changed = await api.get("/settings", changed="true", q="journal.")
    assert {row["name"] for row in changed["items"]} == {"journal.segment_bytes", "journal.min_free_bytes"}
