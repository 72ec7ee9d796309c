"""Settings and users that are changed while a standalone broker runs: over the API, the command line and its file."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from broker.app.cli import main
from broker.app.live import live as live_module
from broker.app.live.live import LiveSettings
from broker.client import ClientError, connect
from broker.config import changes as changes_module
from broker.config.changes import Changes, LiveChange, checked
from broker.core.errors import ConfigError
from tests.harness.api import Api, login, running
from tests.harness.configured import FILE, api, source, write
from tests.harness.waiting import eventually

__all__ = ["api", "source"]  # fixtures


async def entry(api: Api, table: str, name: str) -> dict[str, Any]:
    rows = (await api.get("/config", table=table, limit=500))["items"]
    return next(row for row in rows if row["name"] == name)


async def change(api: Api, path: str, status: int = 200, **values: Any) -> Any:
    return await api.call("PATCH", f"/config/{path}", status, values=values)


async def test_a_queue_is_there_when_its_change_is_answered_and_after_a_restart(tmp_path, source):
    async with running(tmp_path, source) as api:
        told = await change(api, "queues/bills", selector="n > 3")
        assert told == {
            "table": "queues", "name": "bills", "values": {"selector": "n > 3"}, "exists": True, "missing": []
        }  # fmt: skip
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
    ):  # fmt: skip
        live.write_text(text)
        with pytest.raises(ConfigError, match=named):
            LiveSettings(source.read(), source)


DIVERT = '[engine.diverts.copy]\naddress = "a"\nforward = "b"\n'


async def test_a_change_that_makes_no_entry_without_the_file_is_set_aside_at_the_start_and_told(
    tmp_path, source, caplog
):
    write(source, FILE + DIVERT)
    async with running(tmp_path, source) as api:
        await change(api, "diverts/copy", selector="n > 1")
    write(source, FILE)
    async with running(tmp_path, source) as api:
        assert "stampede config reset diverts copy" in caplog.text
        row = await entry(api, "diverts", "copy")
        assert (row["source"], row["values"], row["live"]) == ("set aside", {}, {"selector": "n > 1"})
        assert "needs `address`" in row["why"]
        assert (await run(api, "reset", "diverts", "copy")).exit_code == 0
        assert (await api.get("/config", table="diverts"))["items"] == []


async def test_what_contradicts_the_file_is_set_aside_the_file_counts_and_partitions_stay(tmp_path, source):
    news = "[engine.addresses.news]\nmax_delivery_attempts = 3\n"
    write(source, FILE + news)
    async with running(tmp_path, source) as api, connect(api.url) as client:
        await change(api, "addresses/news", redelivery_delay_ms=4000, partitions=8)
        await eventually(lambda: api.broker.edge.growth.sent_partitions("news") == 8)
        for n in range(40):
            headers = {"JMSXGroupID": f"g{n}", "persistent": "true"}
            await client.send("/queue/news", str(n), receipt=True, headers=headers)
    write(source, FILE + news + "max_redelivery_delay_ms = 1000\n")
    async with running(tmp_path, source) as api, connect(api.url) as client:
        used = {"max_delivery_attempts": 3, "max_redelivery_delay_ms": 1000, "partitions": 8}
        row = await entry(api, "addresses", "news")
        assert (row["source"], row["values"]) == ("set aside", used) and "is below redelivery_delay_ms" in row["why"]
        assert api.broker.live.settings.engine.addresses["news"] == used
        async with asyncio.timeout(20), client.subscribe("/queue/news") as sub:
            assert {(await anext(sub)).body for _ in range(40)} == {b"%d" % n for n in range(40)}
        assert (await api.call("POST", "/config/reload"))["changed"] == []
        assert (await change(api, "addresses/news", redelivery_delay_ms=None))["values"] == used
        assert (await entry(api, "addresses", "news"))["source"] == "file and live"


async def test_nor_when_the_file_is_read_again_and_it_can_be_completed(tmp_path, source):
    write(source, FILE + DIVERT)
    async with running(tmp_path, source) as api:
        await change(api, "diverts/copy", selector="n > 1")
        write(source, FILE)
        told = await api.call("POST", "/config/reload")
        assert [(one["table"], one["name"]) for one in told["aside"]] == [("engine.diverts", "copy")]
        assert told["changed"] == [{"table": "diverts", "name": "copy"}]
        whole = {"address": "a", "forward": "c", "selector": "n > 1"}
        assert (await change(api, "diverts/copy", address="a", forward="c"))["values"] == whole
        row = await entry(api, "diverts", "copy")
        assert (row["source"], row["values"], row["why"]) == ("live", whole, "")
        assert (await api.call("POST", "/config/reload"))["aside"] == []


async def test_a_permission_is_never_set_aside_and_a_command_mends_the_start(tmp_path, source):
    async with running(tmp_path, source) as api:
        for match in ("#", "orders.#"):
            await change(api, f"permissions/{match.replace('#', '%23')}", send="ops")
        wanted = FILE + '[engine]\nwildcard_delimiter = "/"\n'
        write(source, wanted)
        told = await api.call("POST", "/config/reload", 409)
        assert "`stampede config reset permissions 'orders.#'`" in told["detail"]
        running_broker = ["config", "reset", "permissions", "orders.#", "--data", source.overrides["data"]]
        refused = await asyncio.to_thread(CliRunner().invoke, main, running_broker)
        assert refused.exit_code == 1 and "A broker runs" in refused.stderr
    with pytest.raises(ConfigError) as error:
        LiveSettings(source.read(), source)
    command = str(error.value).split("`stampede ")[1].split("`")[0]
    assert CliRunner().invoke(main, shlex.split(command)).exit_code == 0
    assert CliRunner().invoke(main, shlex.split(command)).exit_code == 4
    assert list(LiveSettings(source.read(), source).settings.edge.permissions) == ["#"]


async def test_entries_of_a_file_with_another_delimiter_wait_for_the_restart(api, source):
    await change(api, "addresses/a.%23", paused=True)
    write(source, FILE + '[engine]\nwildcard_delimiter = "/"\n[engine.addresses."b/#"]\npaused = true\n')
    told = await api.call("POST", "/config/reload")
    assert told["changed"] == []
    assert [one["name"] for one in told["restart"]] == ["engine.wildcard_delimiter", 'engine.addresses."b/#"']
    assert [(one["table"], one["name"]) for one in told["aside"]] == [("engine.addresses", "a.#")]
    assert (await entry(api, "addresses", "a.#"))["source"] == "live", "in use until then"


async def test_a_change_of_one_entry_checks_that_one(api, monkeypatch):
    for n in range(20):
        await change(api, f"queues/q{n}", selector=f"n > {n}")
    seen: list[str] = []

    def noted(table: str, entry: str, *rest: Any) -> dict[str, Any]:
        seen.append(entry)
        return checked(table, entry, *rest)

    for module in (live_module, changes_module):
        monkeypatch.setattr(module, "checked", noted)
    await change(api, "queues/q3", selector="n > 33")
    await api.call("DELETE", "/config/queues/q4")
    await api.call("POST", "/config/reload")
    assert seen == ["q3"]


async def test_values_are_bounded_in_what_is_kept_and_in_the_audit_log(api, source, caplog):
    caplog.set_level(logging.INFO, "stampede.audit")
    told = await change(api, "queues/q", 400, selector="x" * 4097)
    assert "values.selector" in told["detail"] and "4096 characters" in told["fix"]
    await change(api, "queues/q", 400, **{f"s{n}": n for n in range(101)})
    names = ", ".join([f"'v{n}'" for n in range(3000)])
    long = f"name IN ({names})"
    write(source, FILE.replace("n > 1", long))
    await api.call("POST", "/config/reload")
    await change(api, "queues/orders", selector="n > 2")
    (line,) = [text for text in caplog.messages if '"change-config"' in text and '"done"' in text]
    assert len(line) < 20_000 and "characters)" in json.loads(line)["before"]
    full = Changes({"engine.queues": {f"q{n}": LiveChange({"selector": "x" * 4096}) for n in range(2050)}})
    with pytest.raises(ConfigError, match="8388608 are the most"):
        full.encoded()


@pytest.mark.parametrize("name", ["..", "."])
async def test_a_name_that_a_url_cannot_have_is_refused_by_name(api, name):
    reader, writer = await asyncio.open_connection("127.0.0.1", api.broker.admin.port)
    body = b'{"values": {"selector": "n > 1"}}'
    for text in (name, name.replace(".", "%2E")):
        writer.write(
            f"PATCH /api/v1/config/queues/{text} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        assert b" 400 " in await reader.readline()
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split()[0])
        assert "step in the path" in json.loads(await reader.readexactly(length))["fix"]
    writer.close()
    assert "neither" in (await api.call("POST", "/queues", 400, address=name))["fix"]
    assert [row["name"] for row in (await api.get("/config", table="queues"))["items"]] == ["orders"]


async def test_a_durable_subscription_that_is_away_misses_nothing_when_its_address_is_split(api):
    durable = {"destination-type": "MULTICAST", "durable-subscription-name": "daily"}
    async with connect(api.url, client_id="shop") as client, client.subscribe("news", headers=durable):
        pass
    await change(api, "addresses/news", partitions=8)
    await eventually(lambda: api.broker.edge.growth.sent_partitions("news") == 8)
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
        await eventually(lambda: api.broker.edge.growth.sent_partitions("news") == 8)
        parts = (await api.get("/queues/shop.daily"))["parts"]
        assert len(parts) == 8 and sum(part["messages"] for part in parts) == 40


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
    assert (status, told) == (200, {"name": "bob", "groups": ["eu"], "missing": []})
    async with connect(api.url.replace("//", "//bob:another%20passcode@")) as client:
        await client.send("a", "1", receipt=True)
        status, told = await api.raw("PUT", "/users/bob", json={"groups": ["us"]}, **ada)
        assert (status, told) == (200, {"name": "bob", "groups": ["us"], "missing": []})
        assert (await api.raw("DELETE", "/users/bob", **ada))[0] == 200
        with pytest.raises((ClientError, ConnectionError)):
            await client.send("a", "2", receipt=True)
    status, told = await api.raw("GET", "/users", **ada)
    assert told["items"] == [{"name": "ada", "groups": ["admin"]}]
    assert (await api.raw("DELETE", "/users/ada", **ada))[0] == 409
    assert (await api.raw("DELETE", "/users/eve", **ada))[0] == 404
    status, told = await api.raw("PUT", "/users/eve", json={"passcode": "short"}, **ada)
    assert status == 409 and "8 characters" in told["detail"]


async def run(api: Api, *line: str) -> Result:
    url = f"http://127.0.0.1:{api.broker.admin.port}"
    return await asyncio.to_thread(CliRunner().invoke, main, ["config", *line, "--url", url])
