"""Ports with parameters of their own: strangers at a port of both kinds, liars and silent ones at one that wants a
PROXY header, and more connections than a port allows."""

from __future__ import annotations

import itertools
import random
import socket
import time

import pytest

from broker.core.errors import Code
from tests.harness import Client, free_ports, until
from tests.harness.stomp import ClosedByBroker

from .test_strangers import HELLO
from .ws import WebSocket

ANY, PROXIED, FEW, BRIEF = free_ports(4)
SETTINGS = {
    "acceptors.any.port": ANY,
    "acceptors.proxied.url": f"tcp://127.0.0.1:{PROXIED}?proxyProtocolEnabled=true;handshake-timeout=1",
    "acceptors.few.port": FEW,
    "acceptors.few.connections_allowed": 3,
    "acceptors.brief.url": f"tcp://127.0.0.1:{BRIEF}?connectionTtl=1000;anycastPrefix=q/",
    "edge.max_connections_per_ip": 60,
    "log.level": "INFO",
}
_ADDRESSES = (f"198.51.{a}.{b}" for a, b in itertools.product(range(256), range(1, 255)))


def proxied(header: bytes) -> Client:
    client = Client(PROXIED)
    client.raw(header)
    return client


@pytest.mark.parametrize("cut", [1, 3, 200])
def test_a_tls_hello_on_a_port_of_both_kinds(dial, counted, cut):
    with Client(ANY) as client:
        client.raw(HELLO[:cut])
        client.raw(HELLO[cut:])
        try:
            assert client.read()["error-code"] == str(Code.TLS_ON_PLAIN_PORT.number)
        except (ClosedByBroker, OSError):
            pass
    counted("tls_on_plain_port")


def test_both_kinds_share_a_port_and_meet(queue):
    with Client(ANY) as plain:
        plain.connect()
        plain.subscribe(queue)
        with WebSocket(ANY) as web:
            assert web.status == 101
            web.stomp(f"CONNECT\naccept-version:1.2\nhost:x\n\n\0SEND\ndestination:{queue}\n\nweb\0".encode())
            assert plain.read().body == b"web"


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes_at_a_port_of_both_kinds(broker, seed):
    before = broker.rss()
    for first in (b"", b"G", b"GET "):
        with Client(ANY) as client:
            client.raw(first + random.Random(seed).randbytes(100_000))
            client.socket.settimeout(30)
            try:
                while client.socket.recv(65536):
                    pass
            except OSError:
                pass
    assert broker.rss() - before < 4_000_000


def test_the_address_that_the_balancer_names_is_the_one_that_counts(broker, queue):
    """For the log and for the limit of one address, which the balancer itself would soon reach."""
    clients = []
    for _ in range(70):
        client = proxied(f"PROXY TCP4 {next(_ADDRESSES)} 192.0.2.1 40000 {PROXIED}\r\n".encode())
        client.connect()
        clients.append(client)
    clients[-1].publish(queue, b"x")
    for client in clients:
        client.close()
    same = []
    for n in range(1, 62):
        same.append(proxied(f"PROXY TCP4 203.0.113.9 192.0.2.1 {n} {PROXIED}\r\n".encode()))
        if n <= 60:
            same[-1].connect()
    assert same[60].expect("ERROR")["error-code"] == str(Code.CONNECTION_LIMIT.number)
    until(lambda: "203.0.113.9:61" in broker.log(), "its end is not in the log")
    for client in same:
        client.close()


@pytest.mark.parametrize("seed", range(5))
def test_what_is_no_proxy_header_ends_without_a_connection(broker, seed):
    rng = random.Random(seed)
    opened = broker.metrics().get('stomp_connections_opened_total{transport="proxied"}', 0)
    samples = [b"CONNECT\naccept-version:1.2\nhost:x\n\n\0", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", HELLO,
               b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n", b"PROXY " + b"x" * 5000, rng.randbytes(300)]  # fmt: skip
    for sample in samples:
        with proxied(sample) as client:
            client.socket.settimeout(30)
            try:
                assert client.socket.recv(100) == b""
            except ConnectionResetError:
                pass
    metrics = broker.metrics()
    assert metrics.get('stomp_connections_opened_total{transport="proxied"}', 0) == opened
    assert metrics['stomp_proxy_headers_failed_total{reason="proxy_failed"}'] >= len(samples)


def test_half_a_header_is_not_waited_for_longer_than_the_handshake_may_take(broker):
    before = broker.open_files()
    start = time.monotonic()
    slow = [proxied(b"PROXY TCP4 1.2.") for _ in range(50)]
    for client in slow:
        client.socket.settimeout(30)
        try:
            assert client.socket.recv(1) == b""
        except ConnectionResetError:
            pass
        client.close()
    assert 0.9 < time.monotonic() - start < 4
    assert broker.open_files() <= before + 5


def test_a_flood_of_silent_sockets_at_the_proxied_port_leaves_room_for_others(dial):
    flood = [socket.create_connection(("127.0.0.1", PROXIED)) for _ in range(1100)]
    try:
        client = dial()
        client.connect()
        client.nothing()
    finally:
        for sock in flood:
            sock.close()


def test_a_port_that_is_full_says_so(dial):
    silent = [Client(FEW) for _ in range(4)]
    clients = [Client(FEW) for _ in range(3)]
    for client in clients:
        client.connect()
    clients.append(Client(FEW))
    frame = clients[3].expect("ERROR")
    assert frame["error-code"] == str(Code.CONNECTION_LIMIT.number)
    assert b"connections_allowed" in frame.body
    for client in silent + clients:
        client.close()
    dial().connect()


def test_silence_is_told_with_its_length_and_prefixes_are_the_port_s_own(broker, counted, name):
    with Client(BRIEF) as silent, Client(broker.port) as other:
        silent.connect()
        silent.subscribe(f"q/{name}")
        other.connect()
        other.publish(f"/queue/{name}", b"x")
        assert silent.read()["destination"] == f"/queue/{name}"
        start = time.monotonic()
        frame = silent.expect("ERROR")
        assert 0.8 < time.monotonic() - start < 2
        assert frame.body.startswith(b"Did not receive data from 127.0.0.1:")
        assert b"the last byte came 1." in frame.body
    counted("heartbeat_missed")
