"""Abusers that need no queue: connections, logins, half frames, odd protocols.

Rule: only what any client on the network may send. An abuser that is refused or thrown out begins again at once.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
import urllib.request
from collections.abc import Callable

from tests.abuse.ws import WebSocket
from tests.harness.stomp import Client, ClosedByBroker, build

from .target import Target, abuser


def _crowd(target: Target, most: int, make: Callable[[], Client], poke: Callable[[Client], object]) -> None:
    """So many connections, the oldest goes for the newest; each is poked in turn."""
    opened: list[Client] = []
    try:
        while target.time_left() > 0:
            with contextlib.suppress(OSError, ClosedByBroker, AssertionError):
                opened.append(make())
            if len(opened) > most:
                opened.pop(0).close()
            for client in opened[:: max(len(opened) // 20, 1)]:
                with contextlib.suppress(OSError):
                    poke(client)
    finally:
        for client in opened:
            client.close()


@abuser("edge.login_timeout_s, edge.max_connections; the silent give way to newcomers")
def silent(target: Target) -> None:
    """1,500 connections that never say a word."""
    _crowd(target, 1500, lambda: Client(target.port), lambda client: None)


@abuser("edge.login_timeout_s, edge.frame_timeout_s")
def slow_loris(target: Target) -> None:
    """500 connections that send a CONNECT byte by byte."""
    _crowd(target, 500, lambda: Client(target.port), lambda client: client.raw(b"C"))


@abuser("edge.max_eol_per_s")
def empty_lines(target: Target) -> None:
    """Line feeds, as many as go."""
    with Client(target.port) as client:
        client.connect()
        while target.time_left() > 0:
            client.raw(b"\n" * 65_536)


@abuser("fair turns of accepting (broker/edge/transport/handshakes.py)")
def connects(target: Target) -> None:
    """CONNECT and away, as fast as one process can."""
    while target.time_left() > 0:
        with Client(target.port) as client:
            client.connect()


@abuser("handshakes under way have a number; those of who has never proved himself give way")
def half_tls(target: Target) -> None:
    """Begins of TLS at a port that has none."""
    hello = ssl.create_default_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        hello.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    data = outgoing.read()
    while target.time_left() > 0:
        with socket.create_connection(("127.0.0.1", target.port), 10) as raw:
            raw.sendall(data)
            raw.recv(4096)


@abuser("edge.ws_max_message_bytes; pieces of 64 KiB a turn")
def websocket(target: Target) -> None:
    """Messages of 4 MiB with 40,000 small frames each, masked as browsers do."""
    frames = build("SEND", {"destination": "/topic/nobody"}, b"x" * 40) * 45_000
    with WebSocket(target.ws_port) as client:
        client.stomp(build("CONNECT", {"accept-version": "1.2", "host": "localhost"}))
        while target.time_left() > 0:
            client.stomp(frames)


@abuser("engine.max_queues; a page of metrics is made in pieces")
def scrapes(target: Target) -> None:
    """/metrics again and again, with 20,000 queues."""
    with target.with_queues(20_000):
        while target.time_left() > 0:
            with urllib.request.urlopen(f"http://127.0.0.1:{target.admin}/metrics", timeout=60) as page:
                page.read()


@abuser("pages of the API are bounded (docs/admin-api.md)")
def console(target: Target) -> None:
    """The list of 20,000 queues by depth, page by page, from the management API."""
    with target.with_queues(20_000):
        while target.time_left() > 0:
            url = f"http://127.0.0.1:{target.admin}/api/v1/queues?sort=-messages&limit=500"
            with urllib.request.urlopen(url, timeout=60) as page:
                page.read()
            time.sleep(0)
