"""Who somebody is, by TLS certificates and by tokens of an issuer, over real sockets; and when that ends."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.core.errors import Code
from tests.abuse.certificates import authority, issued, revocations
from tests.harness import Broker, Client, scratch
from tests.harness.broker import free_ports
from tests.harness.issuer import AUDIENCE, LocalIssuer
from tests.harness.secrets import add_user
from tests.harness.stomp import ClosedByBroker
from tests.harness.waiting import until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
PASSCODES = {"alice": "alice-pass-code", "bob": "bob-pass-code-2", "zoe": "zoe-pass-code-3"}


class House(NamedTuple):
    """port: with TLS, by certificate, token or passcode. tokens: without TLS, by token alone."""

    broker: Broker
    issuer: LocalIssuer
    folder: Path
    port: int
    tokens: int

    def tls(self, name: str = "") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        if name:
            context.load_cert_chain(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        return context

    def join(self, name: str = "", port: int = 0, **headers: str) -> Client:
        client = Client(port or self.port, tls=None if port else self.tls(name))
        client.send("CONNECT", {"accept-version": "1.2", "host": "x", **headers})
        return client


@pytest.fixture(scope="module")
def house(request: pytest.FixtureRequest) -> Iterator[House]:
    with scratch(request, "identity") as folder, LocalIssuer() as issuer:
        ca = authority(folder, "ca")
        for name in ("server", "alice", "stranger", "zoe"):
            issued(folder, name, ca)
        for key in ("one", "two"):
            issuer.key(key)
        port, tokens = free_ports(2)
        settings: dict[str, object] = {
            "acceptors.secure.port": port, "acceptors.secure.tls": "true",
            "acceptors.secure.tls_cert_file": folder / "server.pem",
            "acceptors.secure.tls_key_file": folder / "server.key",
            "acceptors.secure.tls_client_ca_file": ca[0], "acceptors.secure.tls_client_auth": "want",
            "acceptors.secure.tls_crl_file": revocations(folder, ca), "edge.tls_reload_s": 0.2,
            "acceptors.secure.login_by": "certificate,token,passcode",
            "acceptors.tokens.port": tokens, "acceptors.tokens.login_by": "token",
            "edge.issuers.ours.issuer": issuer.url, "edge.issuers.ours.audience": AUDIENCE,
            "edge.issuers.ours.leeway_s": 0, "edge.issuers.ours.refresh_s": 0.5,
            **{f"edge.permissions.#.{name}": "staff" for name in ("send", "create_address", "create_durable_queue")},
        }  # fmt: skip
        broker = Broker(folder, settings, level="DEBUG")
        for name, passcode in PASSCODES.items():
            add_user(broker, name, passcode, "staff")
        with broker:
            yield House(broker, issuer, folder, port, tokens)
            log = broker.log()
        assert "Traceback" not in log
        for secret in (*PASSCODES.values(), "eyJ"):
            assert secret not in log


def sends(client: Client) -> None:
    """May it send."""
    client.expect("CONNECTED")
    client.send("SEND", {"destination": "/queue/a", "receipt": "r"}, b"x")
    client.expect("RECEIPT")
    client.close()


def refused(client: Client, code: Code = Code.LOGIN_FAILED) -> str:
    frame = client.expect("ERROR")
    assert frame["error-code"] == str(code.number), frame
    client.ended()
    client.close()
    return frame.body.decode()


def test_a_certificate_says_who_somebody_is(house: House) -> None:
    sends(house.join("alice"))
    sends(house.join("alice", login="alice"))


def test_a_certificate_of_alice_with_login_bob_is_refused(house: House) -> None:
    refused(house.join("alice", login="bob", passcode=PASSCODES["bob"]))
    told = "the certificate is that of 'alice', the login says 'bob'"
    until(lambda: told in house.broker.log(), "the log does not say why")


def test_a_certificate_of_somebody_who_is_no_user_is_refused(house: House) -> None:
    refused(house.join("stranger"))
    refused(house.join("stranger", login="bob", passcode=PASSCODES["bob"]))


def test_the_ways_of_an_acceptor_go_by_what_is_there(house: House) -> None:
    sends(house.join(login="bob", passcode=PASSCODES["bob"]))
    refused(house.join(login="bob", passcode="wrong"))
    refused(house.join())
    sends(house.join(authorization=f"Bearer {house.issuer.token('one', 'carol', groups=['staff'])}"))
    # A port for tokens alone takes no passcode.
    refused(house.join(port=house.tokens, login="bob", passcode=PASSCODES["bob"]))


def test_a_token_is_a_passcode_too_and_its_groups_count(house: House) -> None:
    token = house.issuer.token("one", "carol", groups=["staff"])
    sends(house.join(port=house.tokens, login="carol", passcode=token))
    sends(house.join(port=house.tokens, login="", passcode=token))
    refused(house.join(port=house.tokens, login="bob", passcode=token))
    other = house.join(port=house.tokens, passcode=house.issuer.token("one", "dan", groups=["others"]))
    other.expect("CONNECTED")
    other.send("SEND", {"destination": "/queue/a", "receipt": "r"}, b"x")
    assert "user 'dan' lacks send" in refused(other, Code.NOT_ALLOWED)


def test_a_token_that_ends_ends_its_connection_within_seconds(house: House) -> None:
    token = house.issuer.token("one", "carol", lasts_s=3)
    client = house.join(port=house.tokens, passcode=token)
    client.expect("CONNECTED")
    assert "connect with a new one" in refused(client, Code.LOGIN_EXPIRED)
    refused(house.join(port=house.tokens, passcode=token))
    assert house.broker.closed("login_expired") >= 1


def test_a_key_that_is_withdrawn_ends_its_connections_within_seconds(house: House) -> None:
    gone = house.join(port=house.tokens, passcode=house.issuer.token("two", "carol"))
    stays = house.join(port=house.tokens, passcode=house.issuer.token("one", "carol", groups=["staff"]))
    gone.expect("CONNECTED")
    house.issuer.shown.remove("two")
    refused(gone, Code.LOGIN_EXPIRED)
    sends(stays)


def test_a_certificate_that_is_revoked_ends_its_connections_and_comes_in_no_more(house: House) -> None:
    stays, gone = house.join("alice"), house.join("zoe")
    stays.expect("CONNECTED")
    gone.expect("CONNECTED")
    time.sleep(0.3)  # the list is another file then, whatever the clock of the file system
    revocations(house.folder, (house.folder / "ca.pem", house.folder / "ca.key"), house.folder / "zoe.pem")
    assert "revoked" in refused(gone, Code.LOGIN_EXPIRED)
    # Its handshake fails.
    with pytest.raises((OSError, ClosedByBroker)), Client(house.port, tls=house.tls("zoe")) as again:
        again.connect()
    stays.send("SEND", {"destination": "/queue/a", "receipt": "r"}, b"x")
    stays.expect("RECEIPT")
    stays.close()


def test_a_user_who_is_removed_loses_what_a_certificate_opened(house: House) -> None:
    client = house.join("alice")
    client.expect("CONNECTED")
    add_user(house.broker, "alice", "another-pass-code")  # the certificate is as right as before
    time.sleep(1.5)
    client.send("SEND", {"destination": "/queue/a", "receipt": "r"}, b"x")
    client.expect("RECEIPT")
    line = [sys.executable, "-m", "broker.app.cli", "user", "remove", "alice", "--data", str(house.broker.data)]
    subprocess.run(line, env=house.broker.environment(), check=True, capture_output=True)
    refused(client, Code.NOT_ALLOWED)
