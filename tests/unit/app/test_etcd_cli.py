"""`stampede cluster etcd`, against a real etcd."""

from __future__ import annotations

import json

from click.testing import CliRunner

from broker.app.cli import main


def asked(*endpoints: str) -> tuple[int, list[dict]]:
    line = ["cluster", "etcd", "--json", "--set", f"etcd.endpoints={','.join(endpoints)}", "--set", "etcd.timeout_s=1"]
    done = CliRunner().invoke(main, line)
    return done.exit_code, json.loads(done.stdout)


def test_a_member_that_is_well_tells_its_version_and_leader(etcd):
    status, (row,) = asked(etcd.address)
    assert status == 0
    assert row["state"] == "up" and row["version"].startswith("3.") and row["leader"] and row["members"] == 1
    assert row["database bytes"] > 0


def test_people_get_a_table(etcd):
    line = ["cluster", "etcd", "--set", f"etcd.endpoints={etcd.address},127.0.0.1:1", "--set", "etcd.timeout_s=1"]
    done = CliRunner().invoke(main, line)
    assert [row.split()[0] for row in done.stdout.splitlines()] == ["endpoint", etcd.address, "127.0.0.1:1"]


def test_each_endpoint_answers_for_itself(etcd):
    status, (well, dead) = asked(etcd.address, "127.0.0.1:1")
    assert status == 1
    assert well["state"] == "up"
    assert "ConnectionFailedError" in dead["state"] and not dead["version"]
