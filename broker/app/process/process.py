"""How every long-running command runs: loop, signals, start, readiness, stop, exit status.

Rule: the same for `serve`, `owner` and `edge`; what they are made of is their own affair.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from broker.config.settings import AdminSettings, Settings
from broker.core.errors import BrokerError, ConfigError
from broker.owner.shard.fault_attribution import Working
from broker.seams.clock import SystemClock
from broker.seams.files import open_file_limit
from broker.seams.loop_watchdog import Steps
from broker.seams.memory import keep_free

from .garbage import YoungCollections, collect_rarely
from .stall_detector import StallDetector

log = logging.getLogger("stampede")

SWITCH_S = 0.0001
"""A thread that waits for the interpreter asks for it after so long. The commit thread has to have it three times a
commit; a loop whose turns are shorter than this interval (the 0.5 ms it once was) gives it up and has it back before
that thread has woken up, again and again: beside 200 browsers a commit of 2 ms took 30, in the worst hundredth."""
SPARE_FILES = 512
"""Open files kept from connections: segments, large bodies on their way, handshakes, scrapes, refused connections."""


class Process(Protocol):
    """start(): ready for clients, or leaves nothing behind and raises BrokerError with a text for people.

    failed   gets the reason when it cannot go on; the exit status is 1 then."""

    failed: asyncio.Future[str]

    async def start(self) -> None: ...
    async def start_admin(self) -> None:
        """After the main ports, because its libraries take a while to load."""
        ...

    def hang_up(self) -> None:
        """SIGHUP."""
        ...

    async def stop(self) -> None:
        """Finishes what is in flight, within drain_timeout_s."""
        ...

    def watched(self) -> Iterable[Steps]:
        """Whose steps are its work."""
        ...

    def engines(self) -> Iterable[Working]:
        """Those that it has by now. Any thread may ask."""
        ...

    def banner(self) -> list[str]:
        """Where it listens and what it is."""
        ...


def console(admin: AdminSettings) -> list[str]:
    """The banner's line for people with a browser; none where the port is off, or not known yet."""
    if admin.port <= 0:
        return []
    host = (
        "127.0.0.1" if admin.host in ("", "0.0.0.0", "::") else f"[{admin.host}]" if ":" in admin.host else admin.host
    )
    return [f"  console                http://{host}:{admin.port}/console"] + (
        [f"  console (TLS)          port {admin.tls_port}"] if admin.tls_port > 0 else []
    )


async def _serve(make: Callable[[Settings], Process], settings: Settings) -> int:
    loop = asyncio.get_running_loop()
    hung_up = asyncio.Event()
    # Before anything else: without a handler the signal ends a process that is on its way.
    loop.add_signal_handler(signal.SIGHUP, hung_up.set)
    process = make(settings)
    stop = asyncio.Event()
    detector = StallDetector(loop, SystemClock.monotonic, process.engines)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if not await _started(process, stop):
        return 1 if process.failed.done() else 0
    loop.add_signal_handler(signal.SIGHUP, process.hang_up)
    if hung_up.is_set():
        process.hang_up()
    try:
        for line in process.banner():
            sys.stderr.write(line + "\n")
        sys.stderr.flush()
        collect_rarely()
        young = YoungCollections(SystemClock.monotonic)
        for steps in process.watched():
            steps.also_calls(young.look)
        keep_free()  # only now: what recovery has needed once is not needed again
        await process.start_admin()
        gc.freeze()  # the admin port's libraries: a hundred thousand objects that a full collection would walk through
        stopping = loop.create_task(stop.wait())
        detector.start()
        await asyncio.wait((stopping, process.failed), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
    finally:
        detector.stop()
        # Also when the admin port cannot be had: clients may be at work by then.
        log.info("stopping")
        await process.stop()
    return 1 if process.failed.done() else 0


async def _started(process: Process, stop: asyncio.Event) -> bool:
    """False: asked to stop, or failed, before it was ready (it may wait for etcd for hours); nothing is left behind."""
    starting, stopping = asyncio.ensure_future(process.start()), asyncio.ensure_future(stop.wait())
    await asyncio.wait((starting, stopping, process.failed), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not starting.done():
        log.info("stopping before it was ready")
        starting.cancel()
    try:
        await starting
    except asyncio.CancelledError:
        return False
    return True


def within(files: int, settings: Settings, processes: int = 1) -> Settings:
    """Settings whose max_connections fits `files` open files in each of the processes that share them: strangers who
    merely connect must never take the last one from the journal, which would have to stop."""
    most = max(files - SPARE_FILES, files // 2) * processes
    if settings.edge.max_connections <= most:
        return settings
    log.warning(
        "edge.max_connections is %d instead of %d: %s may have %d files open (ulimit -n)",
        most, settings.edge.max_connections, "this process" if processes == 1 else "each process", files,
    )  # fmt: skip
    return replace(settings, edge=replace(settings.edge, max_connections=most))


def run(
    make: Callable[[Settings], Process], settings: Settings, processes: Callable[[Settings], int] = lambda _: 1
) -> int:
    """Runs until SIGTERM, SIGINT or failure; the exit status. processes: how many share the clients; raises
    ConfigError."""
    sys.setswitchinterval(SWITCH_S)
    try:
        import uvloop
    except ImportError:
        runner = asyncio.Runner()
    else:
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        settings = within(open_file_limit(), settings, processes(settings))
        with runner:
            return runner.run(_serve(make, settings))
    except ConfigError as error:
        sys.stderr.write(f"stampede: {error}\n")
        return 2
    except BrokerError as error:
        sys.stderr.write(f"stampede: {error}\n")
        return 1
