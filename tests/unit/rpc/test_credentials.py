"""Mutual TLS between components: who is let in, what rotates, what is refused at start."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker.config.settings import ClusterSettings
from broker.core.errors import ConfigError
from broker.rpc import credentials
from broker.rpc.credentials import Credentials
from broker.rpc.dialer import GrpcDialer
from broker.rpc.peer_certificate import certificate_of
from broker.rpc.server import GrpcServer
from broker.seams import watched_files
from broker.seams.stream import EndKind
from tests.abuse.certificates import authority, issued, revocations
from tests.harness import free_ports
from tests.harness.secrets import self_signed
from tests.harness.waiting import eventually
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


DOMAIN = "stampede.internal"


@pytest.fixture(scope="module")
def roles(tmp_path_factory):
    """Pairs of one authority: an owner, an edge, one edge by name, and somebody without a role."""
    folder = tmp_path_factory.mktemp("roles")
    self_signed(folder, "probe")
    ca = authority(folder, "ca")
    names = {
        "owner": ("owner.stampede.internal",), "edge": ("edge.stampede.internal",),
        "edge-1": ("edge-1.edge.Stampede.internal",), "none": (), "odd": ("owner.stampede.internal.evil.org",),
    }  # fmt: skip
    return {"folder": folder, "authority": ca, "ca": ca[0]} | {
        who: issued(folder, who, ca, names=its) for who, its in names.items()
    }


def as_(roles, who: str, **more: str) -> ClusterSettings:
    return replace(tls(roles["ca"], roles[who]), role_domain=DOMAIN, **more)


@pytest.mark.parametrize(
    ("who", "service", "why"),
    [
        ("edge", "edge", ""), ("edge-1", "edge", ""), ("owner", "replica", ""),
        ("edge", "replica", "not that of an owner"), ("edge-1", "replica", "not that of an owner"),
        ("owner", "edge", "not that of an edge"), ("none", "edge", "not that of an edge"),
        ("odd", "replica", "not that of an owner"),
    ],
)  # fmt: skip
async def test_who_calls_is_asked_for_his_role(roles, who, service, why):
    server, doors, address = await serving(as_(roles, "owner"))
    dialer = GrpcDialer(as_(roles, who), asyncio.get_running_loop())

    def dialled() -> End:
        end = End()
        dialer.dial(address, service, end).send(b"let me in")
        return end

    end = dialled()
    if why:
        # gRPC says so of a call whose write has met its end before the status did; who dials does so again.
        while "Internal error from Core" in await end.end():
            end = dialled()
        assert why in await end.end()
        assert end.kinds == [EndKind.FOREIGN] and not doors.ends
    else:
        await eventually(lambda: doors.ends)
        assert doors.ends[0].stream.names == (frozenset({"edge-1"}) if who == "edge-1" else frozenset())
    await dialer.close()
    await server.stop()


@pytest.mark.parametrize("who", ["edge", "none"])
async def test_who_is_called_is_asked_for_his_role_too(roles, who):
    server, doors, address = await serving(as_(roles, who))
    assert (await outcome(as_(roles, "edge"), address)).startswith(("lost", "unreachable"))
    assert not doors.ends
    await server.stop()


async def test_a_certificate_that_is_revoked_loses_what_is_open_and_comes_in_no_more(roles, monkeypatch):
    monkeypatch.setattr("broker.rpc.credentials.LOOK_S", 0.05)
    folder, ca = roles["folder"], roles["authority"]
    crl = revocations(folder, ca)
    server, doors, address = await serving(as_(roles, "owner", crl_file=str(crl)))
    dialer = GrpcDialer(as_(roles, "edge"), asyncio.get_running_loop())
    other = GrpcDialer(as_(roles, "edge-1"), asyncio.get_running_loop())
    mine, end = End(), End()
    dialer.dial(address, "edge", mine).send(b"1")
    other.dial(address, "edge", end).send(b"2")
    await eventually(lambda: len(doors.ends) == 2)
    revocations(folder, ca, roles["edge"][0])
    await mine.end()
    assert "revoked" in await outcome(as_(roles, "edge"), address)
    crl.write_text("no list")
    await asyncio.sleep(0.2)
    assert "revoked" in await outcome(as_(roles, "edge"), address)
    assert not end.closed
    await dialer.close()
    await other.close()
    await server.stop()


async def test_who_is_dialled_loses_what_is_open_when_its_certificate_is_revoked_and_is_dialled_in_vain(
    roles, monkeypatch
):
    monkeypatch.setattr("broker.rpc.credentials.LOOK_S", 0.05)
    folder, ca = roles["folder"], roles["authority"]
    lost = issued(folder, "owner-lost", ca, names=("owner.stampede.internal",))
    crl = revocations(folder, ca)
    stolen, its, there = await serving(replace(tls(ca[0], lost), role_domain=DOMAIN))
    good, doors, here = await serving(as_(roles, "owner"))
    dialer = GrpcDialer(as_(roles, "edge", crl_file=str(crl)), asyncio.get_running_loop())
    mine, its_end = await joined(dialer, its, there)
    other, _ = await joined(dialer, doors, here)
    mine.stream.send(b"x" * 300_000)
    await its_end.until(lambda end: end.messages)
    revocations(folder, ca, lost[0])
    assert "revoked" in await mine.end()
    again = End()
    dialer.dial(there, "edge", again).send(b"let me in")
    assert "revoked" in await again.end() and again.kinds == [EndKind.LOST]
    assert len(its.ends) == 1 and not other.closed
    third, at_door = await joined(dialer, doors, here)
    at_door.stream.send(b"as before")
    await third.until(lambda end: end.messages == [b"as before"])
    await dialer.close()
    await good.stop()
    await stolen.stop()


async def test_who_shows_a_good_certificate_and_answers_with_another_is_not_spoken_to(roles, monkeypatch):
    """Somebody on the way who has a key whose certificate is revoked, and lets our look at it through to the owner."""
    folder, ca = roles["folder"], roles["authority"]
    lost = issued(folder, "owner-between", ca, names=("owner.stampede.internal",))
    crl = revocations(folder, ca, lost[0])
    stolen, its, there = await serving(replace(tls(ca[0], lost), role_domain=DOMAIN))
    good, _, here = await serving(as_(roles, "owner"))

    async def looked_elsewhere(address: str, context: ssl.SSLContext) -> bytes:
        return await certificate_of(here, context)

    monkeypatch.setattr("broker.rpc.dialer.certificate_of", looked_elsewhere)
    assert (await outcome(as_(roles, "edge", crl_file=str(crl)), there)).startswith(("lost", "unreachable"))
    assert not its.ends
    await good.stop()
    await stolen.stop()


async def test_with_a_list_of_revoked_certificates_a_dial_ends_as_it_does_without_one(roles):
    crl = revocations(roles["folder"], roles["authority"])
    (port,) = free_ports(1)
    dialer, end = GrpcDialer(as_(roles, "edge", crl_file=str(crl)), asyncio.get_running_loop()), End()
    dialer.dial(f"localhost:{port}", "edge", end)
    await end.end()
    assert end.kinds == [EndKind.REFUSED]
    aborted, silent = End(), socket.create_server(("127.0.0.1", 0))  # the kernel takes connections, and nobody speaks
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    stream = dialer.dial(address, "edge", aborted)
    stream.send(b"nobody listens")
    await asyncio.sleep(0)
    stream.abort("given up", EndKind.UNREACHED)
    assert await aborted.end() == "given up" and aborted.kinds == [EndKind.UNREACHED]
    late = End()
    dialer.dial(address, "edge", late)
    await dialer.close()
    assert late.closed == ["stopping"]
    silent.close()


async def test_whose_own_certificate_is_revoked_says_so_until_it_has_another(roles, tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "LOOK_S", 0.05)
    folder, ca = roles["folder"], roles["authority"]
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(pair: tuple[Path, Path]) -> None:
        for source, target in zip(pair, (cert, key), strict=True):
            (tmp_path / "new").write_bytes(source.read_bytes())
            os.replace(tmp_path / "new", target)

    own = issued(folder, "owner-own", ca, names=("owner.stampede.internal",))
    install(own)
    crl = revocations(folder, ca)
    settings = replace(tls(ca[0], (cert, key)), crl_file=str(crl))
    server, looks = GrpcServer(settings, Doors()), Credentials(settings).looking()
    address = f"localhost:{await server.start()}"
    assert (await certificate_of(address, looks)).split() == cert.read_bytes().split()
    loop = asyncio.get_running_loop()
    dialer, plain = GrpcDialer(settings, loop), GrpcDialer(ClusterSettings(), loop)
    assert dialer.revoked() == plain.revoked() == ""
    threads: set[int] = set()
    revocations(folder, ca, cert)
    monkeypatch.setattr(watched_files, "fingerprint", _noting(threads, watched_files.fingerprint))
    await eventually(lambda: "cluster.cert_file" in dialer.revoked())
    assert threads and threading.get_ident() not in threads, "files are looked at while the loop goes on"
    assert "cluster.cert_file" in GrpcDialer(settings, loop).revoked(), "from the start"
    crl.write_bytes(b"torn")
    install(roles["owner"])
    await eventually(lambda: dialer.revoked() == "")
    crl.unlink()
    install(own)
    await eventually(lambda: "cluster.cert_file" in dialer.revoked())  # a list that is gone is the one of before
    install(roles["owner"])
    await eventually(lambda: dialer.revoked() == "")
    # It was seen by that question first; the port shows it all the same, if not in the handshake during that look.
    for _ in range(200):
        shown = await certificate_of(address, looks)
        if shown.split() == cert.read_bytes().split():
            break
        await asyncio.sleep(0.05)
    assert shown.split() == cert.read_bytes().split()
    await dialer.close()
    await server.stop()


def _noting(threads: set[int], real: Any) -> Any:
    def noting(path: str) -> Any:
        threads.add(threading.get_ident())
        return real(path)

    return noting


async def test_the_look_at_a_certificate_and_the_call_have_one_bound_together(roles, monkeypatch):
    """It is counted from dial(): who is slow at the look and silent at the call is not waited for twice."""
    loop, ca = asyncio.get_running_loop(), roles["authority"]
    crl, begun = revocations(roles["folder"], ca), []
    server, doors, address = await serving(as_(roles, "owner"))
    dialer = GrpcDialer(as_(roles, "edge", crl_file=str(crl)), loop, dial_timeout_s=77)
    call_later = loop.call_later

    def counted(delay, *what, **more):
        handle = call_later(delay, *what, **more)
        begun.extend([handle] if delay == 77 else [])
        return handle

    async def slow(address: str, context: ssl.SSLContext) -> bytes:
        shown = await certificate_of(address, context)
        looked.append([handle.cancelled() for handle in begun])
        return shown

    looked: list[list[bool]] = []
    monkeypatch.setattr(loop, "call_later", counted)
    monkeypatch.setattr("broker.rpc.dialer.certificate_of", slow)
    mine, other = await joined(dialer, doors, address)
    other.stream.send(b"answered")
    await mine.until(lambda end: end.messages)
    await dialer.close()
    await server.stop()
    assert looked == [[False]] and [handle.cancelled() for handle in begun] == [True]


def test_roles_and_lists_without_tls_are_refused(roles):
    for more in ({"role_domain": DOMAIN}, {"crl_file": str(revocations(roles["folder"], roles["authority"]))}):
        with pytest.raises(ConfigError, match="need TLS"):
            GrpcServer(ClusterSettings(port=0, **more), Doors())
    with pytest.raises(ConfigError, match="crl_file"):
        GrpcServer(as_(roles, "owner", crl_file=str(roles["ca"])), Doors())
