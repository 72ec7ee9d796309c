"""The audit log: a line for each change, bounded, the last ones kept."""

from __future__ import annotations

import json

import pytest

from broker.admin.api import audit
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


async def test_the_last_changes_are_told_and_no_more_than_are_kept(api, monkeypatch):
    await api.call("POST", "/queues", 201, address="orders.eu")
    line = (await api.get("/audit", q="orders.eu", limit=1))["items"][0]
    assert line["who"] == "ada" and line["action"] == "create-queue" and line["outcome"] == "done"
    await api.raw("POST", "/queues/orders.eu/move", json={"to": "elsewhere", "selector": "n = 1"})
    line = (await api.get("/audit", q="elsewhere"))["items"][0]
    before = '{"paused": false, "messages": 0, "consumers": 0}'
    assert line["more"] == {"to": '"elsewhere"', "selector": '"n = 1"', "before": before, "done": "0"}
    for n in range(audit.KEPT + 5):
        audit.note("x", "y", "test", str(n), "done", long="z" * 5000)
    rows = (await api.get("/audit", limit=audit.KEPT))["items"]
    assert [row["target"] for row in rows[:2]] == [str(audit.KEPT + 4), str(audit.KEPT + 3)] and len(rows) == audit.KEPT
    assert len(rows[0]["more"]["long"]) < audit.SHORT + 100
    assert "a long passcode" not in json.dumps(rows)


def test_a_line_says_who_what_and_how_it_ended_and_long_values_are_cut(caplog):
    caplog.set_level("INFO", "stampede.audit")
    audit.note("ada", "::1", "purge", "/q", "done", before={"a": "x" * audit.MOST}, now=5)
    line = json.loads(caplog.records[-1].getMessage())
    assert {name: line[name] for name in ("who", "from", "action", "target", "outcome", "now")} == {
        "who": "ada", "from": "::1", "action": "purge", "target": "/q", "outcome": "done", "now": 5,
    }  # fmt: skip
    assert len(line["before"]) < audit.MOST + 50 and line["before"].endswith("characters)")
    kept = next(audit.recent())
    assert (kept["who"], kept["more"]["now"]) == ("ada", "5") and len(kept["more"]["before"]) < audit.SHORT * 2


def test_the_last_lines_are_kept_and_the_newest_comes_first():
    for n in range(audit.KEPT + 3):
        audit.note("ada", "", "x", str(n), "done")
    kept = [entry["target"] for entry in audit.recent()]
    assert len(kept) == audit.KEPT and kept[0] == str(audit.KEPT + 2) and kept[-1] == "3"
