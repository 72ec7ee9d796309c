"""Mutual TLS between components: who is let in, what rotates, what is refused at start."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from broker.config.settings import ClusterSettings
from broker.core.errors import ConfigError
from broker.rpc.dialer import GrpcDialer
from broker.rpc.server import GrpcServer
from tests.abuse.certificates import authority, issued
from tests.harness.secrets import self_signed
from tests.unit.rpc.stream_world import Doors, End, joined


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two authorities, and a pair of each for two components."""
    folder = tmp_path_factory.mktemp("pki")
    self_signed(folder, "probe")  # skips without openssl
    ours, theirs = authority(folder, "ours"), authority(folder, "theirs")
    return {
        "ca": ours[0], "other_ca": theirs[0],
        "a": issued(folder, "a", ours), "b": issued(folder, "b", ours), "stranger": issued(folder, "stranger", theirs),
    }  # fmt: skip


def tls(ca: Path, pair: tuple[Path, Path]) -> ClusterSettings:
    return ClusterSettings(port=0, ca_file=str(ca), cert_file=str(pair[0]), key_file=str(pair[1]))


async def serving(settings: ClusterSettings) -> tuple[GrpcServer, Doors, str]:
    doors = Doors()
    server = GrpcServer(settings, doors)
    return server, doors, f"localhost:{await server.start()}"


async def outcome(settings: ClusterSettings, address: str) -> str:
    """Why a dial of somebody who should not get in ended."""
    dialer = GrpcDialer(settings, asyncio.get_running_loop())
    end = End()
    dialer.dial(address, "edge", end).send(b"let me in")
    why = await end.end()
    await dialer.close()
    return why


async def test_only_components_of_this_authority_get_in(made):
    server, doors, address = await serving(tls(made["ca"], made["a"]))
    dialer = GrpcDialer(tls(made["ca"], made["b"]), asyncio.get_running_loop())
    innocent, other = await joined(dialer, doors, address)

    assert (await outcome(ClusterSettings(), address)).startswith(("lost", "unreachable"))  # plain text
    assert (await outcome(tls(made["ca"], made["stranger"]), address)).startswith(("lost", "unreachable"))
    assert (await outcome(tls(made["other_ca"], made["a"]), address)).startswith(("lost", "unreachable"))
    assert len(doors.ends) == 1

    innocent.stream.send(b"fine")
    await other.until(lambda end: end.messages == [b"fine"])
    await dialer.close()
    await server.stop()


async def test_rotated_files_are_taken_and_broken_ones_are_not(made, tmp_path, caplog):
    cert, key, ca = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem"

    def install(authority: Path, pair: tuple[Path, Path]) -> None:
        for source, target in ((pair[1], key), (pair[0], cert), (authority, ca)):
            (tmp_path / "new").write_bytes(source.read_bytes())
            os.replace(tmp_path / "new", target)

    install(made["ca"], made["a"])
    server, doors, address = await serving(tls(ca, (cert, key)))
    dialer = GrpcDialer(tls(ca, (cert, key)), asyncio.get_running_loop())
    old, _ = await joined(dialer, doors, address)

    cert.write_text("half a certificate")
    await joined(dialer, doors, address)
    assert "the old ones stay in use" in caplog.text

    install(made["other_ca"], made["stranger"])
    await joined(dialer, doors, address)
    await asyncio.sleep(0)
    assert (await outcome(tls(made["ca"], made["b"]), address)).startswith(("lost", "unreachable"))
    assert old.closed == [], "streams that are open keep what they began with"
    await dialer.close()
    await server.stop()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "broker.example"])
def test_without_tls_only_loopback(host):
    with pytest.raises(ConfigError, match=r"cluster\.ca_file, cluster\.cert_file, cluster\.key_file"):
        GrpcServer(ClusterSettings(host=host), Doors())


async def test_files_that_do_not_fit_are_named(made, tmp_path):
    with pytest.raises(ConfigError, match=r"set cluster\.ca_file, cluster\.key_file too"):
        GrpcServer(ClusterSettings(cert_file="cert.pem"), Doors())
    mixed = ClusterSettings(ca_file=str(made["ca"]), cert_file=str(made["a"][0]), key_file=str(made["b"][1]))
    with pytest.raises(ConfigError, match=r"check cluster\.ca_file"):
        GrpcDialer(mixed, asyncio.get_running_loop())
    missing = ClusterSettings(ca_file=str(tmp_path / "no"), cert_file=str(made["a"][0]), key_file=str(made["a"][1]))
    with pytest.raises(ConfigError, match="No such file"):
        GrpcServer(missing, Doors())
