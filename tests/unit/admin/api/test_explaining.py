"""Who may do what and why, what was done, and all dead letters, over the API and the command line."""

from __future__ import annotations

import pytest

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
