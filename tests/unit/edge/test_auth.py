"""Logins: right, wrong, remembered, reloaded, penalised. argon2 itself is replaced where only counts matter."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.settings import EdgeSettings, Settings
from broker.core.errors import Code, ConfigError, RefusedError
from broker.core.reasons import Reason
from broker.edge.access import auth, login_queue
from broker.edge.access.auth import (
    ANONYMOUS,
    NOBODY,
    FileAuthenticator,
    Principal,
    TableAuthenticator,
    make_authenticator,
)
from broker.edge.access.users import User, add_user, save_users
from broker.edge.destinations.directory import Directory, LocalNames
from broker.edge.edge import Edge
from tests.harness.waiting import eventually

from .bench import Port
from .test_acceptor import Socket, Time


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0


class Checks:
    """Stands in for argon2: the "hash" of p is "$argon2id$p". Counts."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def __call__(self, hash: str, passcode: str) -> bool:
        self.seen.append((hash, passcode))
        return hash == "$argon2id$" + passcode


class World:
    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self.checks = Checks()
        self.slept: list[float] = []
        self.path = str(path)
        self.write(ada="right", bob="b")
        monkeypatch.setattr(auth, "verify", self.checks)
        self.auth = FileAuthenticator(self.path, self.clock, self.sleep)

    def write(self, **passcodes: str) -> None:
        save_users(self.path, {n: User(n, f"$argon2id${p}", (f"{n}s",)) for n, p in passcodes.items()})

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    async def login(self, login: str | None, passcode: str | None, peer: str = "10.0.0.1:5000") -> Principal | str:
        try:
            return await self.auth.authenticate(login, passcode, SimpleNamespace(id=1, peer=peer))
        except RefusedError as refused:
            assert refused.code is Code.LOGIN_FAILED
            return refused.detail


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    world = World(tmp_path / "users.toml", monkeypatch)
    yield world
    world.auth.close()


async def test_the_right_passcode_is_checked_once_and_remembered(world: World) -> None:
    assert world.auth.try_now("ada", "right") is None
    assert await world.login("ada", "right") == Principal("ada", ("adas",))
    assert world.auth.try_now("ada", "right") == Principal("ada", ("adas",))
    assert await world.login("ada", "right") == Principal("ada", ("adas",))
    assert len(world.checks.seen) == 1
    for login, passcode in (("ada", "righ"), ("adar", "ight"), ("bob", "right"), (None, "right"), ("ada", None)):
        assert world.auth.try_now(login, passcode) is None


async def test_all_refusals_look_alike_and_cost_a_check(world: World) -> None:
    assert await world.login("ada", "wrong") == auth.refusal("ada")
    assert await world.login("nobody", "wrong") == auth.refusal("nobody")
    assert world.checks.seen == [("$argon2id$right", "wrong"), (NOBODY, "wrong")]
    assert await world.login(None, None, "10.0.0.2:1") == auth.refusal(None)
    assert await world.login("ada", None, "10.0.0.2:1") == auth.refusal("ada")


async def test_a_user_named_like_nobody_cannot_log_in_with_the_decoy(world: World) -> None:
    world.checks = lambda hash, passcode: True
    auth.verify = world.checks
    assert await world.login("nobody", "anything") == auth.refusal("nobody")


async def test_many_connections_of_one_user_share_a_check(world: World) -> None:
    answers = await asyncio.gather(*(world.login("ada", "right", f"10.0.0.{i}:1") for i in range(50)))
    assert answers == [Principal("ada", ("adas",))] * 50
    assert len(world.checks.seen) == 1


async def test_the_first_to_ask_may_go_while_others_wait(world: World) -> None:
    first = asyncio.ensure_future(world.login("ada", "right"))
    second = asyncio.ensure_future(world.login("ada", "right"))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == Principal("ada", ("adas",))


async def test_a_changed_file_counts_from_the_next_look_also_for_remembered_passcodes(world: World) -> None:
    await world.login("ada", "right")
    world.write(ada="changed")
    assert world.auth.changed() == {"ada", "bob"}
    assert world.auth.try_now("ada", "right") is None
    assert await world.login("ada", "right") == auth.refusal("ada")
    assert await world.login("ada", "changed") == Principal("ada", ("adas",))
    assert await world.login("bob", "b") == auth.refusal("bob")


async def test_a_changed_file_is_told_once_with_who_is_gone_and_in_which_groups_the_others_are(world: World) -> None:
    assert world.auth.changed() is None
    assert world.auth.groups("ada") == ("adas",) and world.auth.known_groups() == {"adas", "bobs"}
    world.write(ada="right", eve="e")
    await world.login("eve", "e")  # a login may be the first to notice
    assert world.auth.changed() == {"bob"} and world.auth.changed() is None
    assert world.auth.groups("bob") == () and world.auth.known_groups() == {"adas", "eves"}
    world.write(ada="right", bob="b")
    assert world.auth.changed() == {"eve"}


async def test_an_edge_looks_every_second_and_ends_the_connections_of_who_is_gone(world: World) -> None:
    time: Any = Time()
    edge = Edge(Settings(), Port(), time, time, world.auth, "1f")  # type: ignore[arg-type]
    sockets = {}
    for name, passcode in (("ada", "right"), ("bob", "b")):
        await world.login(name, passcode)
        socket = sockets[name] = Socket("tcp")
        session = edge.open(socket)  # type: ignore[arg-type]
        session.receive(f"CONNECT\naccept-version:1.2\nhost:h\nlogin:{name}\npasscode:{passcode}\n\n\0".encode())
        assert socket.take().startswith(b"CONNECTED")
    for _ in range(3):  # it goes on looking
        time.run(1.1)
    world.write(ada="right")
    time.run(1.1)
    assert b"has been removed" in sockets["bob"].take() and sockets["ada"].closed is None
    assert world.auth.try_now("bob", "b") is None


async def test_a_changed_passcode_ends_the_connections_that_used_the_old_one(world: World) -> None:
    time: Any = Time()
    edge = Edge(Settings(), Port(), time, time, world.auth, "1f")  # type: ignore[arg-type]

    async def joined(passcode: str) -> Socket:
        await world.login("ada", passcode)
        socket = Socket("tcp")
        edge.open(socket).receive(  # type: ignore[arg-type]
            f"CONNECT\naccept-version:1.2\nhost:h\nlogin:ada\npasscode:{passcode}\n\n\0".encode()
        )
        assert socket.take().startswith(b"CONNECTED")
        return socket

    old = await joined("right")
    table = {"ada": User("ada", "$argon2id$new", (), ("$argon2id$right",))}
    edge.expel(world.auth.replace(table))
    assert old.closed is None, "in a rotation the one from before is still right"
    new = await joined("new")
    edge.expel(world.auth.replace({"ada": User("ada", "$argon2id$new")}))
    assert b"another passcode" in old.take() and old.closed is Reason.REFUSED and new.closed is None
    edge.expel(world.auth.replace({"ada": User("ada", "$argon2id$new", ("group",))}))
    assert new.closed is None


async def test_users_replaced_while_a_client_id_is_asked_for_count(world: World) -> None:
    time: Any = Time()
    edge = Edge(Settings(), Port(), time, time, world.auth, "1f")  # type: ignore[arg-type]
    asked: list[Any] = []
    later: Any = SimpleNamespace(claim=lambda name, holder, done: asked.append(done), release=lambda *_: None)
    edge.directory = Directory(later, LocalNames())
    await world.login("ada", "right")
    socket = Socket("tcp")
    edge.open(socket).receive(  # type: ignore[arg-type]
        b"CONNECT\naccept-version:1.2\nhost:h\nlogin:ada\npasscode:right\nclient-id:ada\n\n\0"
    )
    edge.expel(world.auth.replace({"bob": User("bob", "$argon2id$b")}))
    asked[0](None)
    assert b"error-code:1201" in socket.take() and socket.closed is Reason.LOGIN_FAILED


async def test_a_wrong_passcode_costs_the_same_for_every_name_while_one_user_rotates(world: World) -> None:
    world.auth.replace({
        "ada": User("ada", "$argon2id$new", (), ("$argon2id$right", "$argon2id$older")),
        "bob": User("bob", "$argon2id$b"),
    })  # fmt: skip
    world.auth._look = lambda: None  # type: ignore[method-assign]
    for number, name in enumerate(("ada", "bob", "nobody")):
        world.checks.seen.clear()
        assert await world.login(name, "wrong", f"10.0.1.{number}:1") == auth.refusal(name)
        assert len(world.checks.seen) == 3
    assert await world.login("ada", "right") == Principal("ada")


async def test_a_broken_or_missing_file_changes_nothing_and_is_logged_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.login("ada", "right")
    for breakage in (lambda: Path(world.path).write_text("nonsense ["), lambda: Path(world.path).unlink()):
        caplog.clear()
        breakage()
        for _ in range(3):
            assert world.auth.changed() is None
            assert world.auth.try_now("ada", "right") is not None
        assert len(caplog.records) == 1
        assert await world.login("bob", "b") == Principal("bob", ("bobs",))
    world.write(bob="b")
    assert world.auth.changed() == {"ada"}
    assert world.auth.try_now("ada", "right") is None


async def test_repeated_failures_wait_longer_and_longer_by_address(world: World) -> None:
    for _ in range(9):
        assert await world.login("ada", "wrong") == auth.refusal("ada")
    assert world.slept == [0.5, 1, 2, 4, 5, 5]
    await world.login("bob", "b", "10.9.9.9:1")
    assert len(world.slept) == 6  # other addresses do not wait
    assert await world.login("ada", "right") == Principal("ada", ("adas",))
    await world.login("ada", "wrong")
    assert len(world.slept) == 7  # a success forgives
    assert world.auth.try_now("ada", "right") is not None


async def test_failures_are_forgotten_in_time(world: World) -> None:
    for _ in range(3):
        await world.login("ada", "wrong")
    world.clock.now += login_queue.FORGET_S + 1
    await world.login("ada", "wrong")
    assert world.slept == []


async def test_a_penalised_address_gets_one_login_at_a_time(world: World) -> None:
    for _ in range(3):
        await world.login("ada", "wrong")
    before = len(world.checks.seen)
    answers = await asyncio.gather(*(world.login("ada", f"guess {i}") for i in range(100)))
    assert answers.count(login_queue.BUSY) == 99
    assert len(world.checks.seen) == before + 1


async def test_a_flood_of_different_passcodes_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.auth._turns._places.most = 10
    answers = await asyncio.gather(*(world.login("eve", f"guess {i}", f"10.0.0.{i}:1") for i in range(50)))
    assert (answers.count(login_queue.BUSY), len(world.checks.seen)) == (38, 12), "two are at it, ten wait"
    before = len(world.checks.seen)
    answers = await asyncio.gather(*(world.login("ada", f"guess {i}", f"10.0.1.{i}:1") for i in range(50)))
    assert len(world.checks.seen) <= before + 12 + 10 and answers.count(login_queue.BUSY) >= 28, (
        "ten more are tried first"
    )


async def test_990_wrong_logins_at_once_keep_nobody_out(world: World) -> None:
    """They cost a few checks: when the first have failed, the others of that address are not looked at."""
    flood = [asyncio.ensure_future(world.login(f"user {i}", "guess", "10.0.0.66:1")) for i in range(990)]
    await asyncio.sleep(0)
    assert await world.login("ada", "right", "10.0.0.1:1") == Principal("ada", ("adas",))
    assert len(world.checks.seen) < 20, "it was not behind them"
    answers = await asyncio.gather(*flood)
    assert answers.count(login_queue.BUSY) > 900 and len(world.checks.seen) < 100
    assert await world.login("bob", "b", "10.0.0.1:1") == Principal("bob", ("bobs",))


class Held(Checks):
    """The passcode "hold" keeps its thread until the test lets it go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def __call__(self, hash: str, passcode: str) -> bool:
        if passcode == "hold":
            self.go.wait(60)
        return super().__call__(hash, passcode)


@pytest.fixture
async def stormy(world: World, monkeypatch: pytest.MonkeyPatch):
    """Both threads are taken, and 200 wrong logins wait, each of a new address for a name that nobody has."""
    world.checks = held = Held()
    monkeypatch.setattr(auth, "verify", held)
    storm = [asyncio.ensure_future(world.login(f"eve{i}", "hold", f"10.1.0.{i}:1")) for i in range(2)]
    await asyncio.sleep(0)
    storm += [asyncio.ensure_future(world.login(f"eve{i}", "guess", f"10.1.0.{i}:1")) for i in range(2, 202)]
    await eventually(lambda: len(world.auth._turns._places) == 200)
    yield world, held
    held.go.set()
    for each in storm:
        each.cancel()
    await asyncio.gather(*storm, return_exceptions=True)


async def test_the_right_passcode_is_not_behind_a_storm_of_names_that_nobody_has(stormy: tuple[World, Held]) -> None:
    world, held = stormy
    came = asyncio.ensure_future(world.login("ada", "right", "10.9.0.1:1"))
    await eventually(lambda: world.auth._turns._tried_from)
    held.go.set()
    assert await came == Principal("ada", ("adas",))
    assert len(held.seen) < 20, "it was not behind them"


async def test_a_wrong_passcode_waits_for_its_turn_whether_there_is_such_a_user_or_not(
    stormy: tuple[World, Held],
) -> None:
    world, held = stormy
    before = len(world.slept)
    wrong = [asyncio.ensure_future(world.login(name, "no", f"10.9.0.{i}:1")) for i, name in enumerate(("ada", "eve"))]
    await eventually(lambda: len(world.auth._turns._places) == 201 and world.auth._turns._tried_from)
    assert len(world.slept) == before + 1, "who is not there waits for what a try takes"
    held.go.set()
    answers = await asyncio.gather(*wrong)
    assert answers == [auth.refusal("ada"), auth.refusal("eve")]
    assert len(held.seen) > 200, "both were behind the storm"
    checked = sorted(hash for hash, passcode in held.seen if passcode == "no")
    assert checked == sorted(["$argon2id$right", "$argon2id$right", NOBODY]), "a try, and a turn of each"
    assert not any(world.auth._penalties.may_try((f"10.9.0.{i}", "bob")) for i in range(2))


async def test_a_name_that_nobody_has_waits_for_as_many_tries_as_one_that_somebody_has(
    stormy: tuple[World, Held],
) -> None:
    """A crowd of newcomers makes the lane of tries long: one probe told of a name by what the last try had taken."""
    world, held = stormy
    world.auth._try_pace, world.auth._try_took = 0.1, 0.05
    crowd = [asyncio.ensure_future(world.login("ada", "right", f"10.9.0.{i}:1")) for i in range(20)]
    await eventually(lambda: len(world.auth._turns._tried_from) == 20)
    nobody = asyncio.ensure_future(world.login("nobody", "no", "10.9.9.1:1"))
    crowd += [asyncio.ensure_future(world.login("bob", "b", "10.9.9.2:1")) for _ in range(2)]
    await eventually(lambda: len(world.auth._turns._tried_from) == 22)
    assert world.slept[-1] == pytest.approx(21 * 0.1 + 0.05), "twenty in front, itself, and its check"
    assert world.auth._turns.ahead("10.9.9.2") == 22, "two of its own, and not two for each of the others"
    world.clock.now += 44
    held.go.set()
    assert set(await asyncio.gather(*crowd)) == {Principal("ada", ("adas",)), Principal("bob", ("bobs",))}
    assert await nobody == auth.refusal("nobody")
    assert 1 <= world.auth._try_pace <= 44, "measured by those who came"


async def test_who_hangs_up_while_he_is_tried_has_been_tried(stormy: tuple[World, Held]) -> None:
    """Else one known name gives free checks, and more of them than there are threads."""
    world, held = stormy
    came = asyncio.ensure_future(world.login("ada", "no", "10.9.0.1:1"))
    await eventually(lambda: world.auth._turns._tried_from)
    came.cancel()
    held.go.set()
    await eventually(lambda: not world.auth._penalties.may_try(("10.9.0.1", "ada")))
    assert ("$argon2id$right", "no") in held.seen and not world.auth._turns._tried_from


async def test_a_new_user_costs_no_check_of_those_who_are_in(world: World) -> None:
    await world.login("ada", "right")
    world.write(ada="right", bob="b", eve="e")
    assert world.auth.changed() == set() and world.auth.try_now("ada", "right") == Principal("ada", ("adas",))


async def test_memory_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_REMEMBERED", 1)
    monkeypatch.setattr(login_queue, "MAX_KEPT", 5)
    await world.login("ada", "right")
    await world.login("bob", "b")
    assert (world.auth.try_now("ada", "right"), world.auth.try_now("bob", "b")) == (None, Principal("bob", ("bobs",)))
    for i in range(20):
        await world.login("ada", "wrong", f"10.0.0.{i}:1")
    assert len(world.auth._penalties._failures) == 5


async def test_passcodes_are_not_in_logs_errors_or_memory_by_name(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await world.login("ada", "right")
    with pytest.raises(RefusedError) as refused:
        await world.auth.authenticate("ada", "hunter2", SimpleNamespace(id=1, peer="10.0.0.1:1"))
    assert "hunter2" not in caplog.text + str(refused.value) + repr(vars(world.auth))
    assert "'right'" not in repr(vars(world.auth))


async def test_with_real_argon2(tmp_path: Path) -> None:
    path = str(tmp_path / "users.toml")
    add_user(path, "ada", "s3cret")
    real = FileAuthenticator(path, Clock())
    channel = SimpleNamespace(id=1, peer="10.0.0.1:1")
    assert (await real.authenticate("ada", "s3cret", channel)).name == "ada"
    for login in ("ada", "eve"):
        with pytest.raises(RefusedError):
            await real.authenticate(login, "other", channel)
    real.close()


def test_the_decoy_costs_what_a_real_hash_costs() -> None:
    import argon2

    ours = argon2.extract_parameters(auth.NOBODY)
    assert (ours.time_cost, ours.memory_cost, ours.parallelism) == (2, 19456, 1)
    assert not auth.verify(NOBODY, "x")
    assert not auth.verify("$argon2id$broken", "x")


def test_without_users_everyone_is_anonymous() -> None:
    nobody = TableAuthenticator({}, Clock(), open_when_empty=True)
    assert nobody.try_now(None, None) == nobody.try_now("ada", "x") == ANONYMOUS


def settings(tmp_path: Path, **edge: str) -> Settings:
    return replace(Settings(), data=str(tmp_path), edge=replace(EdgeSettings(), **edge))


def test_the_users_file_of_the_data_folder_is_used_when_it_is_there(tmp_path: Path) -> None:
    assert not make_authenticator(settings(tmp_path)).has_users
    save_users(str(tmp_path / "users.toml"), {})
    users = make_authenticator(settings(tmp_path))
    assert users.has_users  # also an empty one: removing the last user must not open the door
    users.close()


async def test_a_users_file_that_others_may_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "users.toml"
    save_users(str(path), {"ada": User("ada", "$argon2id$right")})
    make_authenticator(settings(tmp_path)).close()
    assert not caplog.records
    path.chmod(0o644)
    make_authenticator(settings(tmp_path)).close()
    assert "0644" in caplog.text and f"chmod 600 {path}" in caplog.text


def test_a_named_users_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing\.toml"):
        make_authenticator(settings(tmp_path, users_file=str(tmp_path / "missing.toml")))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "broker.example"])
def test_without_users_only_this_machine_may_connect(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match="stampede user add"):
        make_authenticator(settings(tmp_path, host=host))
    for local in ("127.0.0.1", "::1", "localhost", ""):
        assert not make_authenticator(settings(tmp_path, host=local)).has_users


@pytest.mark.parametrize("acceptor", [{"host": "0.0.0.0"}, {"url": "tcp://10.0.0.1:61613"}])
def test_the_ports_of_acceptors_count_as_well(tmp_path: Path, acceptor: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"acceptors\.a\.host is .* but there are no users"):
        make_authenticator(replace(settings(tmp_path), acceptors={"a": acceptor}))
    for harmless in ({"port": 0}, {"host": "localhost"}, {"host": "0.0.0.0", "port": -1}):
        assert not make_authenticator(replace(settings(tmp_path), acceptors={"a": harmless})).has_users
