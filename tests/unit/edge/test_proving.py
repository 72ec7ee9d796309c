"""The ways to log in, in order, and the hosts and acceptors that have their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.certificates import peer_certificate
from broker.core.errors import RefusedError
from broker.edge.access.auth import Principal
from broker.edge.access.users import User
from broker.edge.requests.proving import prove

from .bench import Bench, Wire

SUBJECT = ((("organizationName", "Acme, Inc."),), (("commonName", "ada"),))
CERTIFICATE = {
    "subject": SUBJECT,
    "subjectAltName": (("DNS", "a.example.org"), ("email", "ada@x"), ("email", "eve@x"), ("URI", "spiffe://x/ada")),
    "notAfter": "Jan  1 00:00:00 2050 GMT",
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("cn", "ada"),
        ("dn", "CN=ada,O=Acme\\, Inc."),
        ("dns", "a.example.org"),
        ("email", None),
        ("uri", "spiffe://x/ada"),
    ],
)
def test_what_of_a_certificate_is_the_name(kind: str, name: str | None) -> None:
    found = peer_certificate(CERTIFICATE)
    assert found is not None and found.name(kind) == name and found.not_after == 2524608000


def test_two_names_are_none() -> None:
    found = peer_certificate({"subject": (*SUBJECT, (("commonName", "eve"),))})
    assert found is not None and found.name("cn") is None and found.not_after == 0
    assert peer_certificate({}) is None


def joined(bench: Bench, headers: str = "", port: str = "tcp", host: str = "h", certified: bool = True) -> Any:
    wire: Any = Wire()
    wire.transport_name = port
    wire.certificate = peer_certificate(CERTIFICATE) if certified else None
    session = bench.edge.open(wire)
    session.receive(f"CONNECT\naccept-version:1.2\nhost:{host}\n{headers}\n\0".encode())
    return session


def house(**edge: Any) -> Bench:
    acceptors = {"both": {"port": 1, "login_by": "certificate,passcode"}, "dn": {
        "port": 2, "login_by": "certificate", "certificate_user": "dn"}}  # fmt: skip
    bench = Bench(acceptors, virtual_hosts={"shop": {"login_by": "certificate"}}, **edge)
    auth: Any = bench.edge.auth
    auth.replace(
        {name: User(name, "$argon2id$x") for name in ("ada", "bob", "CN=ada,O=Acme\\, Inc.", "$host/shop.ada")}
    )
    auth.try_now = lambda login, passcode, peer="": auth.trusted(login) if passcode == "right" else None
    return bench


async def test_ports_and_hosts_have_ways_of_their_own() -> None:
    bench = house()
    assert joined(bench, port="both").principal == "ada"
    assert joined(bench, port="dn").principal == "CN=ada,O=Acme\\, Inc."
    assert joined(bench, host="shop").principal == "$host/shop.ada"
    assert joined(bench, "login:bob\npasscode:right\n", "both", certified=False).principal == "bob"
    assert not joined(bench, port="tcp").connected  # there it counts for nothing
    assert joined(bench, "login:bob\npasscode:right\n").principal == "bob"


async def test_another_login_than_the_certificate_s_is_refused_before_anything_else() -> None:
    bench = house()
    assert joined(bench, "login:bob\npasscode:right\n", "both").closed
    assert joined(bench, "login:ada\npasscode:wrong\n", "both").principal == "ada"
    assert bench.edge.counters.login_failures == 1


async def test_a_certificate_ends_with_its_session_and_a_passcode_is_no_matter_to_it() -> None:
    bench = house()
    session = joined(bench, port="both")
    assert len(bench.edge.expiries) == 1
    auth: Any = bench.edge.auth
    bench.edge.expel(auth.replace({"ada": User("ada", "$argon2id$other")}))
    assert not session.closed
    bench.edge.expel(auth.replace({"bob": User("bob", "$argon2id$x")}))
    assert session.closed


async def test_who_came_in_with_a_changed_passcode_stays_as_long_as_the_grace_says() -> None:
    bench = house(login_grace_s=60)
    auth: Any = bench.edge.auth
    auth.try_now = lambda login, passcode, peer="": Principal(login, (), hash("$argon2id$x"))
    ada, bob = joined(bench, "login:ada\npasscode:x\n"), joined(bench, "login:bob\npasscode:x\n")
    due: list[Any] = []
    bench.edge.beats.deadline = lambda at, then: due.append((at - bench.edge.clock.monotonic(), then))  # type: ignore
    bench.edge.expel(auth.replace({"ada": User("ada", "$argon2id$other")}))
    assert bob.closed and not ada.closed
    ((seconds, then),) = [each for each in due if each[0] > 50]
    assert 59 < seconds <= 60
    then()
    assert ada.closed


async def test_a_certificate_of_a_user_of_a_virtual_host_is_nobodys_in_another() -> None:
    bench = house()
    for host in ("h", "shop"):
        wire: Any = Wire()
        wire.transport_name = "both"
        wire.certificate = peer_certificate({"subject": ((("commonName", "$host/shop.ada"),),)})
        session = bench.edge.open(wire)
        session.receive(f"CONNECT\naccept-version:1.2\nhost:{host}\n\n\0".encode())
        assert session.closed and not session.connected


async def test_a_directory_decides_of_those_who_are_not_in_the_table() -> None:
    bench = house()
    session = joined(bench, port="both")
    session.entrance.ways = ("passcode", "ldap")
    asked: list[tuple[str, str]] = []
    eve = Principal("eve", ("staff",), 7, 0.0, True)

    async def ask(login: str, passcode: str, host: Any, channel: Any) -> Principal:
        asked.append((login, passcode))
        return eve

    known = {"dan": Principal("dan", (), 8, 0.0, True)}
    ldap = SimpleNamespace(prove=ask, known=lambda login, passcode, host, channel: known.get(login))
    bench.edge.outside = SimpleNamespace(by_passcode={"ldap": ldap}, tokens=None)  # type: ignore[assignment]
    assert prove(session, {"login": "dan", "passcode": "x"}) == known["dan"] and not asked
    later: Any = prove(session, {"login": "eve", "passcode": "y"})
    assert await later() == eve and asked == [("eve", "y")]
    assert prove(session, {"login": "bob", "passcode": "right"}) == Principal("bob")
    wrong: Any = prove(session, {"login": "bob", "passcode": "of-the-directory"})
    assert wrong.func == bench.edge.auth.authenticate and len(asked) == 1
    bench.edge.outside = None
    with pytest.raises(RefusedError):
        prove(session, {"login": "eve", "passcode": "y"})


JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJib2IifQ.c2lnbmVk"
SHOWN = [
    f"authorization:Bearer {JWT}\n", "authorization:Basic Ym9iOng=\n", "authorization:Bearer \n",
    f"passcode:{JWT}\n", f"login:bob\nauthorization:Bearer {JWT}\n",
]  # fmt: skip


def guests(ways: str, users: bool) -> Bench:
    bench = Bench({"open": {"port": 1, "login_by": ways, "default_user": "guest"}})
    auth: Any = bench.edge.auth
    if users:
        auth.replace({"guest": User("guest", "$argon2id$x"), "bob": User("bob", "$argon2id$x")})
        auth.try_now = lambda login, passcode, peer="": auth.trusted(login) if passcode == "right" else None
    return bench


@pytest.mark.parametrize("said", SHOWN)
@pytest.mark.parametrize("ways", ["passcode", "certificate", ""])
async def test_who_shows_a_token_where_none_is_taken_is_refused_by_name_and_nobody_else(said: str, ways: str) -> None:
    """Not as default_user, and without users not as anonymous."""
    bench = guests(ways, users=True)
    session = joined(bench, said, "open", certified=False)
    assert session.closed and not session.connected
    text = session.channel.sent.decode()
    assert "1201" in text and "login_by has no 'token'" in text and JWT not in text
    assert joined(bench, "", "open", certified=False).principal == "guest"
    if ways != "certificate":
        good = "login:bob\npasscode:right\n"
        assert joined(bench, f"{good}authorization:x\n", "open", certified=False).principal == "bob"  # it was checked


@pytest.mark.parametrize("said", SHOWN)
async def test_without_users_a_token_makes_nobody_anonymous(said: str) -> None:
    bench = Bench()
    session = joined(bench, said, certified=False)
    assert session.closed and "login_by has no 'token'" in session.channel.sent.decode()
    assert joined(bench, "login:x\npasscode:y\n", certified=False).principal == "anonymous"


@pytest.mark.parametrize("said", ["authorization:Basic Ym9iOng=\n", "authorization:Bearer \n"])
async def test_where_tokens_are_taken_another_scheme_is_refused_by_name(said: str) -> None:
    session = joined(guests("token,passcode", users=True), said, "open", certified=False)
    assert session.closed and "'Bearer TOKEN' alone" in session.channel.sent.decode()
