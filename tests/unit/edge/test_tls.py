"""TLS: both transports through it, certificates that rotate or break, handshakes that fail or never end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from broker.config.ports import edge_acceptors
from broker.config.settings import EdgeSettings, Settings
from broker.core.errors import ConfigError
from broker.core.reasons import Reason
from broker.edge.access.listener import Listeners
from broker.edge.transport import handshakes
from broker.edge.transport.tls import CertificateWatcher
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


def watching(pair: Pair) -> CertificateWatcher:
    return CertificateWatcher(edge_acceptors(serving(pair))["tls"], Loop(), 1.0, "edge")  # type: ignore[arg-type]


def served(watcher: CertificateWatcher) -> str:
    """Common name of the certificate that a new connection would see, by a handshake in memory."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = watcher.context.wrap_bio(a, b, server_side=True), client.wrap_bio(b, a)
    for _ in range(3):
        for side in (theirs, ours):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    der = theirs.getpeercert(binary_form=True)
    assert der is not None
    return next(name for name in ("old", "new") if name.encode() in der)


@both_loops
def test_stomp_and_websocket_work_through_tls(kind: str, pairs: dict[str, Pair]) -> None:
    async def main() -> None:
        edge = Edge()
        client = trusting(pairs["old"])
        async with listening(edge, serving(pairs["old"], wss_port=0)) as listeners:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", listeners.ports["tls"], ssl=client, server_hostname="localhost"
            )
            writer.write(b"x" * 300_000)
            assert await reader.readexactly(300_000) == b"x" * 300_000
            session = await edge.sessions.get()
            assert (session.channel.transport_name, session.channel.tls_subject) == ("tls", None)
            assert session.channel.peer == "{}:{}".format(*writer.get_extra_info("sockname"))
            session.channel.write(b"ERROR\n\n\0")
            session.channel.close(Reason.SHUTDOWN)
            assert await reader.read() == b"ERROR\n\n\0"
            await closed(writer)
            await session.over.wait()
            assert session.calls == ["lost"]
            async with connect(f"wss://localhost:{listeners.ports['wss']}", ssl=client) as websocket:
                await websocket.send("frame")
                assert await websocket.recv() == "frame"
                assert (await edge.sessions.get()).channel.transport_name == "wss"

    run(kind, main())


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
def test_a_client_certificate_is_asked_for_and_its_subject_known(kind: str, pairs: dict[str, Pair]) -> None:
    async def main() -> None:
        edge = Edge()
        settings = serving(pairs["old"], tls_client_ca_file=str(pairs["client"][0]))
        async with listening(edge, settings) as listeners:
            with_one, without = trusting(pairs["old"]), trusting(pairs["old"])
            with_one.load_cert_chain(*pairs["client"])
            where = ("localhost", listeners.ports["tls"])
            _, writer = await asyncio.open_connection(*where, ssl=with_one)
            session = await edge.sessions.get()
            assert session.channel.tls_subject == "CN=client"
            await closed(writer)
            reader, writer = await asyncio.open_connection(*where, ssl=without)
            with contextlib.suppress(OSError):
                assert await reader.read() == b""
            await closed(writer)
            await eventually(lambda: listeners._arrivals.failed[Reason.TLS_FAILED] == 1)
            assert edge.sessions.empty()

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
            await eventually(lambda: listeners._arrivals.failed[Reason.TLS_FAILED])
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
            await eventually(lambda: listeners._arrivals.failed[Reason.TLS_FAILED] >= 1)  # at once
            assert len(listeners._arrivals._under_way) <= 2
            await eventually(lambda: listeners._arrivals.failed[Reason.TLS_FAILED] == 3)  # the others in time
            await eventually(lambda: not listeners._arrivals._under_way)  # counted a moment before its task ends
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
            await eventually(lambda: listeners._arrivals.failed[Reason.TLS_FAILED] == 7)
            assert await silent[0][0].read() == b"" and "gave way" in caplog.text
            await closed(writer)
            await session.over.wait()
            for _, other in silent:
                await closed(other)
            await eventually(lambda: not listeners._arrivals._under_way)
            assert not listeners._arrivals._from and not listeners._arrivals._fresh and not listeners._arrivals._evicted

    run(kind, main())


@both_loops
def test_an_address_has_no_more_under_way_than_it_may_have_open(kind: str, pairs: dict[str, Pair]) -> None:
    async def main() -> None:
        edge = Edge()
        edge.open_elsewhere = 2
        async with listening(edge, serving(pairs["old"], login_timeout_s=60, max_connections_per_ip=4)) as listeners:
            clients = [await asyncio.open_connection("127.0.0.1", listeners.ports["tls"]) for _ in range(5)]
            await eventually(lambda: listeners._arrivals.failed[Reason.TLS_FAILED] == 3)
            assert len(listeners._arrivals._under_way) == 2
            for _, writer in clients:
                await closed(writer)
            await eventually(lambda: not listeners._arrivals._under_way)

    run(kind, main())


@both_loops
def test_closing_ends_handshakes_under_way(kind: str, pairs: dict[str, Pair]) -> None:
    async def main() -> None:
        async with listening(Edge(), serving(pairs["old"], login_timeout_s=60)) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tls"])
            await eventually(lambda: listeners._arrivals._under_way)
            await listeners.close()
            with contextlib.suppress(OSError):
                assert await reader.read() == b""
            await closed(writer)

    run(kind, main())


# Rotation


def put(pair: Pair, source: Pair) -> None:
    """As an operator does: one file after the other."""
    for target, origin in zip(pair, source, strict=True):
        shutil.copy(origin, target)


@pytest.fixture
def live(tmp_path: Path, pairs: dict[str, Pair]) -> Pair:
    pair = tmp_path / "tls.crt", tmp_path / "tls.key"
    put(pair, pairs["old"])
    return pair


class Loop:
    """Takes the watcher's timer and lets the test look."""

    def call_later(self, delay: float, callback: object, *args: object) -> Loop:
        return self

    def cancel(self) -> None:
        pass


def test_a_rotated_certificate_is_served_without_restart(
    live: Pair, pairs: dict[str, Pair], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    watcher = watching(live)
    before = watcher.context
    watcher.check()
    assert watcher.context is before
    assert served(watcher) == "old"
    put(live, pairs["new"])
    watcher.check()
    assert served(watcher) == "new"
    assert "reloaded" in caplog.text


def test_a_half_done_rotation_keeps_the_old_pair_and_is_logged_once(
    live: Pair, pairs: dict[str, Pair], caplog: pytest.LogCaptureFixture
) -> None:
    watcher = watching(live)
    shutil.copy(pairs["new"][0], live[0])  # the certificate has come, its key has not
    for _ in range(3):
        watcher.check()
    assert served(watcher) == "old"
    assert len(caplog.records) == 1
    shutil.copy(pairs["new"][1], live[1])
    watcher.check()
    assert served(watcher) == "new"


@pytest.mark.parametrize("damage", ["garbage", "missing", "empty"])
def test_a_broken_certificate_keeps_the_old_one(live: Pair, damage: str) -> None:
    watcher = watching(live)
    if damage == "missing":
        live[0].unlink()
    else:
        live[0].write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" * (damage == "garbage"))
    watcher.check()
    assert served(watcher) == "old"


@both_loops
def test_the_files_are_looked_at_by_themselves(kind: str, live: Pair, pairs: dict[str, Pair]) -> None:
    async def main() -> None:
        async with listening(Edge(), serving(live, tls_reload_s=0.02)) as listeners:
            put(live, pairs["new"])
            await eventually(lambda: served(listeners.certificates["[edge]"]) == "new")
            _, writer = await asyncio.open_connection("localhost", listeners.ports["tls"], ssl=trusting(pairs["new"]))
            await closed(writer)

    run(kind, main())


def test_unusable_files_at_the_start_name_the_settings(live: Pair, pairs: dict[str, Pair]) -> None:
    shutil.copy(pairs["new"][1], live[1])
    with pytest.raises(ConfigError, match=r"edge\.tls_cert_file, edge\.tls_key_file"):
        watching(live)

    async def main() -> None:
        listeners = Listeners(Edge(), Settings(edge=serving(live, port=0)), asyncio.get_running_loop(), "127.0.0.1")
        with pytest.raises(ConfigError):
            await listeners.start()
        assert listeners.ports == {}

    run("stdlib", main())


def test_the_end_of_the_certificate_is_known(live: Pair) -> None:
    watcher = watching(live)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(str(live[0]))
    (decoded,) = client.get_ca_certs()
    assert watcher.not_after == ssl.cert_time_to_seconds(decoded["notAfter"])


def test_old_tls_is_refused(live: Pair) -> None:
    watcher = watching(live)
    assert watcher.context.minimum_version is ssl.TLSVersion.TLSv1_2


# Small parsers
