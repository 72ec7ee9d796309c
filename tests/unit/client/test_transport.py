"""The same client over TLS and WebSocket."""

import ssl

import pytest

from broker.client import ClientError, ConnectFailed, connect
from tests.harness.fake_server import FakeServer
from tests.harness.secrets import self_signed

BIG = bytes(range(256)) * 8192


def server_context(folder):
    certificate, key = self_signed(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


async def test_tls_with_the_right_authority(tmp_path):
    context, certificate = server_context(tmp_path)
    async with FakeServer(tls=context) as server:
        trust = ssl.create_default_context(cafile=str(certificate))
        async with connect(server.url, tls=trust) as client, client.subscribe("/queue/a") as sub:
            await client.send("/queue/a", b"secret", receipt=True)
            assert (await anext(sub)).body == b"secret"
        with pytest.raises(ConnectFailed, match="not trusted"):
            await connect(server.url)


async def test_tls_to_a_plain_port_and_tls_for_a_plain_url():
    async with FakeServer() as server:
        with pytest.raises(ConnectFailed, match=r"TLS|a port for stomp\+ssl"):
            await connect(server.url.replace("stomp:", "stomp+ssl:"), timeout=1)
        with pytest.raises(ClientError, match="not encrypted"):
            await connect(server.url, tls=ssl.create_default_context())


async def test_websocket_text_binary_and_bodies_larger_than_a_message():
    async with FakeServer(websocket=True, large_body_bytes=1 << 30) as server:
        async with connect(server.url, large_body_bytes=65536) as client, client.subscribe("/queue/a") as sub:
            assert server.offered == "v12.stomp"
            await client.send("/queue/a", "grüße", receipt=True)
            assert (await anext(sub)).body == "grüße".encode()
            await client.send("/queue/a", BIG, receipt=True)
            message = await anext(sub)
            assert message.large and await message.read() == BIG
        assert len(server.frames("DISCONNECT")) == 1


async def test_websocket_url_of_something_else():
    async with FakeServer() as server:
        with pytest.raises(ConnectFailed):
            await connect(server.url.replace("stomp:", "ws:"), timeout=1)
