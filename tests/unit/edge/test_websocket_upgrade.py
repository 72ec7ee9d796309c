"""The HTTP request in front of a WebSocket: which pages and paths may upgrade, and what others are told."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from broker.core.reasons import Reason
from broker.edge.transport.websockets.upgrade import origin_allowed
from tests.harness.shells import Edge, both_loops, closed, listening, run

from .ws_client import WS, url


@both_loops
@pytest.mark.parametrize(
    ("origin", "allowed", "ok"),
    [
        (None, "", True),
        ("http://127.0.0.1:8080", "", True),
        ("http://localhost", "", True),
        ("https://evil.example", "", False),
        ("null", "", False),
        ("https://app.example", "https://app.example, https://b.example/", True),
        ("https://b.example", "https://app.example, https://b.example/", True),
        ("http://localhost", "https://app.example", False),
    ],
)
def test_pages_of_foreign_origins_are_refused(kind: str, origin: str | None, allowed: str, ok: bool) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, replace(WS, ws_allowed_origins=allowed)) as listeners:
            if ok:
                async with connect(url(listeners), origin=origin) as client:
                    await client.ping()
            else:
                with pytest.raises(InvalidStatus) as refused:
                    await connect(url(listeners), origin=origin)
                assert refused.value.response.status_code == 403
                assert b"edge.ws_allowed_origins" in refused.value.response.body
                session = await edge.sessions.get()
                await session.over.wait()
                assert session.channel.reason is Reason.WEBSOCKET_PROTOCOL

    run(kind, main())


@pytest.mark.parametrize(
    ("origin", "host", "local", "ok"),
    [
        ("https://app.example", "app.example", ("10.0.0.5", 61614), True),
        ("https://app.example:8443", "APP.example:61614", ("10.0.0.5", 61614), True),
        ("https://evil.example", "app.example", ("10.0.0.5", 61614), False),
        ("https://app.example", "app.example", ("127.0.0.1", 61614), True),  # through a proxy on this machine
        ("http://evil.example", "evil.example:61614", ("127.0.0.1", 61614), False),  # DNS rebinding
        ("http://evil.example", "evil.example:61614", ("::1", 61614), False),
        ("http://evil.example", "evil.example", ("127.0.0.1", 80), False),  # a port that Host leaves out
        ("https://evil.example", "evil.example", ("127.0.0.1", 443), False),
        ("http://[::1]:80", "[::1]:61614", ("::1", 61614), True),
        ("http://app.localhost", "whatever", ("10.0.0.5", 61614), True),
        ("http://localhost.evil.example", "app.example", ("10.0.0.5", 61614), False),
        ("http://", "", ("10.0.0.5", 61614), False),
        ("http://[broken", "[broken", ("10.0.0.5", 61614), False),
    ],
)
def test_without_a_list_pages_of_the_same_host_may_connect(
    origin: str, host: str, local: tuple[str, int], ok: bool
) -> None:
    assert origin_allowed(origin, host, "", local) is ok


@both_loops
def test_only_the_configured_path_upgrades(kind: str) -> None:
    async def main() -> None:
        async with listening(Edge(), replace(WS, ws_path="/stomp")) as listeners:
            async with connect(url(listeners, "/stomp?x=1")) as client:
                await client.ping()
            with pytest.raises(InvalidStatus) as refused:
                await connect(url(listeners, "/other"))
            assert refused.value.response.status_code == 404

    run(kind, main())


@both_loops
def test_a_browser_that_looks_in_is_told_what_this_is(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, WS) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["ws"])
            writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nAccept: text/html\r\n\r\n")
            page = (await reader.read()).decode()
            assert page.startswith("HTTP/1.1 426 ")
            assert "Upgrade: websocket" in page
            assert "STOMP" in page.partition("\r\n\r\n")[2]
            session = await edge.sessions.get()
            await closed(writer)
            await session.over.wait()
            assert session.channel.reason is None

    run(kind, main())


@both_loops
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"CONNECT\naccept-version:1.2\n\n\0", b""),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n", b""),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"v" * 4000) for i in range(9)), b"431"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", b"405"),
    ],
    ids=["stomp", "tls", "headers", "path", "nokey", "post"],
)
def test_bad_requests_are_refused_and_named(kind: str, request_bytes: bytes, status: bytes) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, WS) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["ws"])
            writer.write(request_bytes)
            answer = await reader.read()
            assert answer[9:12] == status
            await closed(writer)
            session = await edge.sessions.get()
            await session.over.wait()
            assert (session.received, session.calls) == ([], ["eof", "lost"])
            assert session.channel.reason is Reason.WEBSOCKET_PROTOCOL

    run(kind, main())


@both_loops
@pytest.mark.parametrize(("reason", "status"), [(Reason.LOGIN_TIMEOUT, b"408"), (Reason.CONNECTION_LIMIT, b"503")])
def test_closing_before_the_handshake_is_an_http_answer(kind: str, reason: Reason, status: bytes) -> None:
    async def main() -> None:
        def refuse(channel: object) -> None:
            channel.write_frames([b"ERROR\n\n\0"])  # nobody can read it yet
            channel.close(reason)

        async with listening(Edge(on_open=refuse), WS) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["ws"])
            assert (await reader.read())[9:12] == status
            await closed(writer)

    run(kind, main())
