"""A TCP proxy in the test's process that can cut, blackhole and slow down connections, told apart by who made them.

Rule: bytes are passed on unchanged and in order, or not at all. A cut is seen by both ends at once (reset), a blackhole
by nobody: what is sent is taken and never arrives, one way or both. On a slow link everything comes later; on a lossy
one some of it much later, which is what TCP makes of lost packets.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

HOST = "127.0.0.1"
UP, DOWN = 0, 1
"""Towards the target, and back."""
STALL_S = (0.2, 1.2)
"""What a lost packet costs: one timeout of TCP, or some."""
PATIENCE_S = 60.0
"""For its loop to act: looking up whose connections those are reads tables of the kernel, and the machine is busy."""
ATTEMPTS = 5
"""The kernel's table of connections is not read at one moment: some are passed over while others come and go."""


def made_by(port: int, to: int, pid: int) -> bool:
    """Does the local end of the connection from this port to that one belong to that process."""
    for _ in range(ATTEMPTS):
        if inode := _inode(port, to):
            return _has(pid, f"socket:[{inode}]")
    return False


def _inode(port: int, to: int) -> str:
    """gRPC makes IPv6 sockets where there is IPv6, for connections to 127.0.0.1 as well."""
    for table in ("tcp", "tcp6"):
        file = Path("/proc/net", table)
        for line in file.read_text().splitlines()[1:] if file.exists() else ():
            fields = line.split()
            ends = [int(end.rpartition(":")[2], 16) for end in fields[1:3]]
            if ends == [port, to] and fields[9] != "0":
                return fields[9]
    return ""


def _has(pid: int, what: str) -> bool:
    """Is this one of the process's open files."""
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{fd}") == what:
                    return True
            except OSError:
                continue
    except OSError:
        return False
    return False


class _Link:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.ends = [(reader, writer)]
        self.source = writer.get_extra_info("peername")[1]
        self.holes = asyncio.Event(), asyncio.Event()
        self.delay_s = 0.0
        self.loss = 0.0
        for hole in self.holes:
            hole.set()

    @property
    def open(self) -> bool:
        return all(hole.is_set() for hole in self.holes)

    def swallow(self, ways: tuple[int, ...]) -> None:
        for way in ways:
            self.holes[way].clear()

    def slow(self, delay_s: float, loss: float) -> None:
        self.delay_s, self.loss = delay_s, loss

    def abort(self) -> None:
        for _, writer in self.ends:
            writer.transport.abort()


class Proxy:
    """127.0.0.1:port → 127.0.0.1:target. Thread-safe from outside; runs in a thread of its own."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._links: set[_Link] = set()
        self._refuse: list[Callable[[int], bool]] = []
        self._effects: list[tuple[Callable[[int], bool], Callable[[_Link], None]]] = []
        """Whom it concerns, and what becomes of a new connection of theirs."""
        self._draws = random.Random(port)
        self._server: asyncio.Server | None = None

    def start(self) -> Proxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)
        return self

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self, pid: int | None = None) -> None:
        """Resets connections (those that process `pid` made; None: all) and refuses new ones until heal()."""
        matches = self._matching(pid)
        self._apply(matches, _Link.abort, lambda: self._refuse.append(matches))

    def reset(self, pid: int | None = None) -> None:
        """Resets connections, as cut(); new ones are welcome."""
        self._apply(self._matching(pid), _Link.abort, lambda: None)

    def blackhole(self, pid: int | None = None, ways: tuple[int, ...] = (UP, DOWN)) -> None:
        """Lets nothing through any more, in silence, until heal(). `ways`: (UP,) what the target is sent only."""
        self._affect(pid, lambda link: link.swallow(ways))

    def slow(self, delay_s: float, loss: float = 0.0, pid: int | None = None) -> None:
        """Everything comes later by `delay_s`, and this share of the pieces as if a packet was lost; until heal()."""
        self._affect(pid, lambda link: link.slow(delay_s, loss))

    def heal(self) -> None:
        """New connections work again; blackholed ones are reset, as a firewall's state is gone by then."""

        def act() -> None:
            for link in list(self._links):
                link.slow(0.0, 0.0)
                if not link.open:
                    link.abort()
            self._refuse.clear()
            self._effects.clear()

        self._run(act)

    # ── inside ─────────────────────────────────────────────────────────────────────────────────────

    def _matching(self, pid: int | None) -> Callable[[int], bool]:
        return lambda source: pid is None or made_by(source, self.port, pid)

    def _affect(self, pid: int | None, act: Callable[[_Link], None]) -> None:
        matches = self._matching(pid)
        self._apply(matches, act, lambda: self._effects.append((matches, act)))

    def _apply(
        self, matches: Callable[[int], bool], act: Callable[[_Link], None], remember: Callable[[], None]
    ) -> None:
        def run() -> None:
            remember()
            for link in list(self._links):
                if matches(link.source):
                    act(link)

        self._run(run)

    def _run(self, act: Callable[[], None]) -> None:
        async def call() -> None:
            act()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(PATIENCE_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for _ in range(3):  # connections that were just being accepted become tasks in the next turns
            for link in list(self._links):
                for hole in link.holes:
                    hole.set()
                link.abort()
            tasks = [task for task in asyncio.all_tasks(self._loop) if task is not asyncio.current_task(self._loop)]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(reader, writer)
        if any(rule(link.source) for rule in self._refuse):
            link.abort()
            return
        for matches, act in self._effects:
            if matches(link.source):
                act(link)
        self._links.add(link)
        try:
            up, down = await asyncio.open_connection(HOST, self.target)
            link.ends.append((up, down))
            pumps = self._pump(link, UP, reader, down), self._pump(link, DOWN, up, writer)
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass
        except asyncio.CancelledError:
            pass
        finally:
            self._links.discard(link)
            link.abort()

    async def _pump(self, link: _Link, way: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 18):
                if link.delay_s or link.loss:
                    lost = self._draws.random() < link.loss
                    await asyncio.sleep(link.delay_s + (self._draws.uniform(*STALL_S) if lost else 0.0))
                await link.holes[way].wait()
                writer.write(data)
                await writer.drain()
        finally:
            link.abort()
