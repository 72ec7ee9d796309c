"""Messages looked at: a page at a time, and nothing is taken."""

from __future__ import annotations

from broker.admin.api.access import Who
from broker.admin.api.ports import Missing
from broker.admin.api.reading import ADDRESSES, Reading
from broker.client import connect
from tests.harness.admin_messages import depth, send
from tests.harness.api import running


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
    once = await api.get("/queues/orders/messages", limit=3, once="true")
    assert (len(once["items"]), once["next"]) == (3, None)
    some = await api.get("/queues/orders/messages", selector="n > 4")
    assert [row["body"] for row in some["items"]] == ["5", "6"]
    one = await api.get(f"/queues/orders/messages/{some['items'][1]['id']}")
    assert one["body"] == "6" and one["complete"] and one["durable"]
    assert (await api.raw("GET", "/queues/orders/messages/0-99999999"))[0] == 404
    assert await depth(api, "orders") == 7, "nothing was taken"


async def test_who_could_not_be_asked_is_named_on_every_page(api, monkeypatch):
    """The rest of a split queue was told as if it were all of it."""
    await send(api, "orders", 3)
    find = Reading.find

    async def found(self, who, name):
        return (await find(self, who, name))[0], [Missing("owner-1", "away")]

    monkeypatch.setattr(Reading, "find", found)
    page = await api.get("/queues/orders/messages", limit=2)
    rest = await api.get("/queues/orders/messages", limit=2, page=page["next"])
    assert page["missing"] == rest["missing"] == [{"owner": "owner-1", "why": "away"}]


PERMISSIONS = {
    "#": {"send": "ops", "consume": "*"},
    "orders.eu": {"send": "eu, ops"},
    "orders.eu::audit": {"consume": "ops"},
}


async def test_dead_letters_of_all_queues_together(tmp_path):
    addresses = {"#": {"max_delivery_attempts": 1}, "b": {"max_delivery_attempts": 1, "dead_letter_address": "DLQ.b"}}
    async with running(tmp_path, engine={"addresses": addresses}) as api, connect(api.url) as client:
        assert (await api.get("/dead-letters"))["queues"] == []
        for name, count in (("a", 2), ("b", 3)):
            async with client.subscribe(name, ack="client-individual") as subscription:
                for n in range(count):
                    await client.send(name, f"{n}", receipt=True)
                for _ in range(count):
                    await (await anext(aiter(subscription))).nack()
        told = await api.get("/dead-letters")
        groups = {
            row["name"]: [(group["address"], group["count"]) for group in row["groups"]] for row in told["queues"]
        }
        assert groups == {"DLQ.b": [("b", 3)], "DLQ": [("a", 2)]} and told["complete"]


async def test_dead_letters_are_one_question_however_many_addresses_settings_name():
    asked = []

    class OneOwner:
        async def ask(self, question):
            asked.append(question)
            names = [*question["addresses"][:3], "orders"]  # an owner of an earlier release tells of any
            rows = [{"name": name, "address": name, "messages": 7, "at": [7, [name, name, 1]]} for name in names]
            return [{"rows": rows[::-1], "total": len(rows), "more": False}], []

    class Node:
        def dead_letter_addresses(self):
            return [f"DLQ.{n:03}" for n in range(500)]

    reading = Reading(OneOwner(), None, Node(), None, ".")
    found, _ = await reading.dead_letter_queues(Who("ada", "127.0.0.1", None, True), 21)
    assert [row["name"] for row in found] == ["DLQ.000", "DLQ.001", "DLQ.002"]
    assert len(asked) == 1 and len(asked[0]["addresses"]) == ADDRESSES


async def test_what_an_owner_of_an_earlier_release_tells_beside_does_not_push_dead_letters_out():
    def answer(name, messages):
        rows = [{"name": name, "address": name, "messages": messages, "at": [messages, [name, name, 1]]}]
        return {"rows": rows, "total": 1, "more": False}

    class TwoOwners:
        async def ask(self, question):
            return [answer("orders", 1_000_000), answer("DLQ", 7)], []

    class Node:
        def dead_letter_addresses(self):
            return ["DLQ"]

    reading = Reading(TwoOwners(), None, Node(), None, ".")
    found, _ = await reading.dead_letter_queues(Who("ada", "127.0.0.1", None, True), 1)
    assert [row["name"] for row in found] == ["DLQ"]


async def test_a_body_is_downloaded_whole_however_large(tmp_path):
    large = bytes(range(256)) * 2000
    async with running(tmp_path, wire={"large_body_bytes": 100_000}) as api:
        async with connect(api.url) as client:
            for body in (b"small\0\xff", large):
                await client.send("orders", body, {"destination-type": "ANYCAST", "persistent": "true"}, receipt=True)
        rows = (await api.get("/queues/orders/messages"))["items"]
        assert [row["large"] for row in rows] == [False, True]
        for row, body in zip(rows, (b"small\0\xff", large), strict=True):
            async with api.http.get(f"/api/v1/queues/orders/messages/{row['id']}/body") as answer:
                assert (answer.status, answer.content_type) == (200, "application/octet-stream")
                assert answer.headers["Content-Disposition"] == f'attachment; filename="{row["id"]}.body"'
                assert answer.content_length == len(body) and await answer.read() == body
        for path, problem in (
            ("orders/messages/7-7/body", "no-such-message"), ("none/messages/7-7/body", "no-such-queue"),
            ("orders/messages/x/body", "bad-value"),
        ):  # fmt: skip
            async with api.http.get(f"/api/v1/queues/{path}") as answer:
                assert (await answer.json(content_type=None))["type"] == f"urn:stampede:problem:{problem}"
