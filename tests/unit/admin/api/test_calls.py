"""One request: admitted, read, carried out; whatever goes wrong is a problem document."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import Any

import pytest

from broker.admin.api.calls import ApiOp, Call, Caller
from broker.admin.api.server import LocalOwners
from broker.seams.loop_watchdog import PORTION_S, Steps
from tests.harness.admin_messages import depth, send


async def test_what_is_watched_gives_way_and_what_is_asked_does_not():
    """A console asks again and again, and nobody waits for the answer: a message that passes the loop would find a
    portion of it before each of its steps."""
    clock = SimpleNamespace(now=0.0)
    steps = Steps(SimpleNamespace(monotonic=lambda: clock.now)).kind("api")  # type: ignore[arg-type]
    caller, rests = Caller(None, steps), []  # type: ignore[arg-type]

    def work():
        for _ in range(10):
            clock.now += 2 * PORTION_S
            yield
        return {"done": True}

    owners = LocalOwners(lambda question: work())
    owners.caller = caller

    async def handler(call: Call) -> Any:
        return (await owners.ask(call.asks({"kind": "totals"})))[0][0]

    async def next_turn() -> None:
        rests.append(clock.now)
        await asyncio.sleep(0)

    caller._turns.next = next_turn  # type: ignore[method-assign]
    op = ApiOp("GET", "/x", "x", "…", handler, "Overview")
    assert await handler(Call(None, {}, {}, {})) == {"done": True} and rests == []  # type: ignore[arg-type]
    told = await asyncio.create_task(caller.ask(op, None, {}, {}))  # type: ignore[arg-type]
    assert told == {"done": True} and len(rests) == 11, "before each portion"


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
