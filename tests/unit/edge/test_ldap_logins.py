"""Logins that a directory judges, against a real one: who comes in, who does not, and who has to go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker.config.logins.ldap import LdapSettings
from broker.core.errors import RefusedError
from broker.core.virtual_host import DEFAULT, VirtualHost
from broker.edge.access.ldap_directory import LdapDirectory, Person, UnansweredError
from broker.edge.access.ldap_logins import LdapLogins
from broker.seams.clock import SystemClock

from .clocked import Time

ldap_server = pytest.importorskip("tests.harness.ldap_server", reason="ldap3 is not installed")
pytestmark = pytest.mark.skipif(not ldap_server.HERE, reason="slapd is not installed")
PEOPLE = ldap_server.BASE
CHANNEL: Any = SimpleNamespace(peer="10.0.0.1:1", id=1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with ldap_server.LdapServer(tmp_path_factory.mktemp("ldap")) as server:
        server.ada = server.person("ada", "ada-pass-code")
        server.person("a*", "star-pass-code")
        server.staff = server.group("staff", server.ada)
        server.group("sales,eu", server.ada)
        yield server


@pytest.fixture
def logins(server: Any) -> Iterator[Callable[..., LdapLogins]]:
    made: list[LdapLogins] = []

    def make(
        clock: Any = None, changed: Callable[[], None] = lambda: None, here: Callable[[], Any] = list, **more: Any
    ) -> LdapLogins:
        table = {name: str(v) if isinstance(v, Path) else v for name, v in server.settings(**more).items()}
        made.append(LdapLogins({"ours": table}, clock or SystemClock(), changed, here))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def directory(server: Any) -> Iterator[Callable[..., LdapDirectory]]:
    made: list[LdapDirectory] = []

    def make(**more: Any) -> LdapDirectory:
        table = {name: str(v) if isinstance(v, Path) else v for name, v in server.settings(**more).items()}
        made.append(LdapDirectory("ours", LdapSettings(**table)))
        return made[-1]

    yield make
    for each in made:
        each.close()


async def test_who_has_the_passcode_comes_in_with_the_groups_of_the_directory(logins: Any) -> None:
    found = await logins().prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    assert (found.name, found.groups, found.outside) == ("ada", ("staff",), True)  # a comma would be two names


@pytest.mark.parametrize(
    ("login", "passcode"),
    [("ada", "wrong"), ("eve", "ada-pass-code"), ("*", "ada-pass-code"), ("a*", "ada-pass-code"), ("ada", ""),
     ("ada)(uid=*", "ada-pass-code"), ("", "x"), ("$host/shop.ada", "ada-pass-code"), ("a" * 129, "x")],
)  # fmt: skip
async def test_others_do_not(logins: Any, login: str, passcode: str) -> None:
    with pytest.raises(RefusedError, match="or password is invalid"):
        await logins().prove(login, passcode, DEFAULT, CHANNEL)


async def test_a_login_means_itself_in_a_filter(logins: Any) -> None:
    assert (await logins().prove("a*", "star-pass-code", DEFAULT, CHANNEL)).name == "a*"


async def test_without_a_search_the_dn_is_made_of_the_login_and_stays_one_name(directory: Any, logins: Any) -> None:
    says = {"user_dn": f"uid=%u,ou=people,{PEOPLE}", "user_base": ""}
    assert (await logins(**says).prove("ada", "ada-pass-code", DEFAULT, CHANNEL)).groups == ("staff",)
    with pytest.raises(RefusedError):
        await logins(**says).prove("ada,ou=people", "ada-pass-code", DEFAULT, CHANNEL)
    assert directory(**says).person("eve") is None
    known = directory(**says, group_base="", bind_dn="", bind_passcode_file="").person("x,y+z")
    assert known is not None and known.dn == f"uid=x\\,y\\+z,ou=people,{PEOPLE}"


async def test_names_get_their_fronts_and_hosts_are_told_apart(logins: Any) -> None:
    made = logins(user_prefix="ldap:", groups_prefix="ldap:", virtual_hosts="shop")
    shop = VirtualHost("shop", ".")
    found = await made.prove("ada", "ada-pass-code", shop, CHANNEL)
    assert (found.name, found.groups) == ("$host/shop.ldap:ada", ("ldap:staff",))
    with pytest.raises(RefusedError):
        await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    assert made.known("ada", "ada-pass-code", DEFAULT, CHANNEL) is None


async def test_what_was_right_is_remembered_for_a_while(logins: Any) -> None:
    time = Time()
    made = logins(time, remember_s=60.0)
    found = await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    assert (
        made.known("ada", "ada-pass-code", DEFAULT, CHANNEL) == found
        and made.known("ada", "x", DEFAULT, CHANNEL) is None
    )
    time.now += 61
    assert made.known("ada", "ada-pass-code", DEFAULT, CHANNEL) is None


@pytest.mark.parametrize("how", ["gone", "disabled", "groups", "passcode"])
async def test_whoever_is_not_as_he_was_does_not_hold(server: Any, logins: Any, how: str) -> None:
    changed: list[None] = []
    bob = server.person("bob", "bob-pass-code")
    group = server.group("few", bob, server.ada)
    made = logins(
        changed=lambda: changed.append(None), user_filter="(&(uid=%u)(!(title=left)))", changed_attribute="description"
    )
    try:
        mine = await made.prove("bob", "bob-pass-code", DEFAULT, CHANNEL)
        ada = await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
        await made._look(made._directories[0])
        assert not changed and made.still_valid(mine.mark) and made.still_valid(ada.mark)
        if how == "gone":
            server.remove(bob)
        elif how == "disabled":
            server.set(bob, title="left")
        elif how == "groups":
            server.leave(group, bob)
        else:
            server.set(bob, userPassword="another-one", description="2026-11-27")
        await made._look(made._directories[0])
        assert changed == [None] and not made.still_valid(mine.mark) and made.still_valid(ada.mark)
        assert made.known("bob", "bob-pass-code", DEFAULT, CHANNEL) is None
    finally:
        if how != "gone":
            server.remove(bob)
        server.remove(group)


async def test_while_it_is_away_everybody_stays_and_nobody_is_punished(
    server: Any, logins: Any, caplog: pytest.LogCaptureFixture
) -> None:
    made = logins()
    found = await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    server.stop()
    try:
        await made._look(made._directories[0])
        assert made.still_valid(found.mark) and made.known("ada", "ada-pass-code", DEFAULT, CHANNEL) == found
        for _ in range(6):  # wrong passcodes would have to wait from the fourth on
            async with asyncio.timeout(5):
                with pytest.raises(RefusedError):
                    await made.prove("ada", "another", DEFAULT, CHANNEL)
        assert caplog.text.count("nobody new can log in by LDAP") == 1 and "another" not in caplog.text
    finally:
        server.start()
    assert (await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)).name == "ada"


async def test_a_user_is_called_as_the_directory_spells_him(server: Any, logins: Any, directory: Any) -> None:
    # For it `ADA` is `ada`; here they would be two users with one passcode, of whom the table knows one.
    for login in ("ADA", "Ada", "ａda"):
        with pytest.raises(RefusedError):
            await logins().prove(login, "ada-pass-code", DEFAULT, CHANNEL)
    says = {"user_dn": f"uid=%u,ou=people,{PEOPLE}", "user_base": ""}
    assert directory(**says).person("Ada") is None and directory(**says).person("ada") is not None
    either = directory(user_filter="(|(uid=%u)(mail=%u@example.org))")
    assert either.person("ada") is not None and either.person("Ada") is None


async def test_with_a_dn_alone_nobody_is_looked_for_and_nobody_has_to_go(logins: Any, caplog: Any) -> None:
    changed: list[None] = []
    made = logins(
        changed=lambda: changed.append(None), user_dn=f"uid=%u,ou=people,{PEOPLE}", user_base="", group_base="",
        bind_dn="", bind_passcode_file="",
    )  # fmt: skip
    found = await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    await made._look(made._directories[0])
    assert not changed and made.still_valid(found.mark) and "nobody new can log in" not in caplog.text


@pytest.mark.parametrize("passcode", ["\u00ad", "a\x07b", "\u0627b", "\ufb01ve", "a\0b"])
async def test_a_passcode_goes_there_as_it_is(server: Any, logins: Any, caplog: Any, passcode: str) -> None:
    with pytest.raises(RefusedError):
        await logins().prove("ada", passcode, DEFAULT, CHANNEL)
    assert "nobody new can log in" not in caplog.text
    if "\0" in passcode:
        return
    tim = server.person("tim", passcode)
    try:
        assert (await logins().prove("tim", passcode, DEFAULT, CHANNEL)).name == "tim"
    finally:
        server.remove(tim)


async def test_a_ca_file_that_is_away_is_no_wrong_passcode(server: Any, logins: Any, caplog: Any) -> None:
    made = logins(ca_file="/nowhere/ca.pem", here=lambda: [1])
    for _ in range(6):
        async with asyncio.timeout(5):
            with pytest.raises(RefusedError):
                await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    assert caplog.text.count("nobody new can log in by LDAP") == 1
    made._people[1] = made._directories[0], Person("ada", server.ada, (), "")
    await made._look(made._directories[0])
    assert made.still_valid(1)


async def test_whoever_cannot_be_looked_for_keeps_nobody_from_being_looked_for(server: Any, logins: Any) -> None:
    changed: list[None] = []
    made = logins(changed=lambda: changed.append(None), here=lambda: [1, 2])
    ours = made._directories[0]
    with pytest.raises(UnansweredError):
        ours.again(Person("odd", "no DN", (), ""))
    made._people[1] = ours, Person("odd", "no DN", (), "")
    made._people[2] = ours, Person("gone", f"uid=gone,ou=people,{PEOPLE}", (), "")
    await made._look(ours)
    assert changed and made.still_valid(1) and not made.still_valid(2)


async def test_what_goes_wrong_once_does_not_end_the_looking(logins: Any, caplog: Any) -> None:
    made, looked = logins(refresh_s=0.0), asyncio.Event()

    async def look(_: object) -> None:
        if caplog.text:
            looked.set()
            await asyncio.sleep(60)
        raise KeyError("x")

    made._look = look
    made.start()
    async with asyncio.timeout(5):
        await looked.wait()


async def test_a_login_that_does_not_hold_any_more_when_it_is_through_is_none(logins: Any) -> None:
    made = logins()
    await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    made._people.clear()  # as a look does that ends while the thread's answer is on its way
    assert made.known("ada", "ada-pass-code", DEFAULT, CHANNEL) is None
    with pytest.raises(RefusedError):
        await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    assert made.still_valid((await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)).mark)


async def test_whoever_is_neither_connected_nor_remembered_is_forgotten(logins: Any) -> None:
    time, here = Time(), list[int]()
    made = logins(time, here=lambda: here, remember_s=60.0)
    found = await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    time.now += 61
    await made._look(made._directories[0])
    assert made.still_valid(found.mark), "a login may be on its way"
    here.append(found.mark)
    for _ in range(3):
        await made._look(made._directories[0])
    assert made.still_valid(found.mark)
    here.clear()
    for _ in range(2):
        await made._look(made._directories[0])
    assert not made.still_valid(found.mark) and not made._people and not made._unused


async def test_whoever_is_in_too_many_groups_is_refused_by_name_and_not_let_in_with_less(
    server: Any, logins: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    for module in ("users", "ldap_directory"):
        monkeypatch.setattr(f"broker.edge.access.{module}.MOST_GROUPS", 2)
    made = logins()
    found = await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    more = [server.group(name, server.ada) for name in ("more", "most")]
    try:
        with pytest.raises(RefusedError):
            await logins().prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
        assert "'ada' is in more than 2 groups" in caplog.text
        await made._look(made._directories[0])
        assert not made.still_valid(found.mark)
    finally:
        for each in more:
            server.remove(each)


@pytest.mark.parametrize("scheme", ["ldap", "ldaps"])
async def test_a_server_that_answers_byte_by_byte_holds_no_thread_for_long(
    logins: Any, monkeypatch: pytest.MonkeyPatch, scheme: str, caplog: Any
) -> None:
    # Each byte begins the time-out of a socket anew: the length of a message that would take hours, or of a handshake.
    begun = b"\x16\x03\x03\x3f\xff\x02" if scheme == "ldaps" else b"\x30\x84\x00\x7f\xff\xff"

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begun)
        try:
            while True:
                await asyncio.sleep(0.05)
                writer.write(b"\0")
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    monkeypatch.setattr("broker.edge.access.ldap_logins.PATIENCE_S", 0.1)
    async with await asyncio.start_server(drip, "127.0.0.1", 0) as dripping:
        port = dripping.sockets[0].getsockname()[1]
        made = logins(url=f"{scheme}://127.0.0.1:{port}", start_tls=False, timeout_s=0.3)
        made.start()
        async with asyncio.timeout(10):
            for _ in range(2):
                with pytest.raises(RefusedError):
                    await made.prove("ada", "ada-pass-code", DEFAULT, CHANNEL)
    assert "nobody new can log in by LDAP" in caplog.text and not made._directories[0]._patience._asked
