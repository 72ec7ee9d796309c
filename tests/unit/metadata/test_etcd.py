"""The etcd client where only etcd can show it: several members, logins, TLS, idleness while it is down."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import shutil
import socket
import time
import urllib.request
from dataclasses import replace

import grpc.aio
import pytest

from broker.config.settings import EtcdSettings
from broker.core.errors import ConfigError
from broker.metadata.etcd import EtcdMetadata
from broker.metadata.etcd_calls import EtcdCalls, EtcdConnection
from broker.metadata.port import MetadataRefused, MetadataUnavailable, Put
from broker.seams.clock import SystemClock
from broker.seams.loop_watchdog import Steps
from tests.abuse.certificates import authority, issued
from tests.harness.secrets import self_signed
from tests.harness.servers import Server, local_etcd
from tests.unit.metadata.test_port import take

SETTINGS = EtcdSettings(timeout_s=2.0)


def to(*servers: Server, **more: object) -> EtcdSettings:
    return replace(SETTINGS, endpoints=", ".join(server.address for server in servers), **more)


@pytest.fixture
def three(tmp_path):
    """One etcd of three members."""
    members = local_etcd(tmp_path, 3)
    for member in members:
        member.launch()
    for member in members:
        member.wait()
    yield members
    for member in members:
        member.stop()


async def test_an_etcd_that_has_lost_its_data_is_noticed_with_the_first_answer(tmp_path, caplog):
    """Watches of it are silent: they wait for a revision that is yet to come."""
    (etcd,) = local_etcd(tmp_path)
    etcd.start()
    client = EtcdMetadata(to(etcd, timeout_s=20.0))
    try:
        for n in range(5):
            await asyncio.gather(client.put("/a", b"%d" % n), client.get("/a"), client.get("/b"))
        etcd.kill()
        etcd.start()
        assert await client.get("/a") is not None and client.rewound == ""
        etcd.kill()
        shutil.rmtree(etcd.line[etcd.line.index("--data-dir") + 1])
        etcd.start()
        assert await client.get("/a") is None
        assert "it was at revision 6 and is at 1" in client.rewound
        assert caplog.text.count("Restart no owner") == 1
    finally:
        await client.close()
        etcd.stop()


@pytest.mark.parametrize("fault", ["kill", "pause"])
async def test_any_member_may_go(three, fault):
    client = EtcdMetadata(to(*three))
    revision = await client.put("/a", b"0")
    lease = await client.grant(20)  # longer than an election may take on a busy machine
    watching = client.watch("/", revision + 1)
    for n, member in enumerate(three):
        getattr(member, fault)()
        begun = time.monotonic()
        while True:
            try:
                if (kv := await client.get("/a")) is not None and kv.value != b"%d" % n:
                    break
                await client.put("/a", b"%d" % (n + 1))
            except MetadataUnavailable:
                pass  # it was the member we talked to; of a write nobody knows
        assert time.monotonic() - begun < 15
        while (await take(watching, 1))[-1].value != b"%d" % (n + 1):
            pass
        await asyncio.to_thread(member.start if fault == "kill" else member.resume)
    assert lease.remaining > 0
    await watching.aclose()
    await client.close()


async def test_while_it_is_down_nothing_spins_and_it_is_said_once(own_etcd, caplog, monkeypatch):
    calls: list[str] = []

    def count(name: str) -> None:
        original = getattr(EtcdCalls, name)
        monkeypatch.setattr(EtcdCalls, name, lambda *arguments: calls.append(name) or original(*arguments))

    count("_open")
    count("connected")
    client = EtcdMetadata(replace(to(own_etcd), timeout_s=0.3))
    revision = await client.put("/a", b"0")
    watchers = [asyncio.create_task(take(client.watch("/", revision + 1), 1, 30)) for _ in range(5)]
    await asyncio.sleep(0.1)
    with caplog.at_level(logging.INFO, "stampede.metadata"):
        own_etcd.kill()
        with pytest.raises(MetadataUnavailable, match="no answer"):
            await client.get("/a")
        calls.clear()
        await asyncio.sleep(2)
        # 0.05 s between the first two attempts and twice as much from one to the next, whoever waits for them.
        assert 1 <= calls.count("_open") <= 7
        assert calls.count("connected") <= len(watchers)
        await asyncio.to_thread(own_etcd.start)
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                await client.put("/a", b"1")
                break
            except MetadataUnavailable:
                continue
        await asyncio.gather(*watchers)
    assert caplog.text.count("does not answer, trying again") == 1
    assert caplog.text.count("answers again") == 1
    await client.close()


def ask(server: Server, path: str, **body: object) -> None:
    """etcd's JSON gateway, for what only an administrator does."""
    token = body.pop("token", "")
    request = urllib.request.Request(f"http://{server.address}/v3/auth/{path}", json.dumps(body).encode())
    if token:
        request.add_header("Authorization", str(token))
    urllib.request.urlopen(request, timeout=5).close()


@pytest.fixture
def guarded(own_etcd):
    """An etcd with the users root and broker (passwords: theirs + "-secret"); broker may use /ours/ only."""
    for name in ("root", "broker"):
        ask(own_etcd, "user/add", name=name, password=f"{name}-secret")
        ask(own_etcd, "role/add", name=name)
        ask(own_etcd, "user/grant", user=name, role=name)
    key, end = (base64.b64encode(part).decode() for part in (b"/ours/", b"/ours0"))
    ask(own_etcd, "role/grant", name="broker", perm={"permType": "READWRITE", "key": key, "range_end": end})
    ask(own_etcd, "enable")
    return own_etcd


def password(folder, text: str) -> str:
    (folder / "password").write_text(text + "\n")
    return str(folder / "password")


async def test_a_user_is_logged_in_and_again_when_the_token_is_gone(guarded, tmp_path):
    client = EtcdMetadata(to(guarded, user="broker", password_file=password(tmp_path, "broker-secret")))
    revision = await client.put("/ours/a", b"0")
    watching = client.watch("/ours/", revision + 1)
    await client.put("/ours/a", b"1")
    assert (await take(watching, 1))[0].value == b"1"
    guarded.kill()  # tokens are in its memory
    await asyncio.to_thread(guarded.start)
    assert (await client.get("/ours/a")).value == b"1"
    await client.put("/ours/a", b"2")
    assert (await take(watching, 1))[0].value == b"2"
    with pytest.raises(MetadataRefused, match="permission denied"):
        await client.put("/theirs/a", b"0")
    with pytest.raises(MetadataRefused, match="permission denied"):
        await take(client.watch("/theirs/", 1), 1)
    await watching.aclose()
    await client.close()


async def test_a_wrong_login_is_refused_by_name_and_may_be_repaired(guarded, tmp_path):
    stranger = EtcdMetadata(to(guarded))
    with pytest.raises(MetadataRefused, match=r"set etcd\.user"):
        await stranger.put("/ours/a", b"0")
    await stranger.close()
    wrong = EtcdMetadata(to(guarded, user="broker", password_file=password(tmp_path, "guess")))
    begun = time.monotonic()
    with pytest.raises(MetadataRefused, match=r"check etcd\.user \(broker\) and etcd\.password_file"):
        await wrong.put("/ours/a", b"0")
    assert time.monotonic() - begun < 1.8  # not after timeout_s
    password(tmp_path, "broker-secret")
    async with asyncio.timeout(5):
        while True:
            try:
                await wrong.put("/ours/a", b"0")
                break
            except MetadataRefused:
                await asyncio.sleep(0.1)
    await wrong.close()


async def test_a_user_is_no_harm_where_nobody_asks(etcd, tmp_path):
    client = EtcdMetadata(to(etcd, user="broker", password_file=password(tmp_path, "x")))
    assert await client.put("/test/user", b"0")
    await client.close()


async def test_tls_both_ways(tmp_path):
    self_signed(tmp_path, "probe")  # skips without openssl
    ca = authority(tmp_path, "ca")
    server, ours = issued(tmp_path, "server", ca), issued(tmp_path, "ours", ca)
    flags = ["--cert-file", server[0], "--key-file", server[1], "--client-cert-auth", "--trusted-ca-file", ca[0]]
    (member,) = local_etcd(tmp_path / "data", 1, *flags, scheme="https")
    member.start()
    files = {"ca_file": str(ca[0]), "cert_file": str(ours[0]), "key_file": str(ours[1])}
    try:
        client = EtcdMetadata(to(member, **files))
        assert await client.commit([("/a", 0)], [Put("/a", b"1")]) > 0
        await client.close()
        for less in ({}, {"ca_file": files["ca_file"]}):
            stranger = EtcdMetadata(replace(to(member, **less), timeout_s=0.5))
            with pytest.raises(MetadataUnavailable):
                await stranger.get("/a")
            await stranger.close()
    finally:
        member.stop()


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"endpoints": " , "}, r"etcd\.endpoints"),
        ({"user": "broker"}, r"etcd\.password_file"),
        ({"cert_file": "c", "key_file": "k"}, r"etcd\.ca_file"),
        ({"ca_file": "/none/ca.pem"}, "/none/ca.pem"),
        ({"user": "broker", "password_file": "/none/password"}, "/none/password"),
    ],
)
def test_settings_that_cannot_work_are_named(wrong, named):
    with pytest.raises(ConfigError, match=named):
        EtcdMetadata(replace(SETTINGS, **wrong))


async def test_closing_ends_who_waits():
    client = EtcdMetadata(replace(SETTINGS, endpoints="127.0.0.1:1", timeout_s=30))
    asking = asyncio.create_task(client.get("/a"))
    await asyncio.sleep(0.1)
    await client.close()
    with pytest.raises(MetadataUnavailable, match="closed"):
        await asyncio.wait_for(asking, 10)


async def test_a_watch_whose_connection_is_given_up_before_its_request_has_left_goes_on_with_another(etcd):
    """gRPC's write() never returns then: a chaos run had an owner that followed no key any more, and led 85 slots
    without knowing it."""
    client = EtcdMetadata(to(etcd))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        connection = client._calls._current = EtcdConnection(endpoint, grpc.aio.insecure_channel(endpoint))
        watching = client.watch("/given-up/", 1)
        first = asyncio.create_task(take(watching, 1, timeout=20.0))
        await asyncio.sleep(0.2)
        client._calls.broken(connection)
        await client.put("/given-up/a", b"1")
        assert [change.value for change in await first] == [b"1"]
    await watching.aclose()
    await client.close()


async def test_what_is_done_with_an_answer_of_a_watch_is_measured(etcd, caplog):
    """A step of the loop like any other (docs/adr/0009): a copy of 10,000 keys that changes may be a long one."""
    watches = Steps(SystemClock(), lambda: 0.0).kind("watch")
    client = EtcdMetadata(to(etcd), watches=watches)
    watch = client.watch("/measured", 1)
    try:
        seen = asyncio.ensure_future(anext(watch))
        await client.put("/measured/a", b"1")
        assert [change.key for change in await seen] == ["/measured/a"]
        time.sleep(0.06)  # noqa: ASYNC251  that is a step of 60 ms
        seen = asyncio.ensure_future(anext(watch))
        await client.put("/measured/b", b"2")
        await seen
        assert watches.slow == 1 and "a watch took" in caplog.text and "1 changes below /measured" in caplog.text
    finally:
        await watch.aclose()
        await client.close()
