"""A client inside the process has the back-pressure of a socket, and ends as one does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.config.checks import check
from broker.config.settings import Settings
from broker.core.errors import ConfigError
from broker.core.reasons import Reason
from broker.edge.transport.in_process_channel import HIGH, INSIDE, PIECE, InProcessChannel
from tests.unit.edge.bench import Bench, Wire

CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\n\n\0"


async def test_it_is_who_its_maker_says():
    bench = Bench()
    channel = InProcessChannel(bench.edge, "eu", "anonymous")
    await channel.pipe.send(CONNECT)
    assert (await channel.pipe.read()).startswith(b"CONNECTED")
    (session,) = bench.edge.sessions.values()
    assert (session.principal, channel.peer, channel.transport_name) == ("anonymous", "bridge.eu:0", INSIDE)
    await channel.pipe.close()
    assert await channel.pipe.read() == b""
    await asyncio.sleep(0)
    assert not bench.edge.sessions


async def test_an_acceptor_that_is_called_bridge_keeps_its_settings():
    bench = Bench({"bridge": {"port": 1, "virtual_host": "shop"}}, virtual_hosts={"shop": {}})
    wire: Any = Wire()
    wire.transport_name = "bridge"
    session = bench.edge.open(wire)
    session.receive(CONNECT)
    assert session.connected and session.host.name == "shop"
    with pytest.raises(ConfigError, match=r"acceptors\.\$bridge: names that begin with \$ are the broker's own"):
        check(Settings(acceptors={INSIDE: {"port": 1}}))


async def test_somebody_who_is_not_there_is_refused():
    channel = InProcessChannel(Bench().edge, "eu", "ada")
    await channel.pipe.send(CONNECT)
    assert b"1201" in await channel.pipe.read() or not channel.held()


async def test_a_long_write_goes_in_in_pieces_and_waits_while_it_is_not_read():
    class Sized:
        def __init__(self) -> None:
            self.sizes: list[int] = []

        def receive(self, data: bytes) -> None:
            self.sizes.append(len(data))

    channel = InProcessChannel(Bench().edge, "eu", "anonymous")
    session = Sized()
    channel._session = session  # type: ignore[assignment]
    await channel.pipe.send(b"x" * (2 * PIECE + 1))
    assert session.sizes == [PIECE, PIECE, 1]
    channel.pause_reading()
    sending = asyncio.ensure_future(channel.pipe.send(b"y"))
    await asyncio.sleep(0.01)
    assert not sending.done()
    channel.resume_reading()
    await sending


async def test_who_does_not_read_gets_no_more():
    class Paused:
        paused = 0

        def pause_writing(self) -> None:
            self.paused += 1

        def resume_writing(self) -> None:
            self.paused -= 1

    channel = InProcessChannel(Bench().edge, "eu", "anonymous")
    session = Paused()
    channel._session = session  # type: ignore[assignment]
    channel.write(b"x" * (HIGH + 1))
    channel.write(b"x")
    assert (session.paused, channel.buffered()) == (1, HIGH + 2)
    assert len(await channel.pipe.read()) == HIGH + 2
    assert (session.paused, channel.buffered()) == (0, 0)


async def test_what_was_written_before_the_end_is_read():
    channel = InProcessChannel(Bench().edge, "eu", "anonymous")
    channel.write(b"last words")
    channel.close(Reason.SHUTDOWN)
    assert await channel.pipe.read() == b"last words"
    assert await channel.pipe.read() == b""
    with pytest.raises(ConnectionResetError):
        await channel.pipe.send(b"x")
