"""Users of a cluster, as an edge's API changes them: in etcd, and one administrator always left."""

from __future__ import annotations

import asyncio

import pytest

from broker.app.live.cluster_users import ClusterUsers
from broker.core.errors import ConfigError
from broker.edge.access.users import load_users, save_users
from broker.seams.passcodes import verify
from tests.unit.app.live_edge import KEYS, running

PASSCODE = "a passcode that nobody guesses"


async def test_a_user_is_made_changed_and_removed():
    async with running() as edge:
        with pytest.raises(ConfigError, match=r"admin\.administrators"):
            await edge.users.set("bob", PASSCODE, ["ops"])
        assert await edge.users.set("ada", PASSCODE, ["admins"]) == (None, ("admins",))
        assert verify(edge.config.users["ada"].hash, PASSCODE)
        await edge.users.set("bob", PASSCODE, ["ops"])
        assert await edge.users.set("bob", None, ["guests"]) == (("ops",), ("guests",))
        assert await edge.users.all() == {"ada": ("admins",), "bob": ("guests",)}
        for name in ("ada", "bob"):
            if name == "ada":
                with pytest.raises(ConfigError, match="nobody could use the API"):
                    await edge.users.remove(name)
            else:
                await edge.users.remove(name)
        with pytest.raises(ConfigError, match="last user"):
            await edge.users.remove("ada")


async def test_of_two_administrators_who_remove_each_other_one_stays():
    """At two edges at once: each knows both of them still."""
    async with running() as edge:
        edge.metadata.latency = lambda: 0.002
        for name in ("ada", "bob"):
            await edge.users.set(name, PASSCODE, ["admins"])
        stale = dict(edge.config.users)
        other = ClusterUsers(lambda: stale, edge.writer, frozenset({"admins"}))
        done = await asyncio.gather(edge.users.remove("ada"), other.remove("bob"), return_exceptions=True)
        assert [type(one) for one in done].count(ConfigError) == 1 and len(edge.config.users) == 1
        await edge.users.set("eve", PASSCODE, ["admins"])
        (left,) = set(edge.config.users) - {"eve"}
        done = await asyncio.gather(
            edge.users.set("eve", None, ["ops"]), edge.users.set(left, None, ["ops"]), return_exceptions=True
        )
        assert [type(one) for one in done].count(ConfigError) == 1


async def test_a_new_passcode_ends_those_from_before():
    async with running() as edge:
        await edge.put(KEYS.user("ada"), {"hash": "$argon2id$x", "previous": ["$argon2id$y"], "groups": ["admins"]})
        await edge.users.set("ada", None, ["admins", "ops"])
        assert edge.stored(KEYS.user("ada"))["previous"] == ["$argon2id$y"], "the passcode is as before"
        await edge.users.set("ada", PASSCODE, None)
        stored = edge.stored(KEYS.user("ada"))
        assert "previous" not in stored and stored["groups"] == ["admins", "ops"]


async def test_groups_that_nobody_asked_about_are_those_of_now(monkeypatch: pytest.MonkeyPatch):
    """An edge that had not heard of it yet gave back a group that another one had just taken away."""
    async with running() as edge:
        await edge.users.set("ada", PASSCODE, ["admins"])
        await edge.users.set("bob", PASSCODE, ["admins"])
        await edge.users.set("bob", None, ["guests"])

        async def before() -> dict[str, tuple[str, ...]]:
            return {"ada": ("admins",), "bob": ("admins",)}

        monkeypatch.setattr(edge.users, "all", before)
        await edge.users.set("bob", PASSCODE + "!", None)
        assert edge.stored(KEYS.user("bob"))["groups"] == ["guests"]


async def test_a_user_of_a_virtual_host_is_no_administrator_who_is_left():
    """They do not log in at the API: nobody could have used it any more."""
    async with running() as edge:
        await edge.users.set("ada", PASSCODE, ["admins"])
        await edge.users.set("$host/shop.ada", PASSCODE, ["admins"])
        with pytest.raises(ConfigError, match="nobody could use the API"):
            await edge.users.remove("ada")
        with pytest.raises(ConfigError, match="nobody could use the API"):
            await edge.users.set("ada", None, ["ops"])


async def test_users_of_a_file_are_shown_and_not_changed(tmp_path):
    path = str(tmp_path / "users.toml")
    save_users(path, {})
    async with running(path) as edge:
        assert await edge.users.all() == {} == load_users(path)
        with pytest.raises(ConfigError, match="has its users from"):
            await edge.users.set("ada", PASSCODE, ["admins"])


async def test_weak_passcodes_and_odd_names_are_refused():
    async with running() as edge:
        for name, passcode in (("ada", "x"), ("a\nb", PASSCODE)):
            with pytest.raises(ConfigError):
                await edge.users.set(name, passcode, ["admins"])
        assert edge.config.users == {}
