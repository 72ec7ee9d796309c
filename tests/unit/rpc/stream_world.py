"""Two ends of a stream over gRPC, in one process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager

from broker.config.settings import ClusterSettings
from broker.rpc.dialer import GrpcDialer
from broker.rpc.server import GrpcServer
from broker.seams.stream import EndKind
from tests.harness.broker import ROOT
from tests.harness.waiting import eventually


class End:
    """Remembers what it heard. `closed` is the list of reasons: it must end with exactly one."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.closed: list[str] = []
        self.kinds: list[EndKind] = []
        self.changed = asyncio.Event()
        self.stream = None

    def on_message(self, message: bytes) -> None:
        assert not self.closed, "a message after the end"
        self.messages.append(message)
        self.changed.set()
        if message == b"raise":
            raise RuntimeError("a bug of the handler")

    def on_closed(self, why: str) -> None:
        self.closed.append(str(why))
        self.kinds.append(why.kind)
        self.changed.set()

    async def until(self, condition, timeout: float = 30.0) -> None:
        async with asyncio.timeout(timeout):
            while not condition(self):
                self.changed.clear()
                await self.changed.wait()

    async def end(self, timeout: float = 30.0) -> str:
        await self.until(lambda end: end.closed, timeout)
        await asyncio.sleep(0.02)
        assert len(self.closed) == 1
        return self.closed[0]


class Doors:
    """An acceptor that keeps the ends it made."""

    def __init__(self) -> None:
        self.ends: list[End] = []
        self.services: list[str] = []

    def accept(self, service, stream):
        end = End()
        end.stream = stream
        self.ends.append(end)
        self.services.append(service)
        return end


@asynccontextmanager
async def pair(**more):
    """(dialer, acceptor, address) of a server in this process."""
    doors = Doors()
    server = GrpcServer(ClusterSettings(port=0, **more), doors)
    port = await server.start()
    dialer = GrpcDialer(ClusterSettings(**more), asyncio.get_running_loop(), dial_timeout_s=10.0)
    try:
        yield dialer, doors, f"127.0.0.1:{port}"
    finally:
        await dialer.close()
        await server.stop()


async def joined(dialer: GrpcDialer, doors: Doors, address: str, service: str = "edge"):
    """(client end, server end) of a stream that stands."""
    end, count = End(), len(doors.ends)
    end.stream = dialer.dial(address, service, end)
    end.stream.send(b"hello")
    async with asyncio.timeout(5):
        await eventually(lambda: len(doors.ends) > count and doors.ends[-1].messages)
    other = doors.ends[-1]
    assert other.messages.pop() == b"hello"
    return end, other


class stranger:
    """An echoing component in a process of its own, to be frozen and killed: (process, port)."""

    SOURCE = """
import asyncio
import time
from broker.config.settings import ClusterSettings
from broker.rpc.server import GrpcServer

class Echo:
    def __init__(self, stream):
        self.stream = stream
    def on_message(self, message):
        self.stream.send(message)
        if message == b"sleep":
            asyncio.get_running_loop().call_later(0.05, time.sleep, 5)
        if message[:4] == b"late":
            asyncio.get_running_loop().call_later(0.05, time.sleep, float(message[8:]))
    def on_closed(self, why):
        pass

class Doors:
    def accept(self, service, stream):
        return Echo(stream)

async def main():
    server = GrpcServer(ClusterSettings(port=0), Doors())
    print(await server.start(), flush=True)
    await asyncio.sleep(30)

asyncio.run(main())
"""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", self.SOURCE], stdout=subprocess.PIPE, cwd=ROOT)
        assert self.process.stdout is not None
        return self.process, int(self.process.stdout.readline())

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
