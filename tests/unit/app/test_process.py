"""How a long-running command runs: it stops when it is told, also before it is ready, and its exit status says how."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from broker.app.process import process as module
from broker.app.process.process import SPARE_FILES, console, run, within
from broker.config.settings import AdminSettings, Settings
from broker.core.errors import BrokerError, Code, ConfigError


class Process:
    """Does what the test says in `at`, step → what; remembers its steps."""

    def __init__(self, **at) -> None:
        self.failed = asyncio.get_running_loop().create_future()
        self.at, self.steps = at, []

    async def step(self, name: str) -> None:
        self.steps.append(name)
        what = self.at.get(name)
        if isinstance(what, BaseException):
            raise what
        if what == "fail":
            self.failed.set_result("disk")
        elif what is not None:
            os.kill(os.getpid(), what)
        if name == "start" and self.at.get("waits"):
            await asyncio.Event().wait()

    async def start(self) -> None:
        await self.step("start")

    async def start_admin(self) -> None:
        await self.step("admin")

    async def stop(self) -> None:
        await self.step("stop")

    def hang_up(self) -> None:
        self.steps.append("hang_up")

    def watched(self) -> tuple[()]:
        return ()

    def engines(self) -> tuple[()]:
        return ()

    def banner(self) -> list[str]:
        return ["  it listens"]


@pytest.fixture
def runs(monkeypatch):
    """(exit status, steps)"""
    monkeypatch.setattr(module.sys, "setswitchinterval", lambda seconds: None)
    monkeypatch.setattr(module, "open_file_limit", lambda: 100_000)
    for name in ("collect_rarely", "keep_free"):
        monkeypatch.setattr(module, name, lambda: None)
    monkeypatch.setattr(module.gc, "freeze", lambda: None)

    def running(**at):
        made = []

        def make(settings: Settings) -> Process:
            made.append(Process(**at))
            return made[0]

        return run(make, Settings()), made[0].steps

    return running


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_runs_until_it_is_told_to_stop(runs, number, capsys):
    assert runs(admin=number) == (0, ["start", "admin", "stop"])
    assert capsys.readouterr().err == "  it listens\n"


def test_what_fails_on_its_way_stops_with_a_status_of_its_own(runs):
    assert runs(admin="fail") == (1, ["start", "admin", "stop"])


def test_it_can_be_stopped_before_it_is_ready(runs, capsys):
    assert runs(start=signal.SIGTERM, waits=True) == (0, ["start"])
    assert runs(start="fail", waits=True) == (1, ["start"])
    assert capsys.readouterr().err == "", "nobody is told that it listens"


def test_a_hang_up_before_it_is_ready_is_not_lost_and_ends_nothing(runs):
    assert runs(start=signal.SIGHUP, admin=signal.SIGTERM) == (0, ["start", "hang_up", "admin", "stop"])


def test_an_error_is_a_text_for_people_and_what_was_started_is_stopped(runs, capsys):
    assert runs(start=ConfigError("edge.port is wrong.")) == (2, ["start"])
    assert capsys.readouterr().err == "stampede: edge.port is wrong.\n"
    assert runs(admin=ConfigError("admin.port is taken.")) == (2, ["start", "admin", "stop"])
    assert runs(start=BrokerError(Code.OWNER_UNAVAILABLE, "no etcd"))[0] == 1
    assert "stampede: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("host", "port", "tls", "lines"),
    [
        ("", 8161, -1, ["http://127.0.0.1:8161/console"]), ("0.0.0.0", 1, -1, ["http://127.0.0.1:1/console"]),
        ("::", 1, -1, ["http://127.0.0.1:1/console"]), ("::1", 1, -1, ["http://[::1]:1/console"]),
        ("10.0.0.1", 1, 2, ["http://10.0.0.1:1/console", "port 2"]), ("", 0, 2, []), ("", -1, 2, []),
    ],
)  # fmt: skip
def test_the_console_is_told_of_where_it_is(host, port, tls, lines):
    found = console(AdminSettings(host=host, port=port, tls_port=tls))
    assert [line.rsplit("  ", 1)[1].strip() for line in found] == lines


def test_connections_never_take_the_last_files(caplog):
    def most(files: int, wanted: int) -> int:
        settings = Settings()
        settings = replace(settings, edge=replace(settings.edge, max_connections=wanted))
        return within(files, settings).edge.max_connections

    assert most(10_000, 10_000 - SPARE_FILES) == 10_000 - SPARE_FILES and not caplog.text
    assert most(10_000, 10_000 - SPARE_FILES + 1) == 10_000 - SPARE_FILES
    assert most(600, 5000) == 300, "half of few"
    assert "may have 600 files open (ulimit -n)" in caplog.text
