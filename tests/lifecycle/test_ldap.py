"""Logins of a directory, over real sockets and TLS: beside users of the table, until the directory says otherwise."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from broker.core.errors import Code
from tests.abuse.certificates import authority, issued
from tests.harness import Broker, Client, scratch, until
from tests.harness.broker import free_ports
from tests.harness.secrets import add_user

ldap_server = pytest.importorskip("tests.harness.ldap_server", reason="ldap3 is not installed")
pytestmark = pytest.mark.skipif(
    not ldap_server.HERE or shutil.which("openssl") is None, reason="slapd or openssl is not installed"
)
GROUPS = {"ada": "few", "eve": "staff", "bob": "staff"}
PASSCODE = "{}-pass-code-1"


class House:
    """ports: by how the directory is reached: `ldaps`, `starttls`, and `wrong` by a CA that is not its own."""

    def __init__(self, broker: Broker, directory: Any, ports: dict[str, int]) -> None:
        self.broker = broker
        self.directory = directory
        self.ports = ports

    def join(self, login: str, passcode: str = "", kind: str = "ldaps") -> Client:
        client = Client(self.ports[kind])
        client.send(
            "CONNECT",
            {"accept-version": "1.2", "host": kind, "login": login, "passcode": passcode or PASSCODE.format(login)},
        )
        return client


@pytest.fixture(scope="module")
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    with scratch(request, "ldap") as folder:
        ca, other = authority(folder, "ca"), authority(folder, "other-ca")
        issued(folder, "server", ca)
        with ldap_server.LdapServer(folder / "ldap", (folder / "server.pem", folder / "server.key")) as directory:
            ports = dict(zip(("ldaps", "starttls", "wrong"), free_ports(3), strict=True))
            settings: dict[str, Any] = {}
            for kind, port in ports.items():
                settings |= {
                    f"acceptors.{kind}.port": port, f"acceptors.{kind}.login_by": "passcode,ldap",
                    f"acceptors.{kind}.virtual_hosts": kind, f"edge.virtual_hosts.{kind}.names": kind,
                }  # fmt: skip
                secure = kind != "starttls"
                about = directory.settings(
                    url=f"ldap{'s' * secure}://localhost:{directory.tls_port if secure else directory.port}",
                    start_tls=str(not secure).lower(), ca_file=(other if kind == "wrong" else ca)[0],
                    virtual_hosts=kind, refresh_s=1,
                )  # fmt: skip
                settings |= {f"edge.ldap.{kind}.{name}": value for name, value in about.items()}
            broker = Broker(folder, settings, level="DEBUG")
            add_user(broker, "$host/ldaps.bob", PASSCODE.format("bob"))
            with broker:
                yield House(broker, directory, ports)
                log = broker.log()
            assert "Traceback" not in log and "-pass-code-1" not in log and "of-the-reader" not in log


@pytest.fixture
def people(house: House) -> Iterator[dict[str, str]]:
    found = {name: house.directory.person(name, PASSCODE.format(name)) for name in ("ada", "bob")}
    yield found
    for dn in found.values():
        house.directory.remove(dn)


def refused(client: Client, code: Code = Code.LOGIN_FAILED) -> None:
    assert client.expect("ERROR")["error-code"] == str(code.number)
    client.ended()
    client.close()


@pytest.mark.parametrize("kind", ["ldaps", "starttls"])
def test_users_of_the_directory_come_in(house: House, people: dict[str, str], kind: str) -> None:
    with house.join("ada", kind=kind) as client:
        client.expect("CONNECTED")
    refused(house.join("ada", "wrong", kind))
    refused(house.join("nobody", "wrong", kind))


def test_a_directory_that_somebody_else_plays_is_not_asked(house: House, people: dict[str, str]) -> None:
    refused(house.join("ada", kind="wrong"))
    until(lambda: "nobody new can log in by LDAP" in house.broker.log(), house.broker.log)


def test_who_is_in_the_table_is_judged_by_the_table_alone(house: House, people: dict[str, str]) -> None:
    house.directory.set(people["bob"], userPassword="of-the-directory")
    with house.join("bob") as client:
        client.expect("CONNECTED")
    refused(house.join("bob", "of-the-directory"))


def test_a_connection_ends_when_its_user_is_gone(house: House, people: dict[str, str]) -> None:
    eve = house.directory.person("eve", PASSCODE.format("eve"))
    with house.join("ada") as stays, house.join("eve") as goes:
        for client in (stays, goes):
            client.expect("CONNECTED")
        house.directory.remove(eve)
        refused(goes, Code.LOGIN_EXPIRED)
        stays.send("SEND", {"destination": "/queue/a", "receipt": "r"}, b"x")
        stays.expect("RECEIPT")
    refused(house.join("eve"))
