"""One directory, asked for users and groups: which server, who may ask, and what a name means in a filter or DN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.config.logins.ldap import LdapSettings
from broker.edge.access import ldap_directory
from broker.edge.access.ldap_directory import LdapDirectory, Person, Unreachable
from broker.edge.access.users import TooManyGroupsError

ldap_server = pytest.importorskip("tests.harness.ldap_server", reason="ldap3 is not installed")
pytestmark = pytest.mark.skipif(not ldap_server.HERE, reason="slapd is not installed")
PEOPLE = ldap_server.BASE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with ldap_server.LdapServer(tmp_path_factory.mktemp("ldap")) as server:
        server.ada = server.person("ada", "ada-pass-code")
        server.group("staff", server.ada)
        server.group("sales,eu", server.ada)
        yield server


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


def test_one_that_does_not_answer_is_asked_last(server: Any, directory: Any) -> None:
    asked = directory(url=f"ldap://127.0.0.1:1,ldap://127.0.0.1:{server.port}")
    assert asked.person("ada") is not None and asked._urls[-1] == "ldap://127.0.0.1:1"
    asked = directory(url="ldap://127.0.0.1:1")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        asked.person("ada")


def test_who_looks_for_users_has_to_come_in_himself(directory: Any, tmp_path: Path) -> None:
    (tmp_path / "p").write_text("wrong")
    for file, why in ((tmp_path / "p", "bind_dn with its passcode"), (tmp_path / "none", "bind_passcode_file")):
        with pytest.raises(Unreachable, match=why):
            directory(bind_passcode_file=file).person("ada")


def test_whoever_is_in_more_groups_than_count_has_not_some_of_them(
    directory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ldap_directory, "MOST_GROUPS", 1)
    known = Person("ada", f"uid=ada,ou=people,{PEOPLE}", ("staff",), "")
    with pytest.raises(TooManyGroupsError):
        directory().person("ada")
    assert directory().again(known) is None


def test_a_name_in_a_dn_is_nobody_elses_in_the_filter_of_groups(server: Any, directory: Any) -> None:
    me = f"cn=%u,ou=people,{PEOPLE}"
    server._change("add", me, ["inetOrgPerson"], {"sn": "x", "uid": "Boss", "userPassword": "mine"})
    theirs = server.group("bosses", f"cn=Boss,ou=people,{PEOPLE}")
    try:
        found = directory().person("Boss")
        assert found is not None and found.dn == me and found.groups == ()
    finally:
        server.remove(me)
        server.remove(theirs)


def test_nobody_in_particular_has_no_passcode(directory: Any) -> None:
    assert not directory().right("", "x") and not directory().right(f"uid=ada,ou=people,{PEOPLE}", "")


def test_an_address_in_capitals_is_encrypted_alike(server: Any, directory: Any) -> None:
    with pytest.raises(Unreachable, match="StartTLS"):  # this server has no TLS: nothing may be said in the clear
        directory(url=f"LDAP://127.0.0.1:{server.port}", start_tls=True).person("ada")
