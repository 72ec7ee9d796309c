"""Tokens of machines: told once, hashed where they are kept, in no log, and worth nothing once they are revoked."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from broker.app.live import live_tokens
from broker.app.live.live_tokens import LiveTokens
from broker.core.errors import ConfigError
from tests.harness.api import Api, login, running

PASSCODE = "a long passcode"


def bearer(token: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token}"}}


async def closed(api: Api) -> dict[str, Any]:
    """There are users now: how an administrator asks."""
    await api.call("PUT", "/users/root", passcode=PASSCODE, groups=["admin"])
    return {"headers": login("root", PASSCODE)}


async def made(api: Api, root: dict[str, Any], name: str, *groups: str) -> str:
    status, told = await api.raw("POST", "/tokens", json={"name": name, "groups": groups}, **root)
    assert status == 201, told
    return str(told["token"])


async def test_a_token_lets_in_over_restarts_until_it_is_revoked(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    async with running(tmp_path) as api:
        root = await closed(api)
        token = await made(api, root, "backup", "admin")
        status, told = await api.raw("GET", "/tokens", **bearer(token))
        assert status == 200 and [(row["name"], row["by"]) for row in told["items"]] == [("backup", "root")]
        assert token not in json.dumps(told)
    kept = (tmp_path / "tokens.json").read_text()
    assert token not in kept and token.removeprefix("stampede_") not in kept
    assert (tmp_path / "tokens.json").stat().st_mode & 0o77 == 0
    async with running(tmp_path, login=bearer(token)["headers"]) as api:
        assert (await api.raw("POST", "/queues", json={"address": "orders"}, **bearer(token)))[0] == 201
        audited = [json.loads(text) for text in caplog.messages if '"create-queue"' in text]
        assert audited[-1]["who"] == "token backup"
        assert (await api.raw("DELETE", "/tokens/backup", **root))[0] == 200
        status, told = await api.raw("GET", "/tokens", **bearer(token))
        assert (status, told["type"]) == (401, "urn:stampede:problem:no-such-token")
        assert (await api.raw("DELETE", "/tokens/backup", **root))[0] == 404
    assert token not in caplog.text


async def test_a_token_may_what_its_groups_may(tmp_path):
    async with running(tmp_path) as api:
        root = await closed(api)
        permit = {"values": {"manage": "eu", "send": "*"}}
        assert (await api.raw("PATCH", "/config/permissions/eu.%23", json=permit, **root))[0] == 200
        eu, nobody = await made(api, root, "eu", "eu"), await made(api, root, "us", "us")
        assert (await api.raw("POST", "/queues", json={"address": "eu.a"}, **bearer(eu)))[0] == 201
        assert (await api.raw("POST", "/queues", json={"address": "us.a"}, **bearer(eu)))[0] == 403
        for path in ("/tokens", "/settings"):
            assert (await api.raw("GET", path, **bearer(eu)))[0] == 403
        assert (await api.raw("POST", "/tokens", json={"name": "x", "groups": ["admin"]}, **bearer(eu)))[0] == 403
        assert (await api.raw("GET", "/queues", **bearer(nobody)))[0] == 403
        for wrong in ("", "x", eu[:-1], eu + "0", "ü"):
            assert (await api.raw("GET", "/queues", **bearer(wrong)))[0] == 401


async def test_what_is_wrong_is_refused_by_name(tmp_path, monkeypatch):
    async with running(tmp_path) as api:
        await made(api, {}, "one", "admin")
        for body, status, named in (
            ({"name": "one", "groups": ["admin"]}, 409, "already"), ({"name": "two", "groups": []}, 409, "may nothing"),
            ({"name": "..", "groups": ["admin"]}, 400, "name"), ({"name": "x" * 101, "groups": ["admin"]}, 400, "name"),
        ):  # fmt: skip
            found, told = await api.raw("POST", "/tokens", json=body)
            assert found == status and named in told["detail"]
        monkeypatch.setattr(live_tokens, "MOST", 1)
        found, told = await api.raw("POST", "/tokens", json={"name": "two", "groups": ["admin"]})
        assert found == 409 and "the most" in told["detail"]
    (tmp_path / "tokens.json").write_text("{")
    with pytest.raises(ConfigError, match=r"tokens\.json cannot be read"):
        LiveTokens(str(tmp_path))
