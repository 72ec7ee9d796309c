"""Settings and users that are changed while a broker runs, without the broker: turns, what is kept, what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.app.live import live as live_module
from broker.app.live.live import LiveSettings
from broker.app.live.live_users import LiveUsers
from broker.app.process.process import _serve
from broker.config.settings import EngineSettings, Settings
from broker.edge.access import users as users_module
from broker.edge.access.users import add_user
from tests.unit.app.used import Used

PASSCODE = "a long passcode"


async def heeded() -> None:
    """Nobody has to be told."""


class Held:
    """A function of a thread, of which the first call waits until it may go on."""

    def __init__(self, real: Callable[..., Any]) -> None:
        self.reached, self.may = threading.Event(), threading.Event()
        self._real = real

    def __call__(self, *args: Any) -> Any:
        if not self.reached.is_set():
            self.reached.set()
            self.may.wait(30)
        return self._real(*args)


async def given_up(work: Any, held: Held) -> None:
    """Who asked for `work` goes away while its thread is at it."""
    asking = asyncio.ensure_future(work)
    await asyncio.to_thread(held.reached.wait, 30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def next_turn(work: Any, held: Held) -> None:
    """Somebody else's change, asked for before the one from before is through."""
    asking = asyncio.ensure_future(work)
    await asyncio.wait([asking], timeout=0.3)
    held.may.set()
    await asking


@pytest.fixture
def used() -> Used:
    return Used()


@pytest.fixture
def live(tmp_path: Path, used: Used) -> LiveSettings:
    return settings_of(tmp_path, used, {})


def settings_of(folder: Path, used: Used, addresses: dict[str, dict[str, Any]]) -> LiveSettings:
    made = LiveSettings(Settings(data=str(folder), engine=EngineSettings(addresses=addresses)))
    made.use(used.apply, LiveUsers(str(folder / "users.toml"), heeded, frozenset({"admin"})))
    return made


def kept(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "live.json").read_bytes())["tables"]
    return {table: {name: change["values"] for name, change in entries.items()} for table, entries in found.items()}


async def test_a_change_whose_asker_has_gone_is_made_before_the_next_one(live, used, tmp_path, monkeypatch):
    held = Held(live_module.replace_whole)
    monkeypatch.setattr(live_module, "replace_whole", held)
    await given_up(live.change("queues", "a", {"selector": "n > 1"}, "ada"), held)
    await next_turn(live.change("queues", "b", {"selector": "n > 2"}, "eve"), held)
    assert set(used.engines[-1].queues) == set(kept(tmp_path)["engine.queues"]) == {"a", "b"}


async def test_a_user_who_was_removed_does_not_come_back_with_a_change_whose_asker_has_gone(
    live, tmp_path, monkeypatch
):
    for name in ("root", "bob"):
        add_user(str(tmp_path / "users.toml"), name, PASSCODE, ("admin",))
    held = Held(users_module.hash_passcode)
    monkeypatch.setattr(users_module, "hash_passcode", held)
    await given_up(live.people.set("mallory", PASSCODE, ()), held)
    await next_turn(live.people.remove("bob"), held)
    assert set(await live.people.all()) == {"root", "mallory"}


async def test_what_could_not_be_applied_is_with_the_next_change(live, used):
    used.error = RuntimeError("a test says so")
    with pytest.raises(RuntimeError):
        await live.change("queues", "a", {"selector": "n > 1"}, "ada")
    await live.change("queues", "a", {"selector": "n > 1"}, "ada")
    assert used.engines[-1].queues == {"a": {"selector": "n > 1"}}


@pytest.mark.parametrize(
    ("table", "values"),
    [("permissions", {"send": "ops"}), ("queues", {"selector": "n > 1"}), ("addresses", {"paused": True})],
)
async def test_an_entry_of_which_all_is_taken_back_is_gone(live, tmp_path, table, values):
    await live.change("permissions", "#", {"send": "*"}, "ada")
    await live.change(table, "a.b", values, "ada")
    await live.change(table, "a.b", dict.fromkeys(values), "ada")
    await live.change(table, "never.there", dict.fromkeys(values), "ada")
    assert kept(tmp_path) == {"edge.permissions": {"#": {"send": "*"}}}
    assert {row["name"] for row in live.entries()} == {"#"}


async def test_an_entry_that_says_nothing_can_be_made(live, tmp_path):
    await live.change("queues", "plain", {}, "ada")
    assert kept(tmp_path) == {"engine.queues": {"plain": {}}}


class Starting:
    """A process that is told to read its settings again while it starts."""

    def __init__(self) -> None:
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.told: list[str] = []

    async def start(self) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(0.05)
        self.told.append("started")

    async def start_admin(self) -> None:
        self.failed.set_result("a test says so")

    def hang_up(self) -> None:
        self.told.append("hang up")

    async def stop(self) -> None:
        pass

    def watched(self) -> tuple[()]:
        return ()

    def engines(self) -> tuple[()]:
        return ()

    def banner(self) -> list[str]:
        return []


async def test_a_sighup_during_the_start_is_heeded_once_after_it(tmp_path):
    died: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _frame: died.append(number))  # the default ends the tests
    made: list[Starting] = []
    try:
        await _serve(lambda _: made.append(Starting()) or made[0], Settings(data=str(tmp_path)))  # type: ignore[func-returns-value]
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().remove_signal_handler(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, before)
    assert not died and made[0].told == ["started", "hang up"]
