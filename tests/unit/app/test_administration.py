"""The API for operators, wired: who may what, what this process says of itself, and who is given to whom."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker import __version__
from broker.app.live import administration as subject
from broker.app.live.administration import ThisNode, Users, api
from broker.config.settings import EdgeSettings, EngineSettings, Settings
from broker.core.errors import Code, RefusedError
from broker.core.memory import Memory
from broker.edge.access.auth import Principal
from broker.edge.rights.permissions import Permissions


class Auth:
    has_users = True

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def try_now(self, login: str, passcode: str, peer: str = "") -> Principal | None:
        return Principal("known") if passcode == "known" else None

    async def authenticate(self, login: str, passcode: str, channel: Any) -> Principal:
        self.asked.append((login, passcode, channel.peer))
        return Principal(login)

    def groups(self, user: str) -> tuple[str, ...]:
        return ("ops",) if user == "ada" else ()

    def knows(self, user: str) -> bool:
        return user == "ada"


def users(**table: Any) -> tuple[Users, Auth, list[Permissions]]:
    """(users, their logins, the permissions of now)"""
    auth, permissions = Auth(), [Permissions(table)]
    return Users(auth, lambda: permissions[-1]), auth, permissions  # type: ignore[arg-type]


async def test_a_login_that_was_right_a_moment_ago_is_not_checked_again():
    found, auth, _ = users()
    assert await found.login("ada", "known", "10.0.0.7") == "known" and auth.asked == []
    assert await found.login("ada", "new", "10.0.0.7") == "ada" and auth.asked == [("ada", "new", "10.0.0.7")]


async def test_users_of_a_virtual_host_do_not_administer():
    found, auth, _ = users()
    with pytest.raises(RefusedError) as caught:
        await found.login("$host/shop.ada", "known", "10.0.0.7")
    assert caught.value.code is Code.LOGIN_FAILED and auth.asked == []


def test_rights_are_explained_by_the_entries_of_now():
    found, _, permissions = users(**{"orders": {"send": "ops, b", "consume": "*"}})
    rows = {row["operation"]: row for row in found.rights(["ops"], "orders", None) or []}
    assert rows["send"] == {"operation": "send", "allowed": True, "entry": "orders", "groups": ["b", "ops"]}
    assert rows["consume"]["allowed"] and not rows["manage"]["allowed"]
    permissions.append(Permissions({}))
    assert found.rights(["ops"], "orders", None) is None, "no permissions: everybody may everything"


def test_who_manages_what_comes_from_permissions():
    found, _, _ = users(**{"orders": {"manage": "ops"}, "#": {"send": "*"}})
    assert found.manages(["ops"]) == [("orders", True), ("#", False)]
    assert found.has_users and found.groups("ada") == ("ops",) and found.knows("ada") and not found.knows("bob")


def node(settings: Settings, live: Any = None, ready: bool = True) -> ThisNode:
    memory = Memory(1000)
    memory.queues, memory.sessions = 30, 4
    return ThisNode("edge", "edge-0", lambda: settings, lambda: (ready, {"why": "x"}), lambda: True, memory, live)


def test_a_process_says_what_it_is_and_how_it_is():
    about = node(Settings(), ready=False).about()
    assert about.pop("started") > 1_700_000_000_000
    assert about == {
        "id": "edge-0", "role": "edge", "version": __version__, "ready": False, "state": {"why": "x"}, "users": True,
        "memory": {"limit": 1000, "queues": 30, "connections": 4},
    }  # fmt: skip


def test_settings_are_shown_as_they_are_now_with_where_they_come_from():
    rows = {row["name"]: row for row in node(Settings(engine=EngineSettings(page_bytes=12345))).settings()}
    row = rows["engine.page_bytes"]
    assert (row["value"], row["source"], row["restart"]) == ("12345", "set", None)
    assert row["default"] != "12345" and row["help"] and row["unit"]
    assert rows["engine.max_queues"]["source"] == "default"
    assert not rows["engine.wildcard_delimiter"]["value"].startswith('"'), "a text is shown without quotes"
    table = node(Settings(engine=EngineSettings(addresses={"a": {"partitions": 2}}))).settings()
    assert next(row["value"] for row in table if row["name"] == "engine.addresses") == {"a": {"partitions": 2}}


def test_what_a_live_change_has_set_and_a_restart_would_change_is_told():
    live = SimpleNamespace(
        restart=[{"name": "engine.max_queues", "wanted": 7}], origin=lambda name: "live" if "page" in name else ""
    )
    rows = {row["name"]: row for row in node(Settings(), live).settings()}
    assert rows["engine.max_queues"]["restart"] == 7 and rows["engine.page_bytes"]["source"] == "live"


def test_dead_letter_addresses_are_all_that_settings_name():
    settings = Settings(
        engine=EngineSettings(
            addresses={
                "a": {"dead_letter_address": "DLQ.a", "expiry_address": "EXP"},
                "b": {"dead_letter_address": "", "expiry_address": "EXP"},
            }
        )
    )
    found = node(settings).dead_letter_addresses()
    assert {"DLQ.a", "EXP"} <= set(found) and "" not in found and found == sorted(set(found))


class Recorder:
    """Answers whatever is asked, and keeps how."""

    def __init__(self, **values: Any) -> None:
        self.calls: dict[str, list[tuple[Any, ...]]] = {}
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **_: Any) -> Any:
            self.calls.setdefault(name, []).append(args)
            return SimpleNamespace(begin=lambda: 0.0)

        return call


@pytest.mark.parametrize("notifications", [True, False])
async def test_everybody_is_given_to_everybody_once(monkeypatch, notifications):
    made: list[tuple[Any, ...]] = []

    class FakeApi:
        gate = "gate"

        def __init__(self, *args: Any) -> None:
            made.append(args)

        def routes(self) -> list[Any]:
            return []

        def ends(self, stop: Callable[[], None]) -> None:
            stops.append(stop)

    stops: list[Callable[[], None]] = []
    monkeypatch.setattr(subject, "Api", FakeApi)
    edge: Any = Recorder(
        next_consumer=lambda: 1, permissions="of now", queue_wildcards=Recorder(), stream_ends=Recorder(),
        quotas=SimpleNamespace(asks_owners=False),
    )  # fmt: skip
    admin: Any = Recorder(steps=Recorder())
    settings, config, topology, tokens = Settings(edge=EdgeSettings(notifications=notifications)), "c", "t", "k"
    listeners: Any = SimpleNamespace(rows=lambda: [])
    it = node(settings)
    found = api(
        it, admin, settings, "owners", edge, listeners, Auth(), lambda commands: True, config, topology, tokens  # type: ignore[arg-type]
    )  # fmt: skip
    assert isinstance(found, FakeApi) and len(made) == 1
    assert made[0][1] == "owners" and made[0][4] is it and made[0][-4:-1] == (config, topology, tokens)
    desk = made[0][7]
    assert edge.calls["give_others_to"] == [(desk.on_effect,)], "answers to what the API asks of owners"
    assert len(edge.calls["managed_by"]) == 1
    told = edge.calls.get("notified_by", [])
    assert len(told) == len(admin.calls.get("add", [])) == notifications
    assert len(stops) == 1, "who counts what is kept ends with the API"
    stops[0]()
