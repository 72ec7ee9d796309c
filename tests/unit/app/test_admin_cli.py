"""The day's work on the command line, on a broker in this loop."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
import yaml
from click.testing import CliRunner, Result

from broker.app.cli import main
from broker.client import ServerError, connect
from tests.harness.api import Api, running


@pytest.fixture
async def api(tmp_path):
    async with running(tmp_path, engine={"addresses": {"#": {"dead_letter_address": "DLQ"}}}) as api:
        yield api


async def run(api: Api, *line: str, input: str | None = None) -> Result:
    """`stampede LINE --url …`, in a thread: the broker is in this loop."""
    url = f"http://127.0.0.1:{api.broker.admin.port}"
    return await asyncio.to_thread(CliRunner().invoke, main, [*line, "--url", url], input)


async def done(api: Api, *line: str, input: str | None = None) -> str:
    result = await run(api, *line, input=input)
    assert result.exit_code == 0, (result.stdout, result.stderr)
    return result.stdout


async def send(api: Api, queue: str, *bodies: str, headers: tuple[str, ...] = ()) -> None:
    await api.call("POST", "/queues", 201, address=queue)
    for body in bodies:
        await api.call("POST", f"/addresses/{queue}/messages", 201, body=body, headers=list(headers))


async def test_queues_as_table_json_and_yaml(api):
    await send(api, "orders", "a", "b")
    await send(api, "mail", "c")
    table = (await done(api, "queues", "--sort=-messages")).splitlines()
    assert table[0].split()[:4] == ["NAME", "ADDRESS", "ROUTING", "MESSAGES"]
    assert [line.split()[0] for line in table[1:]] == ["orders", "mail"]
    assert [row["name"] for row in json.loads(await done(api, "queues", "-o", "json"))] == ["mail", "orders"]
    assert yaml.safe_load(await done(api, "queues", "-q", "ord", "-o", "yaml"))[0]["messages"] == 2
    assert "orders" in await done(api, "addresses") and (await done(api, "connections")).startswith("ID")
    assert (await done(api, "subscriptions")).startswith("NAME")


async def test_a_stuck_queue_says_why(api):
    await send(api, "orders", "a")
    assert "Nobody consumes it" in await done(api, "queue", "show", "orders")
    await done(api, "queue", "pause", "orders")
    assert "paused by an operator" in await done(api, "queue", "show", "orders")
    await done(api, "queue", "resume", "orders")


async def test_what_destroys_needs_the_name(api):
    await send(api, "orders", "a", "b")
    for line in (("queue", "purge", "orders"), ("queue", "delete", "orders")):
        assert (await run(api, *line, input="yes\n")).exit_code == 2
        assert (await run(api, *line)).exit_code == 2
    assert (await api.get("/queues/orders"))["parts"][0]["messages"] == 2
    await done(api, "queue", "purge", "orders", input="orders\n")
    assert (await api.get("/queues/orders"))["parts"][0]["messages"] == 0
    await done(api, "queue", "delete", "orders", "--yes")
    assert (await run(api, "queue", "show", "orders")).exit_code == 4


async def test_dead_letters_go_back(api):
    labels = ("_AMQ_ORIG_ADDRESS:orders", "_AMQ_ORIG_QUEUE:orders", "dead-letter-reason:rejected")
    await send(api, "DLQ", "a", "b", headers=labels)
    assert (await done(api, "dlq", "DLQ")).splitlines()[1].split() == ["orders", "orders", "rejected", "2"]
    assert (await done(api, "dlq")).splitlines()[1].split() == ["DLQ::DLQ", "orders", "orders", "rejected", "2"]
    assert (await done(api, "queue", "retry", "DLQ")).startswith("2 messages")
    assert [row["body"] for row in json.loads(await done(api, "messages", "orders", "-o", "json"))] == ["a", "b"]
    for headers in (labels, ("_AMQ_ORIG_ADDRESS:mail", "_AMQ_ORIG_QUEUE:mail")):
        await api.call("POST", "/addresses/DLQ/messages", 201, body="d", headers=list(headers))
    for which, many in ((["--address", "orders", "--reason", "rejected"], 1), (["--queue", "mail"], 1), ([], 2)):
        told = (await done(api, "queue", "retry", "DLQ", "--dry-run", *which)).splitlines()
        assert told[0] == f"{many} messages: retry not done (--dry-run)" and len(told) == 2 + many
    assert (await done(api, "queue", "purge", "DLQ", "--dry-run")).startswith("2 messages: purge not done")
    assert (await done(api, "queue", "retry", "DLQ", "--address", "orders")).startswith("1 messages"), "not about mail"
    await send(api, "lost", "c")
    stays = await run(api, "queue", "retry", "lost")
    assert stays.exit_code == 1 and "does not say where it comes from" in stays.stderr


async def test_what_expires_what_is_paced_and_a_copy_that_is_made_once(api, monkeypatch):
    await send(api, "orders", *"abcdef")
    assert (await run(api, "queue", "expire", "orders", input="no\n")).exit_code == 2
    began = asyncio.get_running_loop().time()
    assert (await done(api, "queue", "move", "orders", "b", "--rate", "20")).startswith("6 messages")
    assert asyncio.get_running_loop().time() - began >= 0.2
    monkeypatch.setattr("broker.app.commands.admin_cli.MOST_COPIED", 4)
    some = await run(api, "queue", "move", "b", "c", "--copy")
    assert some.exit_code == 1 and some.stdout.startswith("4 messages") and "there is more" in some.stderr
    assert (await api.get("/queues/c"))["parts"][0]["messages"] == 4, "once"
    assert (await done(api, "queue", "expire", "c", "--yes")).startswith("4 messages")
    assert (await api.get("/queues", q="c", filled="true"))["items"] == []


async def test_clients_of_an_address_are_disconnected(api):
    async with AsyncExitStack() as clients:
        for _ in range(2):
            clients.enter_context(pytest.raises(ServerError, match="operator"))
            await clients.enter_async_context(connect(api.url))
        rows = json.loads(await done(api, "connections", "--from", "127.0.0.1", "-o", "json"))
        assert len(rows) == 2 and rows[0]["edge"] == ""
        assert json.loads(await done(api, "connections", "--blocked", "-o", "json")) == []
        assert (await run(api, "disconnect", "--from", "127.0.0.1", "--user", "x")).exit_code == 2
        assert "1" in await done(api, "disconnect", "--from", rows[0]["peer"], "--yes")
        assert (await done(api, "disconnect", "--from", "127.0.0.1", "--yes")).split()[-1] == "1"


async def test_export_and_import_are_exact(api, tmp_path):
    await send(api, "orders", "ä\n\0b", "two", headers=("x:1:2",))
    file = tmp_path / "orders.jsonl"
    await done(api, "export", "orders", str(file))
    await done(api, "import-messages", "again", str(file))
    await done(api, "queue", "move", "orders", "archive", "--selector", "x = '1:2'")
    before = [json.loads(line)["raw"] for line in file.read_text().splitlines()]
    for queue in ("again", "archive"):
        assert [row["raw"] for row in (await api.get(f"/queues/{queue}/messages", raw="true"))["items"]] == before


async def test_top_and_completion(api):
    await send(api, "orders", "a")
    told = json.loads(await done(api, "top", "--count", "1", "-o", "json"))
    assert told["queues"][0]["name"] == "orders" and set(told["rates"]) == {"accepted", "delivered", "acked"}
    assert "orders" in await done(api, "top", "--count", "1")
    for shell in ("bash", "zsh", "fish"):
        result = CliRunner().invoke(main, ["completion", shell])
        assert result.exit_code == 0 and "_STAMPEDE_COMPLETE" in result.stdout
