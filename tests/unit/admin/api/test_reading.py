"""What operators see, on a broker with real clients."""

from __future__ import annotations

import pytest

from broker.client import connect
from tests.harness.api import Api, running
from tests.harness.waiting import eventually


@pytest.fixture
async def api(tmp_path):
    async with running(tmp_path) as api:
        yield api


async def filled(api: Api) -> None:
    async with connect(api.url) as client:
        for queue, count in (("orders", 3), ("invoices", 1), ("mail", 2)):
            for n in range(count):
                await client.send(queue, f"{queue} {n}", {"destination-type": "ANYCAST"}, receipt=True)


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
