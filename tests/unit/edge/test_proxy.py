"""PROXY headers: both versions, cut anywhere, with TLS behind them; and what is no header."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from ipaddress import ip_address
from typing import Any

import pytest

from broker.config.settings import Settings
from broker.core.reasons import Reason
from broker.edge.access.listener import Listeners
from broker.edge.transport.proxy import SIGNATURE, BadHeader, parse_block, parse_line, read_header
from tests.harness.secrets import self_signed
from tests.harness.shells import OFF, Edge, both_loops, closed, listening, run
from tests.harness.waiting import eventually

V1 = b"PROXY TCP4 192.0.2.7 10.0.0.1 51234 61613\r\n"


def v2(command: int = 1, family: int = 1, body: bytes | None = None, transport: int = 1, version: int = 2) -> bytes:
    if body is None:
        hosts = ("192.0.2.7", "10.0.0.1") if family == 1 else ("2001:db8::7", "2001:db8::1")
        body = b"".join(ip_address(host).packed for host in hosts) + struct.pack("!HH", 51234, 61613)
    return SIGNATURE + bytes([version << 4 | command, family << 4 | transport]) + struct.pack("!H", len(body)) + body


@pytest.mark.parametrize(
    ("line", "peer"),
    [
        (V1, "192.0.2.7:51234"),
        (b"PROXY TCP6 2001:db8::7 ::1 1 65535\r\n", "[2001:db8::7]:1"),
        (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", "192.0.2.7:1"),
        (b"PROXY UNKNOWN\r\n", ""),
        (b"PROXY UNKNOWN ffff:: ffff:: 65535 65535\r\n", ""),
    ],
)
def test_lines_of_version_1(line, peer):
    assert parse_line(line) == peer


@pytest.mark.parametrize(
    "line",
    [
        b"PROXY TCP4 192.0.2.7 10.0.0.1 51234 61613\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 51234\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 51234 61613 x\r\n",
        b"PROXY TCP4  192.0.2.7 10.0.0.1 51234 61613\r\n",
        b"PROXY TCP4 ::1 10.0.0.1 51234 61613\r\n",
        b"PROXY TCP6 192.0.2.7 10.0.0.1 51234 61613\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 65536 61613\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 -1 61613\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 01 61613\r\n",
        b"PROXY TCP4 192.0.2.07 10.0.0.1 1 61613\r\n",
        b"PROXY TCP6 fe80::1%eth0 ::1 1 61613\r\n",
        b"PROXY UDP4 192.0.2.7 10.0.0.1 1 61613\r\n",
        b"PROXY\r\n",
        b"proxy UNKNOWN\r\n",
        b"PROXY UNKNOWN " + b"x" * 100 + b"\r\n",
        "PROXY TCP4 192.0.2.٧ 10.0.0.1 1 2\r\n".encode(),
    ],
)
def test_lines_that_are_no_headers(line):
    with pytest.raises(BadHeader):
        parse_line(line)


@pytest.mark.parametrize(
    ("header", "peer"),
    [
        (v2(), "192.0.2.7:51234"),
        (v2(family=2), "[2001:db8::7]:51234"),
        (v2(body=v2()[16:] + b"\x04\x00\x03abc"), "192.0.2.7:51234"),
        (v2(command=0, family=0, body=b"", transport=0), ""),
        (v2(family=3, body=b"x" * 216), ""),
    ],
    ids=["ipv4", "ipv6", "tlv", "local", "unix"],
)
def test_blocks_of_version_2(header, peer):
    assert parse_block(header[:16], header[16:]) == peer


@pytest.mark.parametrize(
    "header", [v2(version=1), v2(command=2), v2(transport=2), v2(body=b"x" * 11), v2(family=2, body=b"x" * 35)]
)
def test_blocks_that_are_no_headers(header):
    with pytest.raises(BadHeader):
        parse_block(header[:16], header[16:])


async def taken(pieces: list[bytes]) -> tuple[str | None, bytes]:
    """What read_header says of these bytes, and what it leaves in the socket."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        reading = asyncio.ensure_future(read_header(asyncio.get_running_loop(), ours))
        for piece in pieces:
            theirs.send(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
        theirs.shutdown(socket.SHUT_WR)
        peer = await reading
        return peer, await asyncio.get_running_loop().sock_recv(ours, 1000)


@both_loops
def test_exactly_the_header_is_taken_however_it_is_cut(kind: str) -> None:
    async def main() -> None:
        rng = random.Random(7)
        for header, peer in ((V1, "192.0.2.7:51234"), (v2(), "192.0.2.7:51234"), (b"PROXY UNKNOWN\r\n", "")):
            whole = header + b"CONNECT\n"
            assert await taken([whole]) == (peer, b"CONNECT\n")
            for _ in range(5):
                cuts = sorted(rng.sample(range(1, len(whole)), 3))
                pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
                assert await taken(pieces) == (peer, b"CONNECT\n")
        assert await taken([]) == (None, b"")

    run(kind, main())


@both_loops
def test_garbage_ends_in_a_refusal_and_nothing_else(kind: str) -> None:
    async def main() -> None:
        rng = random.Random(11)
        for sample in (
            b"CONNECT\naccept-version:1.2\n\n\0",
            b"PROXY",
            b"PROXY TCP4 1.2.3.4",
            b"\x16\x03\x01" * 20,
            SIGNATURE,
            v2()[:-1],
            v2(command=0, body=b"x" * len(SIGNATURE))[:16],
            SIGNATURE + b"\x21\x11\xff\xff" + b"x" * 99,
            b"PROXY " + b"a" * 500,
            *(rng.randbytes(60) for _ in range(20)),
            *(b"PROXY " + rng.randbytes(60) for _ in range(20)),
        ):
            with pytest.raises(BadHeader):
                await taken([sample])

    run(kind, main())  # fmt: skip


def behind(**more: Any) -> Settings:
    return Settings(edge=OFF, acceptors={"lb": {"port": 0, "proxy_protocol": True, **more}})


@both_loops
def test_the_client_behind_the_balancer_is_the_peer(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, behind(transport="stomp")) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["lb"])
            writer.write(V1 + b"hello")
            assert await reader.readexactly(5) == b"hello"
            session = await edge.sessions.get()
            assert (session.channel.peer, session.channel.transport_name) == ("192.0.2.7:51234", "lb")
            await closed(writer)
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["lb"])
            writer.write(v2(command=0, family=0, body=b"", transport=0) + b"probe")
            assert await reader.readexactly(5) == b"probe"
            assert (await edge.sessions.get()).channel.peer.startswith("127.0.0.1:")
            await closed(writer)

    run(kind, main())


@both_loops
@pytest.mark.parametrize(("sources", "believed"), [("10.0.0.0/8, 127.0.0.1", True), ("10.0.0.0/8, ::1", False)])
def test_only_headers_of_the_balancers_count(kind: str, sources: str, believed: bool) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, behind(transport="stomp", proxy_sources=sources)) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["lb"])
            writer.write(V1 + b"hello")
            with contextlib.suppress(ConnectionResetError):  # what it said was not read
                assert await reader.read(5) == (b"hello" if believed else b"")
            assert len(edge.opened) == believed
            assert listeners._handshakes.failed[Reason.PROXY_FAILED] == (not believed)
            await closed(writer)

    run(kind, main())


@pytest.mark.parametrize(("host", "sources", "warned"), [("", "", 1), ("", "10.0.0.0/8", 0), ("127.0.0.1", "", 0)])
def test_headers_of_anybody_are_warned_of(host: str, sources: str, warned: int, caplog: Any) -> None:
    async def main() -> None:
        settings = behind(host=host, proxy_sources=sources)
        listeners = Listeners(Edge(), settings, asyncio.get_running_loop(), "")
        await listeners.start()
        await listeners.close()

    run("stdlib", main())
    assert caplog.text.count("acceptors.lb.proxy_sources") == warned


@both_loops
def test_tls_comes_behind_the_header(kind: str, tmp_path: Any) -> None:
    import ssl

    cert, key = self_signed(tmp_path)

    async def main() -> None:
        edge = Edge()
        settings = behind(tls=True, tls_cert_file=str(cert), tls_key_file=str(key))
        async with listening(edge, settings) as listeners:
            loop = asyncio.get_running_loop()
            sock = socket.create_connection(("127.0.0.1", listeners.ports["lb"]))
            sock.setblocking(False)
            await loop.sock_sendall(sock, v2(family=2))
            trusting = ssl.create_default_context(cafile=str(cert))
            reader, writer = await asyncio.open_connection(sock=sock, ssl=trusting, server_hostname="localhost")
            writer.write(b"through")
            assert await reader.readexactly(7) == b"through"
            assert (await edge.sessions.get()).channel.peer == "[2001:db8::7]:51234"
            await closed(writer)

    run(kind, main())


@both_loops
def test_who_sends_no_header_is_counted_and_never_becomes_a_connection(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, behind(handshake_timeout_s=0.2)) as listeners:
            failed = listeners._handshakes.failed
            for said in (b"CONNECT\n\n\0     ", b""):
                reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["lb"])
                writer.write(said)
                with contextlib.suppress(ConnectionResetError):  # what it said was not read
                    assert await reader.read() == b""
                await closed(writer)
            await eventually(lambda: failed[Reason.PROXY_FAILED] == 2)
            _, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["lb"])
            await closed(writer)  # a health check
            await eventually(lambda: not listeners._handshakes._under_way)
            assert failed[Reason.PROXY_FAILED] == 2
            assert edge.opened == []
            families = {metric.name: metric.samples for metric in listeners.metrics()}
            assert families["stomp_proxy_headers_failed_total"] == [({"reason": "proxy_failed"}, 2.0)]

    run(kind, main())
