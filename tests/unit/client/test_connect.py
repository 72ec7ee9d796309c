"""connect(): what CONNECT carries, and everything wrong with it told before or at the login."""

from __future__ import annotations

import asyncio

import pytest

from broker.client import ConnectFailed, ConnectionLost, ServerError, connect
from broker.client.errors import ClientError
from tests.harness.fake_server import FakeServer


async def test_connect_sends_what_it_was_given_and_disconnects():
    async with FakeServer() as server:
        url = server.url.replace("//", "//us%3Aer:pass@")
        async with connect(url, client_id="me", heartbeat=(5000, 6000), headers={"x": "y"}) as client:
            assert (client.version.value, client.server, client.session) == ("1.2", "Fake/1", "7")
        (headers, _), *_ = server.frames("CONNECT")
        assert headers["login"] == "us:er" and headers["passcode"] == "pass"
        assert (headers["client-id"], headers["heart-beat"], headers["x"]) == ("me", "5000,6000", "y")
        assert headers["accept-version"] == "1.2" and headers["host"] == "127.0.0.1"
        assert len(server.frames("DISCONNECT")) == 1


async def test_await_connect_and_close():
    async with FakeServer() as server:
        client = await connect(server.url)
        await client.close()
        await client.close()
        with pytest.raises(ConnectionLost):
            await client.send("/queue/a", b"x")


async def test_nobody_listens():
    async with FakeServer() as server:
        url = server.url
    with pytest.raises(ConnectFailed, match=r"refused; is a broker running"):
        await connect(url)


async def test_login_refused_is_a_server_error():
    async with FakeServer() as server:
        server.refuse.add("CONNECT")
        with pytest.raises(ServerError) as caught:
            await connect(server.url)
        assert (caught.value.code, caught.value.message, caught.value.body) == (1203, "refused", "do something else")


async def test_no_connected_in_time():
    async with FakeServer() as server:
        server.accept = False
        with pytest.raises(ConnectFailed, match="no STOMP CONNECTED"):
            await connect(server.url, timeout=0.05)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"version": "1.3"}, "none of 1.2, 1.1, 1.0"),
        ({"heartbeat": (-1, 0)}, "cannot be negative"),
        ({"client_id": "a\nb"}, "line breaks"),
        ({"headers": {"x\r": "y"}}, "line breaks"),
        ({"vhost": "\0"}, "line breaks"),
    ],
)
def test_wrong_arguments_are_told_before_a_socket_is_opened(options, why):
    with pytest.raises(ClientError, match=why):
        connect("stomp://127.0.0.1:1", **options)


async def test_version_1_0_has_no_heart_beats_and_the_host_can_be_said():
    async with FakeServer() as server:
        async with connect(server.url, version="1.0", heartbeat=(5, 5), vhost="", headers={"a": "b"}):
            pass
        ((headers, _),) = server.frames("CONNECT")
        assert headers == {"accept-version": "1.0", "host": "", "a": "b"}


async def test_a_login_that_fails_leaves_no_connection_behind():
    async with FakeServer() as server:
        server.refuse.add("CONNECT")
        before = asyncio.all_tasks()
        with pytest.raises(ServerError):
            await connect(server.url)
        await asyncio.sleep(0)
        assert {task for task in asyncio.all_tasks() - before if "Client" in repr(task.get_coro())} == set()
