"""One port for STOMP over TCP and over WebSocket: the first byte decides, and both kinds behave as on ports of their
own."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError

from broker.config.settings import Settings
from broker.core.reasons import Reason
from tests.harness.secrets import self_signed
from tests.harness.shells import OFF, Edge, both_loops, closed, listening, run
from tests.harness.waiting import eventually


def one(**more: Any) -> Settings:
    return Settings(edge=OFF, acceptors={"any": {"port": 0, **more}})


@both_loops
def test_both_kinds_are_served_on_one_port(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, one()) as listeners:
            port = listeners.ports["any"]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for piece in (b"C", b"ONNECT\n", b"G" * 200_000):
                writer.write(piece)
                assert await reader.readexactly(len(piece)) == piece
            plain = await edge.sessions.get()
            assert (plain.channel.framed, plain.channel.transport_name) == (False, "any")
            await closed(writer)
            await plain.over.wait()
            async with connect(f"ws://127.0.0.1:{port}", subprotocols=["v12.stomp"]) as client:  # type: ignore[list-item]
                await client.send("hello")
                assert await client.recv() == "hello"
                web = await edge.sessions.get()
                assert (web.channel.framed, web.channel.transport_name) == (True, "any")
            await web.over.wait()
            assert (plain.calls, web.calls[-1]) == (["eof", "lost"], "lost")

    run(kind, main())


@both_loops
def test_a_request_cut_after_its_first_byte_is_still_a_request(kind: str) -> None:
    async def main() -> None:
        async with listening(Edge(), one()) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["any"])
            for piece in (b"G", b"ET / HTTP/1.1\r\n", b"Host: x\r\n\r\n"):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)
            assert (await reader.readline()).startswith(b"HTTP/1.1 426 ")
            await closed(writer)

    run(kind, main())


@both_loops
def test_both_kinds_come_through_tls(kind: str, tmp_path: Path) -> None:
    cert, key = self_signed(tmp_path)

    async def main() -> None:
        settings = one(tls=True, tls_cert_file=str(cert), tls_key_file=str(key))
        async with listening(Edge(), settings) as listeners:
            trusting = ssl.create_default_context(cafile=str(cert))
            port = listeners.ports["any"]
            reader, writer = await asyncio.open_connection("localhost", port, ssl=trusting)
            writer.write(b"STOMP")
            assert await reader.readexactly(5) == b"STOMP"
            await closed(writer)
            async with connect(f"wss://localhost:{port}", ssl=trusting) as client:
                await client.send(b"binary")
                assert await client.recv() == b"binary"

    run(kind, main())


@both_loops
def test_who_says_nothing_has_a_session_that_can_end_it(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, one()) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["any"])
            session = await edge.sessions.get()
            session.channel.write(b"ERROR\n")
            session.channel.close(Reason.LOGIN_TIMEOUT)
            assert await reader.read() == b"ERROR\n"
            await closed(writer)
            await session.over.wait()

    run(kind, main())


@both_loops
@pytest.mark.parametrize(
    ("encoder", "sent", "answer"),
    [
        ("mirror", "text", "text"), ("mirror", b"bytes", b"bytes"), ("mirror", b"\xff", b"\xff"),
        ("binary", "text", b"text"), ("text", b"bytes", "bytes"), ("text", b"\xff", b"\xff"),
    ],
)  # fmt: skip
def test_frames_go_out_as_the_acceptor_says(kind: str, encoder: str, sent: str | bytes, answer: str | bytes) -> None:
    async def main() -> None:
        async with (
            listening(Edge(), one(ws_encoder=encoder)) as listeners,
            connect(f"ws://127.0.0.1:{listeners.ports['any']}") as client,
        ):
            await client.send(sent)
            assert await client.recv() == answer

    run(kind, main())


@both_loops
@pytest.mark.parametrize("on", [True, False])
def test_compression_is_agreed_on_where_it_is_offered(kind: str, on: bool) -> None:
    async def main() -> None:
        async with (
            listening(Edge(), one(ws_compression=on)) as listeners,
            connect(f"ws://127.0.0.1:{listeners.ports['any']}") as client,
        ):
            assert [extension.name for extension in client.protocol.extensions] == ["permessage-deflate"] * on
            await client.send("x" * 5000)
            assert await client.recv() == "x" * 5000

    run(kind, main())


@both_loops
def test_a_payload_above_the_limit_closes_and_below_it_passes(kind: str) -> None:
    async def main() -> None:
        async with (
            listening(Edge(), one(ws_max_message_bytes=1000)) as listeners,
            connect(f"ws://127.0.0.1:{listeners.ports['any']}") as client,
        ):
            await client.send(b"x" * 1000)
            assert len(await client.recv()) == 1000
            await client.send(b"x" * 1001)
            assert await client.recv() == b"ERROR\n\n\0"
            with pytest.raises(ConnectionClosedError) as ended:
                await client.recv()
            assert ended.value.rcvd is not None and ended.value.rcvd.code == 1009

    run(kind, main())


@both_loops
def test_a_ping_shows_that_the_client_lives(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with (
            listening(edge, one()) as listeners,
            connect(f"ws://127.0.0.1:{listeners.ports['any']}") as client,
        ):
            await (await client.ping())
            assert (await edge.sessions.get()).signs

    run(kind, main())


@both_loops
def test_a_piece_of_a_websocket_frame_does_too(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, one()) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["any"])
            writer.write(
                b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
            session = await edge.sessions.get()
            before = session.signs
            writer.write(b"\x82\xfe\x03\xe8\0\0")
            await eventually(lambda: session.signs > before)
            assert session.received == []
            await closed(writer)

    run(kind, main())
