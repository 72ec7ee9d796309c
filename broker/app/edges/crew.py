"""The parent's side: edge processes are started, watched, started anew when they end, told what has changed, ended.

Rule: one place of each number at a time; what a process that has ended had goes to others at once. A process that
cannot be kept running ends the broker, with the reason. Must not know messages: those go by the link.
"""

# Example. Edge process 1 of 2 is killed.
#     kernel     closes its sockets: clients hear of it; what connects meanwhile waits, as its listening sockets are
#                ours too
#     _keep      its link is cut, and the owner told that it is gone (edge_gone): what its consumers held goes to others
#     _keep      a new process with a new boot; it dials, attaches nothing, and accepts what has waited
# If the parent is killed, each process finds its talk broken, and ends at once (worker.py): nobody is left who could
# say what became of a message.

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from socket import socket
from typing import Any, Final

import msgspec

from broker.config.changes import tables_of
from broker.config.settings import Settings
from broker.core.errors import BrokerError, ConfigError
from broker.link.owner_side.link_server import LinkServer
from broker.rpc.framed import FramedServer
from broker.seams.clock import Clock
from broker.seams.entropy import token
from broker.seams.stream import EDGE_SERVICE, Ended, Stream, StreamEnd

from .registry import Registry
from .start import WorkerStart
from .talk import TALK_SERVICE, Talk

log = logging.getLogger("stampede")

WORKER: Final = ("-P", "-m", "broker.app.edges.worker")
"""What Python is to run."""
STEADY_S: Final = 10.0
"""Who has run for so long and ends is started anew at once."""
FIRST_PAUSE_S: Final = 0.2
MANY: Final = 6
"""Starts in a row that came to nothing: it is no accident any more."""
ANSWER_S: Final = 5.0
"""A process that has not answered by then is left out (metrics, connections)."""
BEYOND_DRAIN_S: Final = 5.0
"""So long after drain_timeout_s a process that still runs is killed."""
GONE_S: Final = 0.01
"""The end of its sockets is heard of by then."""


class EdgePlace:
    """One number. talk: None while its process is not there; ready: it serves clients."""

    def __init__(self, number: int, sockets: Mapping[str, Sequence[socket]]) -> None:
        self.number = number
        self.sockets = sockets
        self.boot = ""
        self.process: asyncio.subprocess.Process | None = None
        self.talk: Talk | None = None
        self.ready = False
        self.links: list[Stream] = []

    def begins(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    def boots(self) -> str:
        """A new start of it is about to be made."""
        self.boot = token(8)
        return self.boot

    def talks(self, talk: Talk) -> None:
        self.talk = talk

    def serves(self) -> None:
        self.ready = True

    def silent(self) -> None:
        self.talk, self.ready = None, False

    def ended(self) -> None:
        """Its process is no more."""
        links, self.links = self.links, []
        for link in links:
            link.abort("its process has ended")
        self.process = None
        self.silent()


class Crew:
    """See the head of this file."""

    def __init__(
        self,
        server: LinkServer,
        registry: Registry,
        clock: Clock,
        path: str,
        settings: Callable[[int], Settings],
        manage: Callable[[Any], Awaitable[None]],
        fail: Callable[[str], None],
    ) -> None:
        """path: of the socket they dial. settings: of a process by its number, as they are now. manage: carries out
        messages that ask for management. fail: called when one of them cannot be kept running."""
        self._server = server
        self._registry = registry
        self._clock = clock
        self._path = path
        self._settings = settings
        self._manage = manage
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._rpc = FramedServer(self._loop, path, self, frozenset((EDGE_SERVICE, TALK_SERVICE)))
        self.members: list[EdgePlace] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        """Somebody has come to serve, or has ended."""
        self._failed: str = ""
        self._stopping = False
        self._version = 0
        self.restarts = 0

    # ── life ───────────────────────────────────────────────────────────────────────────────────────

    async def start(self, sockets: Sequence[Mapping[str, Sequence[socket]]]) -> None:
        """Returns when all of them serve. Raises ConfigError when one cannot."""
        await self._rpc.start()
        self.members = [EdgePlace(number, own) for number, own in enumerate(sockets, 1)]
        self._tasks = [self._loop.create_task(self._keep(member)) for member in self.members]
        while not self._failed and not all([member.ready for member in self.members]):
            self._changed.clear()
            await self._changed.wait()
        if self._failed:
            raise ConfigError(self._failed)

    async def stop(self, within_s: float) -> None:
        """SIGTERM to all: each finishes what is in flight and ends. Who does not is killed."""
        self._stopping = True
        running = [member.process for member in self.members if member.process is not None]
        for process in running:
            _signal(process.terminate)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=within_s + BEYOND_DRAIN_S)
            for process in running if late else ():
                _signal(process.kill)
            if late:
                log.warning("%d edge processes were killed: they had not ended in time", len(late))
                await asyncio.wait(late)
        await self._rpc.stop()

    async def _keep(self, member: EdgePlace) -> None:
        """Has a process of that number running."""
        vain = 0
        while not self._stopping:
            began = self._clock.monotonic()
            try:
                process = await self._spawn(member)
            except OSError as error:
                self._give_up(f"edge process {member.number} cannot be started: {error}")
                return
            status = await process.wait()
            served = member.ready
            member.ended()
            self._registry.gone(member.number)
            await asyncio.sleep(GONE_S)
            self._server.edge_gone(f"edge-{member.number}", member.boot)
            if self._stopping:
                return
            vain = 0 if self._clock.monotonic() - began > STEADY_S else vain + 1
            if vain >= MANY or (not served and status == 2):
                self._give_up(f"edge process {member.number} ends again and again (exit status {status}); see above.")
                return
            self.restarts += 1
            log.error("edge process %d has ended (exit status %d) and is started anew", member.number, status)
            await asyncio.sleep(0 if vain < 2 else FIRST_PAUSE_S * 2**vain)

    def _give_up(self, why: str) -> None:
        self._failed = why
        self._changed.set()
        self._fail(why)

    async def _spawn(self, member: EdgePlace) -> asyncio.subprocess.Process:
        fds = {name: [each.fileno() for each in own] for name, own in member.sockets.items()}
        start = WorkerStart(
            member.number, len(self.members), member.boots(), self._path, fds, self._version,
            self._settings(member.number),
        )  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            sys.executable, *WORKER,
            stdin=asyncio.subprocess.PIPE, pass_fds=[fd for each in fds.values() for fd in each],
            start_new_session=True,  # Ctrl-C is for the parent, who tells them when
        )  # fmt: skip
        member.begins(process)
        if self._stopping:
            _signal(process.terminate)
        assert process.stdin is not None
        try:
            process.stdin.write(msgspec.json.encode(start))
            await process.stdin.drain()
            process.stdin.close()
        except OSError:
            pass  # it has ended already, which wait() says
        return process

    # ── their streams ──────────────────────────────────────────────────────────────────────────────

    def accept(self, service: str, stream: Stream) -> StreamEnd:
        """Of the socket: seams.stream.Acceptor."""
        if service == EDGE_SERVICE:
            member = next((each for each in self.members if _runs(each, stream)), None)
            if member is not None:
                member.links.append(stream)
            return self._server.accept(service, stream)
        return self._talk_with(stream)

    def _talk_with(self, stream: Stream) -> StreamEnd:
        member = next((each for each in self.members if _runs(each, stream)), None)

        async def answer(kind: str, about: Any) -> Any:
            if member is None:
                raise BrokerError("no edge process of this broker")
            if kind == "manage":
                return await self._manage(about)
            return self._asked(member, kind, about)

        def ended(_: Ended) -> None:
            if member is not None and member.talk is talk:
                member.silent()

        talk = Talk(answer, ended)
        talk.begin(stream)
        if member is not None:
            member.talks(talk)
        return talk

    def _asked(self, member: EdgePlace, kind: str, about: Any) -> Any:
        if kind == "hello":
            return tables_of(self._settings(member.number)) if about != self._version else None
        if kind == "serving":
            member.serves()
            self._changed.set()
            return None
        questions: dict[str, Callable[..., Any]] = {
            "claim_name": self._registry.claim_name, "find_name": self._registry.find_name,
            "release_name": self._registry.release_name, "claim_id": self._registry.claim_id,
            "release_id": self._registry.release_id, "lease": self._registry.lease,
        }  # fmt: skip
        return questions[kind](member.number, *about)

    # ── to all of them ─────────────────────────────────────────────────────────────────────────────

    def lost_id(self, process: int, client_id: str, connection: int) -> None:
        """Another process has that client-id now."""
        for member in self.members:
            if member.number == process and member.talk is not None:
                member.talk.tell("lost_id", (client_id, connection))

    def stopped(self, why: str) -> None:
        """The owner has: clients are told at once."""
        for member in self.members:
            if member.talk is not None:
                member.talk.tell("stopped", why)

    async def change(self, entries: Sequence[tuple[str, str, Any]]) -> None:
        """Entries of settings are others now (start.changed): returns when all processes use them. One that is being
        started hears of all with its hello."""
        self._version += 1
        await self.ask_all("change", entries)

    async def ask_all(self, kind: str, about: Any = None) -> dict[int, Any]:
        """Process → its answer. Who ends meanwhile, or does not answer in time, is not among them."""
        asked = {member.number: member.talk.ask(kind, about) for member in self.members if member.talk is not None}
        if asked:
            await asyncio.wait(asked.values(), timeout=ANSWER_S)
        answers: dict[int, Any] = {}
        for number, answer in asked.items():
            if not answer.done():
                answer.cancel()
                log.warning("edge process %d has not answered within %g s: %s", number, ANSWER_S, kind)
            elif isinstance(error := answer.exception(), BrokerError):
                log.warning("edge process %d: %s: %s", number, kind, error)
            else:
                answers[number] = answer.result()
        return answers

    def serving(self) -> int:
        """How many processes serve clients now."""
        return sum([member.ready for member in self.members])


def _runs(member: EdgePlace, stream: Stream) -> bool:
    """Is this stream of that process."""
    return member.process is not None and stream.peer == f"process {member.process.pid}"


def _signal(send: Callable[[], None]) -> None:
    try:
        send()
    except ProcessLookupError:
        pass  # it has ended
