"""The component port: strangers disturb nobody, and stopping tells every end."""

from __future__ import annotations

import asyncio
import logging
import os

import pytest

from broker.config.settings import ClusterSettings
from broker.core.errors import ConfigError
from broker.rpc.server import GrpcServer
from tests.unit.rpc.stream_world import Doors, End, joined, pair


async def test_a_handler_that_raises_loses_its_stream_only(caplog):
    async with pair() as (dialer, doors, address):
        client, server = await joined(dialer, doors, address)
        innocent, _ = await joined(dialer, doors, address)
        client.stream.send(b"raise")
        assert await server.end() == "internal error"
        assert await client.end() == "ended by the other side"
        assert "a bug of the handler" in caplog.text
        assert innocent.closed == []


async def test_strangers_disturb_nobody_and_are_logged_once(caplog):
    async with pair() as (dialer, doors, address):
        innocent, server = await joined(dialer, doors, address)
        port = int(address.rpartition(":")[2])
        with caplog.at_level(logging.INFO, "stampede.rpc"):
            for _ in range(3):
                end = End()
                dialer.dial(address, "nonsense", end)
                assert (await end.end()).startswith("foreign: ")
        assert caplog.text.count("/stampede.v1.Link/Nonsense") == 1
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"CONNECT\n\n\0", os.urandom(3000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n"):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(garbage)
            writer.close()
        await asyncio.sleep(0.05)
        innocent.stream.send(b"fine")
        await server.until(lambda end: end.messages == [b"fine"])
        assert innocent.closed == []


async def test_stopping_tells_every_end():
    async with pair() as (dialer, doors, address):
        first, other = await joined(dialer, doors, address)
        second, _ = await joined(dialer, doors, address, "replica")
        await dialer.close()
        assert (await first.end(), await second.end()) == ("stopping", "stopping")
        assert await other.end()


async def test_a_port_that_is_taken_is_named():
    first = GrpcServer(ClusterSettings(port=0), Doors())
    second = GrpcServer(ClusterSettings(port=await first.start()), Doors())
    with pytest.raises(ConfigError, match=r"cluster\.port"):
        await second.start()
    await first.stop()
