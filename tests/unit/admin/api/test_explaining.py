"""Who may do what and why, what was done, and all dead letters, over the API and the command line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from broker.admin.api import audit
from broker.admin.api.access import Who
from broker.admin.api.reading import ADDRESSES, Reading
from broker.app.cli import main
from broker.client import connect
from tests.harness.api import login, running

PERMISSIONS = {
    "#": {"send": "ops", "consume": "*"},
    "orders.eu": {"send": "eu, ops"},
    "orders.eu::audit": {"consume": "ops"},
}


@pytest.fixture
async def api(tmp_path):
    async with running(tmp_path, edge={"permissions": PERMISSIONS}) as api:
        await api.call("PUT", "/users/ada", passcode="a long passcode", groups=["admin"])
        api.http.headers.update(login("ada", "a long passcode"))
        await api.call("PUT", "/users/alice", passcode="another passcode", groups=["eu"])
        yield api


async def of(api, user: str, address: str) -> dict[str, tuple[bool, str | None]]:
    rows = (await api.get("/rights", user=user, address=address))["rights"]
    return {row["operation"]: (row["allowed"], row["entry"]) for row in rows}


async def test_may_alice_send_to_orders_eu(api):
    told = await of(api, "alice", "orders.eu")
    assert told["send"] == (True, "orders.eu") and told["consume"] == (False, "orders.eu")
    assert (await of(api, "alice", "orders.us"))["consume"] == (True, "#")
    assert (await of(api, "alice", "orders.eu::audit"))["send"] == (False, "orders.eu::audit")
    pattern = await of(api, "alice", "#")
    assert pattern["consume"] == (False, "orders.eu"), "of a pattern all of it"
    (row,) = [row for row in (await api.get("/rights", user="alice", address="orders.eu"))["rights"]
              if row["operation"] == "send"]  # fmt: skip
    assert row["groups"] == ["eu", "ops"]


async def test_what_is_told_is_what_happens(api):
    for address in ("orders.eu", "orders.us"):
        await api.call("POST", "/queues", 201, address=address)
    async with connect(api.url.replace("//", "//alice:another%20passcode@")) as client:
        for address, operation in (("orders.eu", "send"), ("orders.us", "send")):
            allowed = (await of(api, "alice", address))[operation][0]
            try:
                await client.send(address, "x", receipt=True)
                sent = True
            except Exception as error:
                assert "lacks send" in str(error)
                sent = False
            assert sent is allowed


async def test_groups_of_somebody_who_is_to_come(api):
    rows = (await api.get("/rights", groups="eu, ops", address="orders.eu::audit"))["rights"]
    assert {row["operation"] for row in rows if row["allowed"]} == {"consume"}
    for query in ({"address": "a"}, {"user": "ada", "groups": "x", "address": "a"}, {"user": "ada", "address": "a::"}):
        assert (await api.raw("GET", "/rights", params=query))[0] == 400
    status, told = await api.raw("GET", "/rights", params={"user": "nobody", "address": "a"})
    assert status == 404 and "nobody" in told["detail"]


async def test_others_may_not_ask(api):
    alice = {"headers": login("alice", "another passcode")}
    for path in ("/rights?user=alice&address=a", "/audit"):
        assert (await api.raw("GET", path, **alice))[0] == 403


async def test_the_last_changes_are_told_and_no_more_than_are_kept(api, monkeypatch):
    await api.call("POST", "/queues", 201, address="orders.eu")
    line = (await api.get("/audit", q="orders.eu", limit=1))["items"][0]
    assert line["who"] == "ada" and line["action"] == "create-queue" and line["outcome"] == "done"
    await api.raw("POST", "/queues/orders.eu/move", json={"to": "elsewhere", "selector": "n = 1"})
    line = (await api.get("/audit", q="elsewhere"))["items"][0]
    assert line["more"] == {"to": '"elsewhere"', "selector": '"n = 1"', "done": "0"}
    for n in range(audit.KEPT + 5):
        audit.note("x", "y", "test", str(n), "done", long="z" * 5000)
    rows = (await api.get("/audit", limit=audit.KEPT))["items"]
    assert [row["target"] for row in rows[:2]] == [str(audit.KEPT + 4), str(audit.KEPT + 3)] and len(rows) == audit.KEPT
    assert len(rows[0]["more"]["long"]) < audit.SHORT + 100
    assert "a long passcode" not in json.dumps(rows)


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


def test_the_command_says_why(monkeypatch):
    told = {
        "open": False, "groups": ["eu"],
        "rights": [{"operation": "send", "allowed": False, "entry": "orders.#", "groups": ["ops"]}],
    }  # fmt: skip
    monkeypatch.setattr("broker.app.commands.explain_cli.AdminApi.get", lambda *_, **__: told)
    result = CliRunner().invoke(main, ["rights", "alice", "orders.eu", "send"])
    assert result.exit_code == 1 and "the entry orders.# says ops; alice is in eu" in result.output
    told["open"] = True
    assert "every user may do everything" in CliRunner().invoke(main, ["rights", "alice", "orders.eu"]).output
