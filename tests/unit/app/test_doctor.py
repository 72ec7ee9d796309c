"""`stampede doctor`: each fault it knows is brought about, and found with what to do."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from click.testing import CliRunner

from broker.app import cli
from broker.app.doctor import doctor, doctor_cluster
from broker.app.doctor.doctor import FAULT, FINE, WARNING
from broker.app.doctor.doctor_cluster import Reply
from broker.config.load import load
from broker.config.settings import MemorySettings, Settings
from tests.harness.secrets import self_signed

MIB = 1024 * 1024
GIB = 1024 * MIB
DAY = 86_400


@pytest.fixture
def run(tmp_path):
    def run(*args):
        env = {name: None for name in os.environ if name.startswith("STAMPEDE_")}
        line = ["doctor", *args, "--data", str(tmp_path / "data"), "--set", "admin.port=-1"]
        return CliRunner().invoke(cli.main, line, env=env, prog_name="stampede")

    return run


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    (folder / "journal").mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    return folder


def found(done) -> dict[str, dict[str, str]]:
    return {one["check"]: one for one in json.loads(done.stdout)}


def settings_with(**values: str) -> Settings:
    return load(None, {}, {name.replace("__", "."): value for name, value in values.items()})


def test_a_folder_in_order_has_no_fault_and_nothing_is_left_in_it(run, data):
    done = run("-o", "json")
    assert done.exit_code == 0, done.output
    checks = found(done)
    assert {"data", "journal", "disk speed", "disk room", "clock", "users", "open files", "memory"} == set(checks)
    assert all(checks[name]["level"] == FINE for name in ("data", "journal", "clock", "users"))
    assert os.listdir(data) == ["journal"] and os.listdir(data / "journal") == []


def test_a_folder_that_is_not_there_is_not_made(run, tmp_path):
    done = run("-o", "json")
    assert done.exit_code == 0
    assert found(done)["data"]["level"] == WARNING
    assert not (tmp_path / "data").exists()


def test_what_others_may_read_is_said_with_the_command_that_mends_it(run, data):
    (data / "journal").chmod(0o755)
    users = data / "users.toml"
    users.write_text("")
    users.chmod(0o644)
    checks = found(run("-o", "json", "--problems"))
    assert checks["journal"]["fix"] == f"chmod o-rwx {data / 'journal'}"
    assert checks["users"]["fix"] == f"chmod o-rwx {users}"
    assert "data" not in checks  # in order


def test_a_users_file_that_no_broker_starts_with_is_a_fault(run, data):
    users = data / "users.toml"
    users.write_text("[users.alice\n")
    users.chmod(0o600)
    done = run()
    assert done.exit_code == 1
    assert "fault    users:" in done.output and "TOML" in done.output
    assert "→ mend the file" in done.output
    assert "1 faults" in done.output


def test_a_journal_from_the_future_means_that_the_clock_went_back(run, data):
    segment = data / "journal" / "1.log"
    segment.write_bytes(b"")
    os.utime(segment, (4_000_000_000, 4_000_000_000))
    done = run("-o", "yaml")
    assert done.exit_code == 1
    assert "the clock went back" in done.output


def test_a_wrong_setting_is_refused_before_anything_is_looked_at(run):
    done = run("--set", "edge.prot=1")
    assert done.exit_code == 2
    assert "edge.port" in done.stderr


@pytest.mark.parametrize(
    ("seconds", "sync", "level"),
    [
        ([0.001] * 9, True, FINE),
        ([0.03] * 9, True, WARNING),
        ([0.001] * 8 + [0.9], True, WARNING),
        ([0.001] * 9, False, WARNING),
    ],
)
def test_the_disk_is_judged_by_how_long_its_syncs_take(seconds, sync, level):
    judged = doctor.of_syncs(seconds, sync)
    assert judged.level == level
    assert bool(judged.fix) is (level != FINE)


@pytest.mark.parametrize(("free", "level"), [(10 * MIB, FAULT), (300 * MIB, WARNING), (10_000 * MIB, FINE)])
def test_room_is_judged_by_what_the_journal_keeps_free(free, level):
    assert doctor.of_room(free, Settings()).level == level


@pytest.mark.parametrize(
    ("limit", "memory", "level"),
    [(0, GIB, FINE), (-1, GIB, WARNING), (900 * MIB, GIB, FAULT), (0, 100 * MIB, WARNING), (0, 0, FINE)],
)
def test_memory_for_messages_leaves_room_for_the_rest(limit, memory, level):
    assert doctor.of_memory(MemorySettings(limit_bytes=limit), memory).level == level


def test_certificates_their_ends_and_their_keys(tmp_path):
    cert, key = self_signed(tmp_path, days=90)
    other, _ = self_signed(tmp_path, "other")
    settings = settings_with(
        edge__tls_port="61612", edge__wss_port="0", edge__tls_cert_file=str(cert), edge__tls_key_file=str(key)
    )
    assert doctor.certificates(settings) == [("acceptor tls", str(cert), str(key))]  # once, though two ports have it

    def judged(path, at_days: float) -> list[str]:
        ends = doctor.not_after(doctor.first_certificate(path.read_text()))
        return [one.level for one in doctor.of_certificate("x", str(path), str(key), ends - at_days * DAY)]

    assert judged(cert, 60) == [FINE, FINE]
    assert judged(cert, 10) == [WARNING, FINE]
    assert judged(cert, -1) == [FAULT, FINE]
    assert judged(other, 60) == [FAULT]  # the key is of another
    key.chmod(0o644)
    assert judged(cert, 60) == [FINE, WARNING]
    key.unlink()
    assert judged(cert, 60) == [FAULT]


def test_a_broker_that_is_not_ready_says_why_itself():
    assert doctor_cluster.of_broker("a:1", Reply(200, "ready")).level == FINE
    assert doctor_cluster.of_broker("a:1", Reply(0, "refused")).level == WARNING
    sick = doctor_cluster.of_broker("a:1", Reply(503, "reading the journal"))
    assert sick.level == FAULT and "reading the journal" in sick.found


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [("", 61680, "127.0.0.1:61680"), ("::", 1, "[::1]:1"), ("10.0.0.1", 2, "10.0.0.1:2"), ("", -1, ""), ("", 0, "")],
)
def test_the_running_broker_is_asked_where_it_listens(host, port, address):
    assert doctor_cluster.admin_address(settings_with(admin__host=host, admin__port=str(port)).admin) == address


CLOSED = {"orders.#": {"consume": "shop"}, "DLQ": {"consume": "staff"}, "#": {"consume": "staff,shop"}}


@pytest.mark.parametrize(
    ("permissions", "orders", "strangers"),
    [
        ({}, {}, None),
        (CLOSED, {}, "staff"),
        (CLOSED, {"dead_letter_address": "orders.dead"}, None),
        (CLOSED, {"dead_letter_address": "dead"}, "staff"),
        (CLOSED, {"dead_letter_address": ""}, None),
        (CLOSED, {"dead_letter_address": "", "expiry_address": "DLQ"}, "staff"),
        (CLOSED | {"DLQ": {"browse": "*"}}, {}, "every user, staff"),
        (CLOSED | {"DLQ": {"send": "staff"}}, {}, None),
    ],
)
def test_who_reads_dead_letters_of_addresses_that_are_closed_to_him_is_named(permissions, orders, strangers):
    settings = settings_with()
    edge = replace(settings.edge, permissions=permissions)
    engine = replace(settings.engine, addresses={"orders.#": orders})
    found = [
        one for one in doctor.of_dead_letters(replace(settings, edge=edge, engine=engine)) if "orders" in one.found
    ]
    assert [one.level for one in found] == [WARNING] * (strangers is not None)
    assert all(f"which {strangers} may read, but not orders.#" in one.found for one in found)
