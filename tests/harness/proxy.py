"""A TCP proxy in the test's process that can cut, blackhole and slow down connections, told apart by who made them.

Rule: bytes are passed on unchanged and in order, or not at all. A cut is seen by both ends at once (reset), a blackhole
by nobody: what is sent is taken and never arrives.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

HOST = "127.0.0.1"
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
        self.hole = asyncio.Event()
        self.hole.set()

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
        self._holes: list[Callable[[int], bool]] = []
        self._server: asyncio.Server | None = None

    def start(self) -> Proxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def cut(self, pid: int | None = None) -> None:
        """Resets connections (those that process `pid` made; None: all) and refuses new ones until heal()."""
        self._block(self._refuse, pid, _Link.abort)

    def blackhole(self, pid: int | None = None) -> None:
        """Lets nothing through any more, in silence, until heal()."""
        self._block(self._holes, pid, lambda link: link.hole.clear())

    def heal(self) -> None:
        """New connections work again; blackholed ones are reset, as a firewall's state is gone by then."""

        def act() -> None:
            for link in list(self._links):
                if not link.hole.is_set():
                    link.abort()
            self._refuse.clear()
            self._holes.clear()

        self._run(act)

    # ── inside ─────────────────────────────────────────────────────────────────────────────────────

    def _block(self, rules: list[Callable[[int], bool]], pid: int | None, act: Callable[[_Link], None]) -> None:
        def matches(source: int) -> bool:
            return pid is None or made_by(source, self.port, pid)

        def run() -> None:
            rules.append(matches)
            for link in list(self._links):
                if matches(link.source):
                    act(link)

        self._run(run)

    def _run(self, act: Callable[[], None]) -> None:
        async def call() -> None:
            act()

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for _ in range(3):  # connections that were just being accepted become tasks in the next turns
            for link in list(self._links):
                link.hole.set()
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
        if any(rule(link.source) for rule in self._holes):
            link.hole.clear()
        self._links.add(link)
        try:
            up, down = await asyncio.open_connection(HOST, self.target)
            link.ends.append((up, down))
            await asyncio.gather(self._pump(link, reader, down), self._pump(link, up, writer), return_exceptions=True)
        except OSError:
            pass
        except asyncio.CancelledError:
            pass
        finally:
            self._links.discard(link)
            link.abort()

    async def _pump(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 18):
                await link.hole.wait()
                writer.write(data)
                await writer.drain()
        finally:
            link.abort()
