"""What an action would be about, before it is done: the same number and the same messages as it then is."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.admin.desk import bulk_moves
from tests.harness.api import Api, running


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with running(tmp_path) as api:
        yield api


async def letter(api: Api, body: str, address: str, queue: str, reason: str | None) -> None:
    """A dead letter from there."""
    headers = [f"_AMQ_ORIG_ADDRESS:{address}", f"_AMQ_ORIG_QUEUE:{queue}"]
    headers += [f"dead-letter-reason:{reason}"] if reason is not None else []
    await api.call("POST", "/addresses/DLQ/messages", 201, body=body, headers=headers)


async def letters(api: Api) -> None:
    for body, address, queue, reason in (
        ("a", "orders", "orders", "rejected"), ("b", "orders", "orders", "expired"),
        ("c", "orders", "audit", "expired"), ("d", "orders", "orders", "expired"),
        ("e", "mail", "mail", "expired"), ("f", "orders", "orders", None),
    ):  # fmt: skip
        await letter(api, body, address, queue, reason)


def shown(told: dict[str, Any]) -> list[str]:
    return [row["body"] for row in told["preview"]["first"]]


@pytest.mark.parametrize(
    "asked, found",
    [
        ({}, "abcdef"),
        ({"address": "orders"}, "abcdf"),
        ({"reason": "expired"}, "bcde"),
        ({"address": "orders", "reason": "expired"}, "bcd"),
        ({"address": "orders", "queue": "orders", "reason": "expired"}, "bd"),
        ({"address": "orders", "reason": ""}, "f"),
        ({"address": "orders", "reason": "lost"}, ""),
        ({"address": "orders", "selector": "hyphenated_props: dead-letter-reason = 'rejected' -- so it is"}, "a"),
    ],
)
async def test_a_retry_is_of_what_its_preview_has_shown(api, asked, found):
    """The number was that of all of the address, whatever the reason, and of a group's queue all queues went back."""
    await api.call("POST", "/queues", 201, address="orders", name="audit")
    await letters(api)
    told = await api.call("POST", "/queues/DLQ/retry", dry_run=True, **asked)
    assert (told["done"], told["more"], told["left"]) == (0, False, [])
    assert (told["preview"]["count"], told["preview"]["complete"]) == (len(found), True)
    assert shown(told) == list(found)[: bulk_moves.FIRST]
    (part,) = (await api.get("/queues/DLQ"))["parts"]
    assert (part["messages"], part["delivering"]) == (6, 0), "nothing was done"
    assert (await api.call("POST", "/queues/DLQ/retry", **asked))["done"] == len(found)


async def test_a_group_of_any_name_is_found(api):
    """A name is a text in the selector that finds it, whatever it is made of."""
    name = 'it\'s: "so" \\ -- 5%'
    await letter(api, "a", name, name, "5")
    groups = (await api.get("/queues/DLQ/dead-letters"))["groups"]
    await letter(api, "b", "5", "5", "05")
    for group in groups:
        asked = {field: group[field] for field in ("address", "queue", "reason")}
        assert shown(await api.call("POST", "/queues/DLQ/retry", dry_run=True, **asked)) == ["a"]
    five = await api.call("POST", "/queues/DLQ/retry", dry_run=True, address="5", reason="05")
    assert shown(five) == ["b"], "texts, not numbers"


async def test_those_behind_very_many_others_are_found(api, monkeypatch):
    """Letters of another reason in front filled the window, and the retry said `more` for ever."""
    monkeypatch.setattr("broker.admin.desk.desk.WINDOW_MESSAGES", 10)
    await letter(api, "x", "mail", "mail", "rejected")
    (row,) = (await api.get("/queues/DLQ/messages", raw="true"))["items"]
    await api.call("POST", "/addresses/DLQ/messages", 201, exported=[row] * 1500)
    await letter(api, "y", "orders", "orders", "expired")
    told = await api.call("POST", "/queues/DLQ/retry", reason="expired")
    assert (told["done"], told["more"]) == (1, False)


async def test_what_would_stay_is_said_and_the_audit_log_says_nothing(api, caplog):
    caplog.set_level(logging.INFO, "stampede.audit")
    await letter(api, "a", "orders", "orders", "rejected")
    await api.call("POST", "/addresses/DLQ/messages", 201, body="b")
    told = await api.call("POST", "/queues/DLQ/retry", dry_run=True)
    assert (shown(told), told["left"]) == (["a"], [{"why": bulk_moves.NOWHERE, "count": 1}])
    await api.call("POST", "/queues/DLQ/retry")
    actions = [json.loads(line.getMessage())["action"] for line in caplog.records if line.name == "stampede.audit"]
    assert actions == ["send-message", "send-message", "retry-messages"], "what was not done is no change"


async def test_what_is_moved_copied_expired_and_purged_is_previewed(api):
    for n in range(7):
        await api.call("POST", "/addresses/orders/messages", 201, body=f"{n}", headers=[f"n:{n}"])
    for action, more in (("move", {"to": "b"}), ("copy", {"to": "b"}), ("expire", {}), ("purge", {})):
        told = await api.call("POST", f"/queues/orders/{action}", selector="n > 3", dry_run=True, **more)
        assert (told["preview"]["count"], shown(told), told["more"]) == (3, ["4", "5", "6"], False), action
        told = await api.call("POST", f"/queues/orders/{action}", limit=2, dry_run=True, **more)
        assert (told["preview"]["count"], told["preview"]["complete"], told["more"]) == (2, False, True), action
    told = await api.call("POST", "/queues/orders/purge", dry_run=True)
    assert (told["preview"]["count"], told["preview"]["complete"], shown(told)) == (7, True, list("01234"))
    (part,) = (await api.get("/queues/orders"))["parts"]
    assert part["messages"] == 7, "nothing was done"
    await api.call("POST", "/queues/orders/pause")
    status, told = await api.raw("POST", "/queues/orders/move", json={"to": "b", "dry_run": True})
    assert (status, told["type"]) == (409, "urn:stampede:problem:not-now"), "as the move would be"


async def test_a_preview_looks_at_so_many(api, monkeypatch):
    monkeypatch.setattr(bulk_moves, "LOOKED", 4)
    for n in range(6):
        await api.call("POST", "/addresses/orders/messages", 201, body=f"{n}", headers=[f"n:{n}"])
    told = await api.call("POST", "/queues/orders/move", to="b", dry_run=True)
    assert 4 <= told["preview"]["count"] <= 6 and not told["preview"]["complete"]
