"""`stampede journal` and `stampede user` on real folders."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from broker.app import cli
from broker.config.settings import KIB, JournalSettings
from broker.core.message import DURABLE, Run
from broker.core.records import RunRecord
from broker.edge.access.users import load_users
from broker.journal.journal import Journal
from broker.seams.files import OsFiles


@pytest.fixture
def run(tmp_path):
    def run(*args, **kw):
        env = {name: None for name in os.environ if name.startswith("STAMPEDE_")}
        return CliRunner().invoke(cli.main, [*args, "--data", str(tmp_path)], env=env, prog_name="stampede", **kw)

    return run


def test_no_journal_says_where_it_looked(run, tmp_path):
    for command in ("verify", "dump"):
        done = run("journal", command)
        assert done.exit_code == 2
        assert str(tmp_path / "journal") in done.stderr and "--data" in done.stderr


@pytest.mark.parametrize("drop", ["1", "x:1", "1:x", ""])
def test_repair_wants_a_place(run, drop, tmp_path):
    (tmp_path / "journal").mkdir()
    done = run("journal", "repair", "--drop", drop)
    assert done.exit_code == 2
    assert "SEGMENT:OFFSET" in done.stderr


def test_passcode_comes_from_stdin_and_is_never_shown(run, tmp_path):
    done = run("user", "add", "alice", "--passcode-stdin", input="s3cret-passcode\n")
    assert done.exit_code == 0, done.output
    assert "Added alice" in done.output
    path = tmp_path / "users.toml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "s3cret-passcode" not in done.output + path.read_text()
    assert "$argon2id$" in path.read_text()
    assert "Changed the passcode of alice" in run("user", "add", "alice", "--passcode-stdin", input="other\n").output
    assert run("user", "list").output == "alice\n"


def test_a_short_passcode_is_taken_with_a_warning(run):
    assert "Warning: 1 characters" in run("user", "add", "cy", "--passcode-stdin", input="x\n").stderr
    done = run("user", "add", "alice", "--passcode-stdin", input="s3cret7\n")
    assert done.exit_code == 0 and "Warning: 7 characters" in done.stderr
    assert "Warning" not in run("user", "add", "bob", "--passcode-stdin", input="s3cret78\n").output


def test_groups_are_given_kept_and_replaced(run, tmp_path):
    def groups():
        return load_users(str(tmp_path / "users.toml"))["ann"].groups

    run("user", "add", "ann", "--passcode-stdin", "--group", "shop", "--group", "audit", input="p\n")
    assert groups() == ("audit", "shop")
    run("user", "add", "ann", "--passcode-stdin", input="q\n")
    assert groups() == ("audit", "shop")
    assert run("user", "groups", "ann", "staff").output == "ann belongs to staff.\n" and groups() == ("staff",)
    for wrong in ("a,b", "*", " a", ""):
        done = run("user", "groups", "ann", wrong)
        assert done.exit_code == 1 and "group" in done.output
    assert groups() == ("staff",)
    assert run("user", "groups", "ann").output == "ann belongs to no group.\n" and groups() == ()
    assert run("user", "groups", "nobody", "x").exit_code == 1


def test_passcode_prompt_asks_twice(run):
    done = run("user", "add", "bob", input="one\none\n")
    assert done.exit_code == 0, done.output
    assert run("user", "list").output == "bob\n"
    assert run("user", "add", "carol", "--passcode-stdin", input="\n").exit_code == 2


def test_removing(run):
    run("user", "add", "bob", "--passcode-stdin", input="one\n")
    assert run("user", "remove", "bob").exit_code == 0
    assert run("user", "list").output == ""
    done = run("user", "remove", "bob")
    assert done.exit_code == 1
    assert "no user 'bob'" in done.stderr


@pytest.fixture
def journal(tmp_path):
    """A journal with one message, closed cleanly; the path of its segment."""
    log = Journal.open(OsFiles(), str(tmp_path / "journal"), JournalSettings(segment_bytes=64 * KIB))
    lines, record = b"destination:/queue/a\n\n", b"hello\0"
    run = Run(range(1, 2), lines, [record], len(lines) + len(record), DURABLE)
    log.append(RunRecord(3, "a", (1,), run))
    batch = log.seal()
    log.write(batch)
    log.committed(batch)
    log.close(clean=True)
    return sorted((tmp_path / "journal").glob("*.log"))[0]


def test_a_whole_journal_verifies_and_dumps(run, journal):
    done = run("journal", "verify")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in run("journal", "dump").output.splitlines()]
    assert [row["address"] for row in rows if "address" in row] == ["a"]
    assert "hello" not in json.dumps(rows)
    assert "hello" in run("journal", "dump", "--bodies").output


def test_damage_is_found_and_taken_out(run, journal):
    path = journal
    data = bytearray(path.read_bytes())
    at = data.index(b"hello")
    data[at] ^= 1
    path.write_bytes(data)
    done = run("journal", "verify")
    assert done.exit_code == 1
    place = done.output.split("--drop ")[1].split()[0]
    assert run("journal", "repair", "--drop", place).exit_code == 0
    assert run("journal", "verify").exit_code == 0
    assert list(path.parent.glob("*.broken*"))


def test_a_folder_in_use_is_left_alone(run, tmp_path):
    log = Journal.open(OsFiles(), str(tmp_path / "journal"), JournalSettings(segment_bytes=64 * KIB))
    done = run("journal", "verify")
    log.close(clean=True)
    assert done.exit_code == 1
    assert done.stderr.startswith("stampede: ")
