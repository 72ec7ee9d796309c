"""TLS: both transports through it, certificates that rotate or break, handshakes that fail or never end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
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
            await eventually(lambda: listeners._handshakes.failed[Reason.TLS_FAILED] == 1)
            assert edge.sessions.empty()

    run(kind, main())


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
