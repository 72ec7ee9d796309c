"""Fake edge and loops for the tests of the transports. Every test runs on uvloop and on the stdlib loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from broker.config.settings import EdgeSettings, Settings
from broker.core.errors import Code
from broker.core.reasons import Reason
from broker.edge.access.listener import Listeners
from broker.edge.transport.channel import Channel
from broker.edge.transport.fair_reading import Rounds

LOOPS = {"uvloop": uvloop.new_event_loop, "stdlib": asyncio.SelectorEventLoop}
both_loops = pytest.mark.parametrize("kind", list(LOOPS))
OFF = replace(EdgeSettings(), port=-1, ws_port=-1, login_timeout_s=2.0)


def run(kind: str, coroutine: Coroutine[Any, Any, None]) -> None:
    """Runs on a fresh loop of that kind; an exception the loop swallowed fails the test."""
    swallowed: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: swallowed.append(context))
        await asyncio.wait_for(coroutine, 30)

    with asyncio.Runner(loop_factory=LOOPS[kind]) as runner:
        runner.run(main())
    assert swallowed == []


class Session:
    """Records what it is told. `on_receive` may answer."""

    def __init__(self, channel: Channel, edge: Edge) -> None:
        self.channel = channel
        self.edge = edge
        self.received: list[bytes] = []
        self.calls: list[str] = []
        self.signs = 0
        self.whose = "somebody"
        """Of life, without bytes."""
        self.over = asyncio.Event()

    @property
    def data(self) -> bytes:
        return b"".join(self.received)

    def receive(self, data: bytes) -> None:
        assert type(data) is bytes
        assert "lost" not in self.calls
        self.received.append(data)
        self.edge.on_receive(self, data)

    def heard(self) -> None:
        self.signs += 1

    def fail(self, code: Code, detail: str) -> None:
        self.calls.append(code.name)
        self.channel.write_frames([b"ERROR\n\n\0"])
        self.channel.close(code.reason)

    def eof(self) -> None:
        self.calls.append("eof")
        self.edge.on_eof(self)

    def lost(self) -> None:
        self.calls.append("lost")
        self.over.set()

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")


class Edge:
    """Makes sessions; by default they echo, and close when the peer ends."""

    def __init__(
        self,
        on_receive: Callable[[Session, bytes], None] | None = None,
        on_open: Callable[[Channel], None] | None = None,
        on_eof: Callable[[Session], None] | None = None,
    ) -> None:
        self.sessions: asyncio.Queue[Session] = asyncio.Queue()
        self.rounds = Rounds(lambda callback: asyncio.get_running_loop().call_soon(callback), time.monotonic)
        self.opened: list[Session] = []
        self.open_elsewhere = 0
        self.on_receive = on_receive or (lambda session, data: session.channel.write(data))
        self.on_open = on_open or (lambda channel: None)
        self.on_eof = on_eof or (lambda session: session.channel.close(Reason.CLIENT_GONE))

    def open_from(self, ip: str) -> int:
        return self.open_elsewhere

    def open(self, channel: Channel) -> Session:
        session = Session(channel, self)
        self.sessions.put_nowait(session)
        self.opened.append(session)
        self.on_open(channel)
        return session


@contextlib.asynccontextmanager
async def listening(edge: Edge, settings: EdgeSettings | Settings) -> AsyncIterator[Listeners]:
    whole = settings if isinstance(settings, Settings) else Settings(edge=settings)
    listeners = Listeners(edge, whole, asyncio.get_running_loop(), "127.0.0.1")
    await listeners.start()
    try:
        yield listeners
    finally:
        await listeners.close()
        for session in edge.opened:
            if not session.over.is_set():
                session.channel.abort()  # a uvloop with half-dead sockets never ends its close()
        await asyncio.sleep(0.005)


async def closed(writer: asyncio.StreamWriter) -> None:
    """Closes a client socket, whatever state it is in."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
