"""The TLS ports with client certificates required: who does not get in, and what a handshake may cost."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Iterator

import pytest

from tests.harness import Broker, Client, scratch, until

from .certificates import authority, issued

LOGIN_S = 1.0


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    ours, foreign = authority(folder, "ours"), authority(folder, "foreign")
    return {
        "ca": ours[0],
        "server": issued(folder, "server", ours),
        "client": issued(folder, "client", ours),
        "expired": issued(folder, "expired", ours, days=-1),
        "stranger": issued(folder, "stranger", foreign),
    }


@pytest.fixture(scope="module")
def broker(request, paths) -> Iterator[Broker]:
    settings = {
        "edge.tls_cert_file": paths["server"][0],
        "edge.tls_key_file": paths["server"][1],
        "edge.tls_client_ca_file": paths["ca"],
        "edge.login_timeout_s": LOGIN_S,
    }
    with scratch(request, "abuse") as folder, Broker(folder, settings, tls=True) as broker:
        broker.metrics()
        yield broker
        assert "Traceback" not in broker.log()


def context(paths, who=None):
    made = ssl.create_default_context(cafile=paths["ca"])
    if who is not None:
        made.load_cert_chain(*paths[who])
    return made


def failures(broker):
    return broker.metrics().get('stomp_tls_handshakes_failed_total{reason="tls_failed"}', 0)


@pytest.fixture
def one_failure(broker):
    """Exactly one handshake fails during the test, and the log names the address."""
    before = failures(broker)
    yield
    until(lambda: failures(broker) > before, "no failure was counted")
    assert failures(broker) == before + 1
    until(lambda: logged(broker), broker.log)  # it has a thread of its own: the line may come after the count


def logged(broker):
    return any("tls_failed" in line and "127.0.0.1" in line for line in broker.log().splitlines())


def test_a_good_certificate_gets_in(broker, paths):
    with Client(broker.tls_port, tls=context(paths, "client")) as client:
        client.connect()
        client.nothing()


@pytest.mark.parametrize("who", [None, "expired", "stranger"])
def test_a_wrong_certificate_does_not(broker, paths, one_failure, who):
    with pytest.raises((ssl.SSLError, ConnectionError)), Client(broker.tls_port, tls=context(paths, who)) as client:
        client.socket.sendall(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")
        # With TLS 1.3 the client learns of the refusal after its own side of the handshake.
        assert client.socket.recv(100) == b"", "served without a good certificate"
        raise ConnectionError


def test_old_tls_versions_do_not(broker, paths, one_failure):
    old = context(paths, "client")
    with pytest.warns(DeprecationWarning):
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Client(broker.tls_port, tls=old)


@pytest.mark.parametrize(
    "data",
    [b"CONNECT\naccept-version:1.2\n\n\0", b"GET / HTTP/1.1\r\n\r\n", os.urandom(100_000)],
    ids=["stomp", "http", "noise"],
)
def test_whoever_does_not_speak_tls(broker, one_failure, data):
    with socket.create_connection(("127.0.0.1", broker.tls_port), 5) as raw:
        try:
            raw.sendall(data)
            while raw.recv(4096):
                pass
        except ConnectionError:
            pass


def test_half_a_handshake_has_a_deadline(broker, one_failure):
    with socket.create_connection(("127.0.0.1", broker.tls_port), 10) as raw:
        raw.sendall(bytes.fromhex("16030100c801"))
        start = time.monotonic()
        try:
            while raw.recv(4096):
                pass
        except ConnectionError:
            pass
        assert time.monotonic() - start < LOGIN_S + 2


def test_hundreds_of_half_handshakes_cost_little(broker):
    before = broker.rss()
    raws = [socket.create_connection(("127.0.0.1", broker.tls_port), 10) for _ in range(300)]
    for raw in raws:
        raw.sendall(bytes.fromhex("16030100c801"))
    time.sleep(0.2)
    assert broker.rss() - before < 300 * 100_000
    for raw in raws:
        try:
            while raw.recv(4096):
                pass
        except ConnectionError:
            pass
        raw.close()


def test_garbage_inside_an_open_tls_connection(broker, paths):
    """A record that does not authenticate ends the connection; nothing of it reaches STOMP."""
    with Client(broker.tls_port, tls=context(paths, "client")) as client:
        client.connect()
        assert isinstance(client.socket, ssl.SSLSocket)
        raw = socket.socket(fileno=os.dup(client.socket.fileno()))
        raw.sendall(b"\x17\x03\x03\x00\x40" + b"z" * 64)
        raw.settimeout(30)
        while raw.recv(4096):
            pass
        raw.close()
