"""The calls of an edge and of an owner that are apart: each has a thread and a loop of its own, as it has a process
otherwise, and between them is a unix socket (broker/rpc/framed.py).

    .venv/bin/python -m tests.harness.calls_apart owner      # by function; also edge
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.config.settings import AdminSettings, ClusterSettings, EdgeSettings, JournalSettings, Settings
from broker.core.ids import SLOTS
from broker.edge.access.auth import make_authenticator
from broker.edge.access.listener import Listeners
from broker.edge.edge import Edge
from broker.edge.transport.timers import TimerWheel
from broker.journal.journal import Journal
from broker.link.edge_side.cluster_port import ClusterPort
from broker.link.owner_side.link_server import LinkServer
from broker.owner.commit.io_thread import IoThread
from broker.owner.shard.shard import Shard
from broker.rpc.framed import FramedDialer, FramedServer
from broker.seams.clock import SystemClock
from broker.seams.files import OsFiles
from broker.seams.stream import EDGE_SERVICE
from tests.harness.calls import COUNTED, Calls, talk, unbatched

EPOCH, TOKEN = 1, 7


def nobody(*_: Any) -> Any:
    raise AssertionError("no large body is sent here")


class OwnerThread:
    """Leads all slots. `calls` counts while it is on, if it is the owner's that are wanted."""

    def __init__(self, settings: Settings, path: str, calls: Calls | None) -> None:
        self._settings, self._path, self._calls = settings, path, calls
        self.ready, self._stop = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="owner", daemon=True)
        self._thread.start()
        assert self.ready.wait(30)

    def _run(self) -> None:
        import uvloop

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        settings, loop, clock = self._settings, asyncio.get_running_loop(), SystemClock()
        self._loop = loop
        journal = Journal.open(OsFiles(), f"{settings.data}/journal", settings.journal)
        threads = [IoThread(loop, name) for name in ("owner-journal", "page-in", "prepare")]
        shard = Shard(
            settings, journal, clock, *threads, loop.call_soon, lambda at, callback: None, loop.call_later
        )  # fmt: skip
        server = LinkServer(
            settings, shard.submit, clock, loop.call_soon, loop.call_later, nobody, nobody, nobody, lambda *_: False
        )  # fmt: skip
        shard.listen(server)
        shard.recover()
        for slot in range(SLOTS):
            server.serve(slot, EPOCH)
        rpc = FramedServer(loop, self._path, server, frozenset((EDGE_SERVICE,)))
        await rpc.start()
        sys.setprofile(self._calls.see if self._calls is not None else None)
        self.ready.set()
        await self._stop.wait()
        sys.setprofile(None)
        await rpc.stop()
        for thread in threads:
            thread.stop()
        journal.close(clean=False)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)


def count(side: str, folder: Path, work: Callable[[int], Any] = unbatched) -> Calls:
    """Calls of the edge or of the owner for COUNTED messages."""
    import uvloop

    calls = Calls()
    settings = Settings(
        data=str(folder),
        edge=EdgeSettings(host="127.0.0.1", port=0, ws_port=-1),
        journal=JournalSettings(min_free_bytes=0),
        admin=AdminSettings(port=-1),
        cluster=ClusterSettings(id="edge-0", ping_ms=60_000, dead_after_ms=600_000),
    )
    path = str(folder / "owner.sock")

    async def serve() -> None:
        loop, clock = asyncio.get_running_loop(), SystemClock()
        dialer, beats, auth = FramedDialer(loop), TimerWheel(loop), make_authenticator(settings)
        port = ClusterPort(settings, dialer, clock, loop.call_soon, loop.call_later, "edge-0", "boot", TOKEN)
        edge = Edge(settings, port, clock, beats, auth, "boot")
        for slot in range(SLOTS):
            port.route(slot, EPOCH, "owner", path)
        listeners = Listeners(edge, settings, loop, "127.0.0.1", auth.has_users)
        await listeners.start()
        sys.setprofile(calls.see if side == "edge" else None)
        try:
            where = next(iter(listeners.ports.values()))
            await loop.run_in_executor(None, talk, work(where), calls)
        finally:
            sys.setprofile(None)
            listeners.stop_accepting()
            await listeners.close()
            port.close()
            beats.stop()
            auth.close()
            await dialer.close()

    owner = OwnerThread(settings, path, calls if side == "owner" else None)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve())
    finally:
        owner.stop()
    return calls


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        found = count(sys.argv[1], Path(scratch))
        print(found.table(COUNTED))
        print(f"{found.each(COUNTED):8.2f}  calls a message: {sys.argv[1]}")
