"""Settings and users that are changed while a broker runs, without the broker: turns, what is kept, what is refused."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from broker.app.live import live as live_module
from broker.app.live.live import LiveSettings
from broker.app.live.live_users import LiveUsers
from broker.app.live.shrinking import Partitions
from broker.app.process.process import _serve
from broker.config.settings import EngineSettings, Settings
from broker.core.errors import ConfigError
from broker.edge.access import users as users_module
from broker.edge.access.users import add_user
from broker.engine.address.address_settings import Matcher

PASSCODE = "a long passcode"


class Used:
    """What was applied; raises `error` the next time."""

    def __init__(self) -> None:
        self.engines: list[EngineSettings] = []
        self.error: Exception | None = None

    async def apply(self, settings: Settings) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error
        self.engines.append(settings.engine)


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
    made.use(used.apply, LiveUsers(str(folder / "users.toml"), lambda: None, frozenset({"admin"})))
    return made


def kept(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "live.json").read_bytes())["tables"]
    return {table: {name: change["values"] for name, change in entries.items()} for table, entries in found.items()}


# ── turns ───────────────────────────────────────────────────────────────────────────────────────────


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


# ── entries ─────────────────────────────────────────────────────────────────────────────────────────


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


@pytest.mark.parametrize(
    ("file", "entry", "fewer", "allowed"),
    [
        ({"pt.#": {"partitions": 4}}, "pt.c", 1, 4),
        ({"pt.#": {"partitions": 4}}, "pt.*", 2, 5),
        ({}, "pt.c", 0, 1),
    ],
)
async def test_an_address_keeps_its_partitions_whichever_entry_they_come_from(
    tmp_path, used, file, entry, fewer, allowed
):
    live = settings_of(tmp_path, used, file)
    with pytest.raises(ConfigError, match="partitions"):
        await live.change("addresses", entry, {"partitions": fewer}, "ada")
    assert not used.engines
    await live.change("addresses", entry, {"partitions": allowed}, "ada")


async def test_an_entry_with_as_many_partitions_as_its_pattern_can_be_taken_back(tmp_path, used):
    live = settings_of(tmp_path, used, {"pt.#": {"partitions": 4}})
    await live.change("addresses", "pt.x", {"partitions": 4}, "ada")
    await live.forget("addresses", "pt.x")
    await live.change("addresses", "pt.x", {"partitions": 5}, "ada")
    with pytest.raises(ConfigError, match=r"pt\.x has 5 partitions, 4 are fewer"):
        await live.forget("addresses", "pt.x")


def test_partitions_are_found_as_the_engine_finds_them():
    random = Random(7)
    words = ["a", "b", "*", "#", "$x"]
    for _ in range(300):
        names = {".".join(random.choices(words, k=random.randint(1, 3))) for _ in range(6)}
        names |= {f"$host/s.{name}" for name in random.sample(sorted(names), 2)}
        table = {name: {"partitions": random.randint(1, 5)} for name in names if "#" not in name.split(".")[:-1]}
        engine = EngineSettings(addresses=table)
        found, match = Partitions(engine), Matcher(engine)
        for name in [*table, "a.b", "b", "$x.a", "a.b.a", "$host/s.a.b", "$host/t.a"]:
            if name in match._exact or not match.is_pattern(name):
                assert found.of(name) == match(name).partitions, (name, table)


# ── users ───────────────────────────────────────────────────────────────────────────────────────────


async def test_an_administrator_is_always_left(live):
    people = live.people
    for groups in (None, [], ["eu"]):
        with pytest.raises(ConfigError, match=r"admin\.administrators \(admin\).* first add a user"):
            await people.set("ada", PASSCODE, groups)
    assert await people.all() == {}
    await people.set("ada", PASSCODE, ["eu", "admin"])
    await people.set("bob", PASSCODE, None)
    for groups in ([], ["eu"]):
        with pytest.raises(ConfigError, match=r"admin\.administrators"):
            await people.set("ada", None, groups)
    with pytest.raises(ConfigError, match=r"admin\.administrators"):
        await people.remove("ada")
    await people.set("ada", "another passcode", None)
    await people.set("bob", None, ["admin"])
    await people.set("ada", None, [])
    assert await people.all() == {"ada": (), "bob": ("admin",)}


async def test_no_user_is_made_where_none_of_them_could_use_the_api(tmp_path):
    people = LiveUsers(str(tmp_path / "users.toml"), lambda: None, frozenset())
    with pytest.raises(ConfigError, match=r"admin\.administrators is empty"):
        await people.set("ada", PASSCODE, ["admin"])
    assert not (tmp_path / "users.toml").exists()


# ── SIGHUP ──────────────────────────────────────────────────────────────────────────────────────────


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
