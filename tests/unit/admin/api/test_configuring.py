"""Settings and users that are changed while a standalone broker runs: over the API, the command line and its file."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from broker.app.cli import main
from broker.app.live import LiveSettings
from broker.client import ClientError, connect
from broker.config.load import SettingsSource
from broker.core.errors import ConfigError
from tests.harness.api import Api, login, running
from tests.harness.waiting import eventually

FILE = """
[edge]
host = "127.0.0.1"
port = 0
ws_port = -1
[admin]
port = 0
[journal]
min_free_bytes = 0
[engine.queues.orders]
selector = "n > 1"
[engine.addresses."orders"]
max_delivery_attempts = 3
partitions = 2
"""


@pytest.fixture
def source(tmp_path: Path) -> SettingsSource:
    (tmp_path / "broker.toml").write_text(FILE)
    return SettingsSource(str(tmp_path / "broker.toml"), {}, {"data": str(tmp_path / "data")})


@pytest.fixture
async def api(tmp_path: Path, source: SettingsSource):
    async with running(tmp_path, source) as api:
        yield api


def write(source: SettingsSource, text: str) -> None:
    assert source.config_file is not None
    Path(source.config_file).write_text(text)


async def entry(api: Api, table: str, name: str) -> dict[str, Any]:
    rows = (await api.get("/config", table=table, limit=500))["items"]
    return next(row for row in rows if row["name"] == name)


async def change(api: Api, path: str, status: int = 200, **values: Any) -> Any:
    return await api.call("PATCH", f"/config/{path}", status, values=values)


# ── entries ─────────────────────────────────────────────────────────────────────────────────────────


async def test_a_queue_is_there_when_its_change_is_answered_and_after_a_restart(tmp_path, source):
    async with running(tmp_path, source) as api:
        told = await change(api, "queues/bills", selector="n > 3")
        assert told == {"table": "queues", "name": "bills", "values": {"selector": "n > 3"}, "exists": True}
        assert (await api.get("/queues/bills"))["parts"][0]["declared"]
    async with running(tmp_path, source) as api:
        assert (await api.get("/queues/bills"))["parts"][0]["selector"] == "n > 3"
        assert (await entry(api, "queues", "bills"))["source"] == "live"


async def test_the_files_own_values_are_marked_where_they_are_overridden(api):
    await change(api, "addresses/orders", max_delivery_attempts=7, redelivery_delay_ms="50")
    row = await entry(api, "addresses", "orders")
    assert row["values"] == {"max_delivery_attempts": 7, "redelivery_delay_ms": 50, "partitions": 2}
    assert (row["source"], row["overridden"], row["by"]) == (
        "file and live", {"max_delivery_attempts": 3}, "anonymous",
    )  # fmt: skip
    assert (await entry(api, "queues", "orders"))["source"] == "file"
    await change(api, "addresses/orders", max_delivery_attempts=None)
    assert (await entry(api, "addresses", "orders"))["values"]["max_delivery_attempts"] == 3
    (settings,) = (await api.get("/settings", q="engine.addresses"))["items"]
    assert settings["source"].endswith("broker.toml, and live")
    (port,) = (await api.get("/settings", q="admin.port"))["items"]
    assert port["source"].endswith("broker.toml")


async def test_what_is_taken_back_is_as_the_file_has_it(api):
    await change(api, "queues/orders", selector="n > 9")
    assert (await entry(api, "queues", "orders"))["values"] == {"selector": "n > 9"}
    told = await api.call("DELETE", "/config/queues/orders")
    assert told["values"] == {"selector": "n > 1"} and told["exists"]
    await change(api, "queues/bills", selector="")
    assert not (await api.call("DELETE", "/config/queues/bills"))["exists"]
    told = await api.call("DELETE", "/config/queues/orders", 404)
    assert told["type"] == "urn:stampede:problem:no-such-live-change" and "config file" in told["fix"]


@pytest.mark.parametrize(
    ("path", "values", "named"),
    [
        ("queues/bad", {"selector": "n >"}, "selector"),
        ("queues/bad", {"selektor": "n"}, "selektor"),
        ("addresses/orders", {"partitions": 1}, "orders has 2 partitions"),
        ("addresses/a..b", {"paused": True}, "a..b"),
        ("diverts/loop", {"address": "a", "forward": "a"}, "diverted to itself"),
        ("permissions/%23", {"send": "a,,b"}, "send"),
    ],
)
async def test_what_is_wrong_is_refused_by_name_and_changes_nothing(api, path, values, named):
    before = await api.get("/config")
    told = await change(api, path, 409, **values)
    assert named in told["detail"] and "nothing has changed" in told["fix"]
    assert await api.get("/config") == before
    assert not (Path(api.broker.settings.data) / "live.json").exists()


async def test_what_needs_a_restart_has_no_table_here(api):
    told = await change(api, "acceptors/amqp", 404, port=1)
    assert told["type"] == "urn:stampede:problem:no-such-table" and "restart" in told["fix"]


async def test_a_divert_and_a_permission_count_at_once(api, caplog):
    caplog.set_level(logging.INFO, "stampede.audit")
    await change(api, "diverts/copy", address="a", forward="b")
    await change(api, "queues/b", routing="ANYCAST")
    async with connect(api.url) as client:
        await client.send("a", "1", receipt=True)
        assert (await api.get("/queues/b"))["parts"][0]["messages"] == 1
        await change(api, "permissions/%23", consume="*")
        with pytest.raises(ClientError, match="lacks send"):
            await client.send("a", "2", receipt=True)
    told = await api.call("DELETE", "/config/permissions/%23", 409)
    assert "last entry of edge.permissions" in told["detail"]
    line = json.loads(next(text for text in caplog.messages if "change-config" in text and "permissions" in text))
    assert (line["before"], line["after"], line["who"]) == ({}, {"consume": "*"}, "anonymous")


def test_a_file_that_cannot_be_read_is_refused_at_the_start(source):
    live = Path(source.overrides["data"], "live.json")
    os.makedirs(live.parent)
    for text, named in (
        ("{", "cannot be read"), ('{"version": 2}', "version 2"), ('{"tables": {"x": {}}}', "'x'"),
        ('{"tables": {"engine.queues": {"q": {"values": {"selector": "n >"}}}}}', "take the entry out"),
    ):  # fmt: skip
        live.write_text(text)
        with pytest.raises(ConfigError, match=named):
            LiveSettings(source.read(), source)


async def test_a_durable_subscription_that_is_away_misses_nothing_when_its_address_is_split(api):
    durable = {"destination-type": "MULTICAST", "durable-subscription-name": "daily"}
    async with connect(api.url, client_id="shop") as client, client.subscribe("news", headers=durable):
        pass
    await change(api, "addresses/news", partitions=8)
    await eventually(lambda: api.broker.edge._sent_partitions("news") == 8)
    async with connect(api.url) as client:
        for n in range(40):
            await client.send("/topic/news", str(n), receipt=True, headers={"JMSXGroupID": f"g{n}"})
    parts = (await api.get("/queues/shop.daily"))["parts"]
    assert len(parts) == 8 and sum(part["messages"] for part in parts) == 40


async def test_nor_when_its_address_was_split_while_the_broker_did_not_run(tmp_path, source):
    durable = {"destination-type": "MULTICAST", "durable-subscription-name": "daily"}
    async with (
        running(tmp_path, source) as api,
        connect(api.url, client_id="shop") as client,
        client.subscribe("news", headers=durable),
    ):
        pass
    write(source, FILE + "[engine.addresses.news]\npartitions = 8\n")
    async with running(tmp_path, source) as api, connect(api.url) as client:
        for n in range(40):
            await client.send("/topic/news", str(n), receipt=True, headers={"JMSXGroupID": f"g{n}"})
        await eventually(lambda: api.broker.edge._sent_partitions("news") == 8)
        parts = (await api.get("/queues/shop.daily"))["parts"]
        assert len(parts) == 8 and sum(part["messages"] for part in parts) == 40


# ── the file read again ─────────────────────────────────────────────────────────────────────────────


async def test_the_file_is_read_again_and_what_needs_a_restart_is_named(api, source, caplog):
    await change(api, "addresses/orders", max_delivery_attempts=7)
    text = (
        FILE.replace('"n > 1"', '"n > 2"')
        .replace("attempts = 3", "attempts = 4")
        .replace("partitions = 2", "partitions = 3")
    )
    write(source, text.replace("ws_port = -1", "ws_port = -1\nmax_connections = 7") + "[engine.queues.mail]\n")
    told = await api.call("POST", "/config/reload")
    assert told["changed"] == [
        {"table": "addresses", "name": "orders"}, {"table": "queues", "name": "mail"},
        {"table": "queues", "name": "orders"},
    ]  # fmt: skip
    (restart,) = told["restart"]
    assert restart["name"] == "edge.max_connections" and restart["wanted"] == 7
    assert "edge.max_connections has changed, which needs a restart" in caplog.text
    assert (await api.get("/queues/mail"))["parts"][0]["declared"]
    row = await entry(api, "addresses", "orders")
    assert row["values"]["max_delivery_attempts"] == 7 and row["overridden"] == {"max_delivery_attempts": 4}
    shown = (await api.get("/settings", q="edge.max_connections"))["items"][0]
    assert shown["restart"] == 7 and shown["value"] != "7"
    assert (await api.call("POST", "/config/reload"))["changed"] == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (FILE + "[engine.queues.bad]\nselector = 'n >'\n", "engine.queues"),
        (FILE.replace("partitions = 2", ""), "orders has 2 partitions"),
        ("[edge", "cannot be parsed"),
    ],
)
async def test_a_bad_file_changes_nothing(api, source, text, named):
    before = await api.get("/config")
    write(source, text)
    assert named in (await api.call("POST", "/config/reload", 409))["detail"]
    assert await api.get("/config") == before


async def test_permissions_that_are_gone_from_the_file_stay_until_a_restart(tmp_path, source):
    write(source, FILE + '[edge.permissions."#"]\nconsume = "*"\n')
    async with running(tmp_path, source) as api:
        write(source, FILE)
        told = await api.call("POST", "/config/reload")
        assert [one["name"] for one in told["restart"]] == ["edge.permissions"] and told["changed"] == []
        async with connect(api.url) as client:
            with pytest.raises(ClientError, match="lacks send"):
                await client.send("a", "2", receipt=True)


async def test_a_broker_without_a_source_says_that_it_cannot_read_it_again(tmp_path):
    async with running(tmp_path) as api:
        assert "not started from" in (await api.call("POST", "/config/reload", 409))["detail"]


# ── users ───────────────────────────────────────────────────────────────────────────────────────────


async def test_the_first_user_closes_a_broker_that_was_open(api):
    async with connect(api.url) as open:
        await api.call("PUT", "/users/ada", passcode="a long passcode", groups=["admin"])
        with pytest.raises((ClientError, ConnectionError)):
            await open.send("a", "1", receipt=True)
    status, _ = await api.raw("GET", "/users")
    assert status == 401
    ada = {"headers": login("ada", "a long passcode")}
    with pytest.raises(ClientError):
        async with connect(api.url):
            pass
    status, told = await api.raw("PUT", "/users/bob", json={"passcode": "another passcode", "groups": ["eu"]}, **ada)
    assert (status, told) == (200, {"name": "bob", "groups": ["eu"]})
    async with connect(api.url.replace("//", "//bob:another%20passcode@")) as client:
        await client.send("a", "1", receipt=True)
        status, told = await api.raw("PUT", "/users/bob", json={"groups": ["us"]}, **ada)
        assert (status, told) == (200, {"name": "bob", "groups": ["us"]})
        assert (await api.raw("DELETE", "/users/bob", **ada))[0] == 200
        with pytest.raises((ClientError, ConnectionError)):
            await client.send("a", "2", receipt=True)
    status, told = await api.raw("GET", "/users", **ada)
    assert told["items"] == [{"name": "ada", "groups": ["admin"]}]
    assert (await api.raw("DELETE", "/users/ada", **ada))[0] == 409
    assert (await api.raw("DELETE", "/users/eve", **ada))[0] == 404
    status, told = await api.raw("PUT", "/users/eve", json={"passcode": "short"}, **ada)
    assert status == 409 and "8 characters" in told["detail"]


# ── on the command line ─────────────────────────────────────────────────────────────────────────────


async def run(api: Api, *line: str) -> Result:
    url = f"http://127.0.0.1:{api.broker.admin.port}"
    return await asyncio.to_thread(CliRunner().invoke, main, ["config", *line, "--url", url])


async def test_the_same_on_the_command_line(api, source):
    assert (await run(api, "set", "queues", "bills", "selector=n > 3")).exit_code == 0
    listed = await run(api, "list", "queues", "--live")
    assert "selector=n > 3" in listed.stdout and "orders" not in listed.stdout
    write(source, FILE.replace("ws_port = -1", "ws_port = -1\nmax_connections = 7"))
    told = await run(api, "reload")
    assert told.exit_code == 1 and "edge.max_connections needs a restart" in told.stderr
    assert (await run(api, "reset", "queues", "bills")).exit_code == 0
    assert (await run(api, "reset", "queues", "bills")).exit_code == 4
    assert (await run(api, "set", "queues", "bills", "selector")).exit_code == 2
