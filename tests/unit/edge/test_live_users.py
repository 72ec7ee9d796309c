"""A table of users that is replaced while people log in, and right passcodes that edges tell each other."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest

from broker.core.errors import RefusedError
from broker.core.reasons import Reason
from broker.edge.access import auth
from broker.edge.access.auth import ANONYMOUS, Principal, TableAuthenticator
from broker.edge.access.users import User
from broker.seams.clock import SystemClock

from .bench import Bench


def users(**passcodes):
    return {name: User(name, "$argon2id$" + passcode, ("g",)) for name, passcode in passcodes.items()}


class Shared:
    """What another edge would see."""

    def __init__(self) -> None:
        self.proofs: set[str] = set()

    async def known(self, proof):
        return proof in self.proofs

    def remember(self, proof):
        self.proofs.add(proof)


@pytest.fixture
def checks(monkeypatch):
    seen = []

    def check(hash, passcode):
        seen.append(passcode)
        return hash == "$argon2id$" + passcode

    monkeypatch.setattr(auth, "verify", check)
    return seen


async def sleep(seconds):
    await asyncio.sleep(0)


async def login(table, name, passcode):
    try:
        return await table.authenticate(name, passcode, SimpleNamespace(id=1, peer="10.0.0.1:5000"))
    except RefusedError:
        return None


async def test_a_replaced_table_counts_for_the_next_login(checks):
    table = TableAuthenticator(users(ada="old", bob="b"), SystemClock(), sleep)
    assert await login(table, "ada", "old") == table.try_now("ada", "old") == Principal("ada", ("g",))
    assert table.replace(users(ada="new", eve="e")) == {"ada", "bob"}
    assert table.try_now("ada", "old") is None and await login(table, "ada", "old") is None
    assert await login(table, "ada", "new") and await login(table, "eve", "e")
    table.close()


async def test_a_check_under_way_is_no_answer_for_the_new_table(monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def check(hash, passcode):
        begun.set()
        go.wait(10)
        return hash == "$argon2id$" + passcode

    monkeypatch.setattr(auth, "verify", check)
    table = TableAuthenticator(users(ada="old"), SystemClock(), sleep)
    waiting = asyncio.ensure_future(login(table, "ada", "old"))
    await asyncio.to_thread(begun.wait, 10)
    table.replace({})
    go.set()
    assert await waiting is None
    table.close()


async def test_without_users_everyone_is_anonymous_only_where_that_is_allowed():
    open_table = TableAuthenticator({}, SystemClock(), sleep, open_when_empty=True)
    assert not open_table.has_users and open_table.try_now(None, None) is ANONYMOUS
    assert open_table.replace(users(ada="a")) == {"anonymous"}
    assert open_table.has_users and open_table.try_now(None, None) is None
    closed = TableAuthenticator({}, SystemClock(), sleep)
    assert closed.has_users and closed.try_now(None, None) is None
    open_table.close()
    closed.close()


async def test_a_passcode_that_another_edge_has_checked_needs_no_check(checks):
    shared = Shared()
    here, there = (TableAuthenticator(users(ada="a"), SystemClock(), sleep, shared=shared) for _ in range(2))
    assert await login(here, "ada", "a") and await login(there, "ada", "a")
    assert checks == ["a"]
    there.replace(users(ada="changed"))
    assert await login(there, "ada", "a") is None
    assert not any(proof == "a" or "$" in proof for proof in shared.proofs)
    for table in (here, there):
        table.close()


async def test_the_passcode_from_before_is_valid_as_long_as_the_table_says(checks):
    now = User("ada", "$argon2id$new", ("g",), ("$argon2id$old",))
    table = TableAuthenticator({"ada": now}, SystemClock(), sleep)
    assert await login(table, "ada", "new") and await login(table, "ada", "old")
    assert await login(table, "ada", "older") is None
    table.replace({"ada": User("ada", "$argon2id$new", ("g",))})
    assert await login(table, "ada", "old") is None and await login(table, "ada", "new")
    table.close()


async def test_a_wrong_passcode_is_not_told_to_others(checks):
    shared = Shared()
    table = TableAuthenticator(users(ada="a"), SystemClock(), sleep, shared=shared)
    assert await login(table, "ada", "b") is None and await login(table, "nobody", "a") is None
    assert not shared.proofs
    table.close()


@pytest.mark.parametrize(
    "name, text", [("ada", b"this user has been removed"), ("anonymous", b"there are users now: connect with login")]
)
async def test_connections_of_a_removed_user_end(name, text):
    bench = Bench()
    session, wire = bench.session()
    session.principal = name
    bench.edge.auth = TableAuthenticator({"else": User("else", "$argon2id$x")}, SystemClock())
    bench.edge.auth.close()
    bench.edge.expel({"somebody"})
    assert wire.closed is None
    bench.edge.expel({name})
    sent = wire.take()
    assert b"error-code:1203" in sent and text in sent and wire.closed is Reason.REFUSED
