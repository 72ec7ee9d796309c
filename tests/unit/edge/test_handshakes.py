"""TLS handshakes: bounded in time and number, the silent give way, and nothing behind them is lost."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from broker.config.settings import EdgeSettings
from broker.core.reasons import Reason
from broker.edge.transport import handshakes
from tests.harness.secrets import self_signed
from tests.harness.shells import OFF, Edge, both_loops, closed, listening, run
from tests.harness.waiting import eventually

Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    folder = tmp_path_factory.mktemp("pairs")
    return {name: self_signed(folder, name) for name in ("old", "new", "client")}


def serving(pair: Pair, **more: object) -> EdgeSettings:
    return replace(OFF, tls_port=0, tls_cert_file=str(pair[0]), tls_key_file=str(pair[1]), **more)


def trusting(pair: Pair) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(pair[0]))


@both_loops
def test_data_right_behind_the_handshake_is_not_lost(kind: str, pairs: dict[str, Pair]) -> None:
    """With TLS 1.3 the client's first frame comes in the same segment as its last handshake message."""

    async def main() -> None:
        edge = Edge()
        async with listening(edge, serving(pairs["old"])) as listeners:
            sock = socket.create_connection(("127.0.0.1", listeners.ports["tls"]))
            sock.setblocking(False)
            into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = trusting(pairs["old"]).wrap_bio(into, out, server_hostname="localhost")
            loop = asyncio.get_running_loop()
            with pytest.raises(ssl.SSLWantReadError):
                client.do_handshake()
            await loop.sock_sendall(sock, out.read())
            while True:
                into.write(await loop.sock_recv(sock, 65536))
                with contextlib.suppress(ssl.SSLWantReadError):
                    client.do_handshake()
                    break
            client.write(b"CONNECT\n\n\0")
            await loop.sock_sendall(sock, out.read())
            session = await edge.sessions.get()
            await eventually(lambda: session.data == b"CONNECT\n\n\0")
            sock.close()
            await session.over.wait()

    run(kind, main())


@both_loops
@pytest.mark.parametrize("hello", [b"CONNECT\naccept-version:1.2\n\n\0", b"GET / HTTP/1.1\r\n\r\n", b""])
def test_those_who_do_not_speak_tls_are_counted(
    kind: str, hello: bytes, pairs: dict[str, Pair], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    async def main() -> None:
        edge = Edge()
        async with listening(edge, serving(pairs["old"])) as listeners:
            _, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tls"])
            writer.write(hello)
            if not hello:
                writer.close()
            await eventually(lambda: listeners._handshakes.failed[Reason.TLS_FAILED])
            await closed(writer)
            families = {family.name: family.samples for family in listeners.metrics()}
            assert families["stomp_tls_handshakes_failed_total"] == [({"reason": "tls_failed"}, 1.0)]
            assert edge.sessions.empty()

    run(kind, main())
    assert caplog.messages[-1].startswith("127.0.0.1:")
    assert "tls_failed" in caplog.messages[-1]
    assert ("does not speak TLS" in caplog.text) == bool(hello)


@both_loops
def test_handshakes_that_never_end_are_bounded_in_time_and_number(
    kind: str, pairs: dict[str, Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "MAX_ARRIVALS", 2)

    async def main() -> None:
        settings = serving(pairs["old"], login_timeout_s=0.2)
        async with listening(Edge(), settings) as listeners:
            clients = [await asyncio.open_connection("127.0.0.1", listeners.ports["tls"]) for _ in range(3)]
            await eventually(lambda: listeners._handshakes.failed[Reason.TLS_FAILED] >= 1)  # at once
            assert len(listeners._handshakes._under_way) <= 2
            await eventually(lambda: listeners._handshakes.failed[Reason.TLS_FAILED] == 3)  # the others in time
            await eventually(lambda: not listeners._handshakes._under_way)  # counted a moment before its task ends
            for _, writer in clients:
                await closed(writer)

    run(kind, main())


@both_loops
def test_the_silent_give_way_to_who_speaks(
    kind: str, pairs: dict[str, Pair], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand connections without a byte closed the port, and all others of the kind."""
    caplog.set_level("INFO")
    monkeypatch.setattr(handshakes, "MAX_ARRIVALS", 3)

    async def main() -> None:
        edge = Edge()
        async with listening(edge, serving(pairs["old"], login_timeout_s=60)) as listeners:
            port = listeners.ports["tls"]
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(9)]
            _, writer = await asyncio.open_connection("localhost", port, ssl=trusting(pairs["old"]))
            session = await edge.sessions.get()
            await eventually(lambda: listeners._handshakes.failed[Reason.TLS_FAILED] == 7)
            assert await silent[0][0].read() == b"" and "gave way" in caplog.text
            await closed(writer)
            await session.over.wait()
            for _, other in silent:
                await closed(other)
            await eventually(lambda: not listeners._handshakes._under_way)
            assert (
                not listeners._handshakes._from
                and not listeners._handshakes._fresh
                and not listeners._handshakes._evicted
            )

    run(kind, main())


@both_loops
def test_an_address_has_no_more_under_way_than_it_may_have_open(kind: str, pairs: dict[str, Pair]) -> None:
    async def main() -> None:
        edge = Edge()
        edge.open_elsewhere = 2
        async with listening(edge, serving(pairs["old"], login_timeout_s=60, max_connections_per_ip=4)) as listeners:
            clients = [await asyncio.open_connection("127.0.0.1", listeners.ports["tls"]) for _ in range(5)]
            await eventually(lambda: listeners._handshakes.failed[Reason.TLS_FAILED] == 3)
            assert len(listeners._handshakes._under_way) == 2
            for _, writer in clients:
                await closed(writer)
            await eventually(lambda: not listeners._handshakes._under_way)

    run(kind, main())


@both_loops
def test_closing_ends_handshakes_under_way(kind: str, pairs: dict[str, Pair]) -> None:
    async def main() -> None:
        async with listening(Edge(), serving(pairs["old"], login_timeout_s=60)) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tls"])
            await eventually(lambda: listeners._handshakes._under_way)
            await listeners.close()
            with contextlib.suppress(OSError):
                assert await reader.read() == b""
            await closed(writer)

    run(kind, main())
