"""Commands that change something without a broker: a line of the audit file, and every one of them is known."""

from __future__ import annotations

import getpass
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from broker.app.cli import main
from broker.app.process import shell_audit

READS = {
    "serve", "owner", "edge", "scaler", "settings", "doctor", "backup", "user list", "journal verify", "journal dump",
    "cluster status", "cluster plan", "cluster check", "cluster dump", "cluster etcd", "cluster users list",
}  # fmt: skip
"""With settings, but they change nothing here, or a broker has lines of its own of it."""


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_every_command_that_reads_settings_and_changes_something_is_audited() -> None:
    of_settings = {
        name: command for name, command in commands(main) if any(each.name == "config_file" for each in command.params)
    }
    gets = {name for name in of_settings if name.startswith("cluster ") and name.endswith(" get")}
    silent = {name for name, command in of_settings.items() if not hasattr(command.callback, shell_audit.ACTION)}
    assert silent == READS | gets


class Shell:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "audit.jsonl"
        self.data = folder / "data"
        self.data.mkdir()

    def run(self, *line: str, input: str = "", file: str | None = None) -> Result:
        where = ["--data", str(self.data), "--set", f"log.audit_file={self.file if file is None else file}"]
        return CliRunner().invoke(main, [*line, *where], input=input)

    def lines(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_who_changed_which_user_is_told_and_no_passcode(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert shell.run("user", "add", "ada", "--group", "staff", "--passcode-stdin", input="hunter2\n").exit_code == 0
    assert shell.run("user", "groups", "ada", "a", "b").exit_code == 0
    assert shell.run("user", "remove", "nobody").exit_code == 1
    told = shell.lines()
    assert [(line["action"], line["target"], line["outcome"]) for line in told] == [
        ("user.add", "ada staff", "done"), ("user.groups", "ada a b", "done"), ("user.remove", "nobody", "failed"),
    ]  # fmt: skip
    assert {line["who"] for line in told} == {f"shell:{getpass.getuser()}"}
    assert list(told[0]) == ["time", "who", "from", "action", "target", "outcome"]
    assert "hunter2" not in shell.file.read_text() and "argon2" not in shell.file.read_text()
    assert shell.file.stat().st_mode & 0o777 == 0o600


def test_what_was_asked_wrongly_and_what_damaged_nothing_are_told_as_what_they_are(shell: Shell) -> None:
    (shell.data / "journal").mkdir()
    assert shell.run("journal", "repair", "--drop", "nonsense").exit_code == 2
    assert shell.run("user", "list").exit_code in (0, 1)
    assert not shell.file.exists(), "settings were not read yet: nothing can have been done"
    assert shell.run("user", "add", "ada", "--passcode-stdin", input="\n").exit_code == 2
    assert [line["outcome"] for line in shell.lines()] == ["refused"]


def test_without_a_file_nothing_is_written_and_one_that_cannot_be_is_said(shell: Shell, tmp_path: Path) -> None:
    for file in ("", "-"):
        done = shell.run("user", "add", "ada", "--passcode-stdin", input="x\n", file=file)
        assert done.exit_code == 0 and '"who"' not in done.output
    done = shell.run("user", "remove", "ada", file=str(tmp_path / "missing" / "audit"))
    assert done.exit_code == 0 and "cannot be written" in done.output


def test_values_of_settings_are_not_in_it_their_names_are(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.app.commands.cluster_cli._change", lambda *given: _read(given[0]))
    done = shell.run("cluster", "quotas", "set", "user:ada", "max_connections=3", "max_queues=4")
    assert done.exit_code == 0, done.output
    (line,) = shell.lines()
    assert (line["action"], line["target"]) == ("cluster.quotas.set", "user:ada max_connections max_queues")


def _read(options: dict[str, object]) -> dict[str, object]:
    from broker.app.commands.options import settings_of

    settings_of(**options)
    return {}


def test_who_used_sudo_is_named_and_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell_audit.os, "getuid", lambda: 0)
    monkeypatch.setenv("SUDO_USER", "ada")
    assert shell_audit._who() == "shell:root (sudo: ada)"
    monkeypatch.setattr(shell_audit.os, "getuid", lambda: 987654)
    assert shell_audit._who() == "shell:987654"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_root_writes_as_whom_the_folder_belongs_to() -> None:
    """The broker's account could put a link there, and would have been given what it names."""
    nobody, secret = 65534, Path("/root/shell-audit-of-a-test")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.chown(folder, nobody, nobody)
        with shell_audit._as_owner_of(place):
            (folder / "audit").write_text("x")
            assert os.geteuid() == nobody and os.getgroups() == []
        assert os.geteuid() == 0 and (folder / "audit").stat().st_uid == nobody
        (folder / "link").symlink_to(secret)
        with pytest.raises(PermissionError), shell_audit._as_owner_of(place):
            (folder / "link").write_text("x")
        assert not secret.exists()
