"""More silent connections than there are places at a port of TLS, or behind a balancer: who speaks comes in there."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness import Broker, Client, free_ports, scratch, until

from .certificates import authority, issued

SILENT = 1100
"""The port had 1,000 places, and so had all others of its kind with it."""


class Ports(NamedTuple):
    """One broker's. `ca`: whom a client trusts."""

    broker: Broker
    proxied: int
    ca: Path


@pytest.fixture(scope="module")
def ports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    (proxied,) = free_ports(1)
    made = tmp_path_factory.mktemp("silent")
    ca = authority(made, "ours")
    certificate, key = issued(made, "server", ca)
    settings = {
        "acceptors.proxied.url": f"tcp://127.0.0.1:{proxied}?proxyProtocolEnabled=true",
        "edge.tls_cert_file": certificate,
        "edge.tls_key_file": key,
        "edge.login_timeout_s": 120,  # nobody goes by himself
        "log.level": "INFO",
    }
    with scratch(request, "abuse") as folder, Broker(folder, settings, tls=True) as broker:
        yield Ports(broker, proxied, ca[0])
        assert "Traceback" not in broker.log()


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["tls", "proxied"])
def test_silent_connections_do_not_close_their_port(ports: Ports, kind: str) -> None:
    before = ports.broker.log().count("gave way")
    with ExitStack() as open_:
        port = ports.proxied if kind == "proxied" else ports.broker.tls_port
        for _ in range(SILENT):
            open_.enter_context(socket.create_connection(("127.0.0.1", port), 30))
        until(lambda: ports.broker.log().count("gave way") >= before + SILENT - 1000, "not all have come")
        if kind == "proxied":
            client = open_.enter_context(Client(port))
            client.raw(b"PROXY TCP4 198.51.100.7 192.0.2.1 40000 %d\r\n" % port)
        else:
            trusting = ssl.create_default_context(cafile=str(ports.ca))
            client = open_.enter_context(Client(port, tls=trusting))
        client.connect()
        client.sync()
