"""The parent's side: edge processes are started, watched, started anew when they end or stand still, told what has
changed, ended.

Rule: one place of each number at a time; what a process that has ended had goes to others at once, and what it has said
before counts. A process that cannot be kept running ends the broker, with the reason. Must not know messages: those go
by the link.
"""

# Example. Edge process 1 of 2 is killed.
#     kernel     closes its sockets: clients hear of it; what connects meanwhile waits, as its listening sockets are
#                ours too
#     _keep      its link is cut, and the owner told that it is gone (edge_gone): what its consumers held goes to others
#     _keep      a new process with a new boot; it dials, attaches nothing, and accepts what has waited
# One that stands still (SIGSTOP, a loop that hangs) does not answer: _watch asks each of them every second, says so,
# and kills it after ten; the rest is as above.
# If the parent is killed, each process finds its talk broken, and ends at once (worker.py): nobody is left who could
# say what became of a message.

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
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

from .control_stream import TALK_SERVICE, ControlStream, Parted
from .registry import Registry
from .worker_settings import Entry, WorkerStart

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
PING_S: Final = 1.0
"""How often each is asked whether it is there."""
SLOW: Final = 3
"""Pings without an answer, after which /readyz says so."""
SILENT: Final = 10
"""The same, after which it is killed. Counted in our own steps: when we stood still it is not its fault."""
BEGINS: Final = 60
"""Steps that a process may take until it serves."""
BEYOND_DRAIN_S: Final = 5.0
"""So long after drain_timeout_s a process that still runs is killed."""
HEARD_S: Final = 5.0
"""What a process had said before it ended is read by then."""


class _LinkEnd:
    """The StreamEnd of a link, which tells when it is over. on_message: the server's own."""

    def __init__(self, end: StreamEnd, over: Callable[[], None]) -> None:
        self.on_message = end.on_message
        self._end = end
        self._over = over

    def on_closed(self, why: Ended) -> None:
        self._end.on_closed(why)
        self._over()


class EdgePlace:
    """One number. talk: None while its process is not there; ready: it serves clients."""

    def __init__(self, number: int, sockets: Mapping[str, Sequence[socket]]) -> None:
        self.number = number
        self.sockets = sockets
        self.boot = ""
        self.process: asyncio.subprocess.Process | None = None
        self.talk: ControlStream | None = None
        self.ready = False
        self.unanswered = 0
        """Steps since it was asked whether it is there, or was begun."""
        self._ping: asyncio.Future[Any] | None = None
        self._links: dict[Stream, None] = {}
        self._heard = asyncio.Event()
        """There is no link."""

    @property
    def slow(self) -> bool:
        """Does it serve, and has not answered for some time."""
        return self.ready and self.unanswered >= SLOW

    def begins(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.unanswered = 0

    def links(self, stream: Stream, end: StreamEnd) -> StreamEnd:
        """One of its links has begun. Returns who hears what comes."""
        self._links[stream] = None
        self._heard.clear()

        def over() -> None:
            self._links.pop(stream, None)
            if not self._links:
                self._heard.set()

        return _LinkEnd(end, over)

    def look(self) -> bool:
        """A step has passed. False, once: it has not answered for so long that it never will."""
        if self.process is None:
            return True
        if self._ping is not None and self._ping.done():
            self._ping = None
            self.unanswered = 0
        else:
            self.unanswered += 1
        if self._ping is None and self.talk is not None and self.ready:
            self._ping = self.talk.ask("alive")
            self._ping.add_done_callback(_unheard)
        return self.unanswered != (SILENT if self.ready else BEGINS)

    def boots(self) -> str:
        """A new start of it is about to be made."""
        self.boot = token(8)
        return self.boot

    def talks(self, talk: ControlStream) -> None:
        self.talk = talk

    def serves(self) -> None:
        self.ready = True
        self.unanswered = 0

    def silent(self) -> None:
        self.talk, self.ready, self._ping = None, False, None

    async def ended(self) -> None:
        """Its process is no more: returns when all is read that it had said."""
        self.process = None
        self.silent()
        if self._links:
            await asyncio.wait((asyncio.ensure_future(self._heard.wait()),), timeout=HEARD_S)
        for link in list(self._links):
            link.abort("its process has ended")


class Supervisor:
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
        """An edge process has come to serve, or has ended."""
        self._failed: str = ""
        self._stopping = False
        self._version = 0
        self._look: asyncio.TimerHandle | None = None
        self.restarts = 0

    # ── life ───────────────────────────────────────────────────────────────────────────────────────

    async def start(self, sockets: Sequence[Mapping[str, Sequence[socket]]]) -> None:
        """Returns when all of them serve. Raises ConfigError when one cannot."""
        await self._rpc.start()
        self.members = [EdgePlace(number, own) for number, own in enumerate(sockets, 1)]
        self._tasks = [self._loop.create_task(self._keep(member)) for member in self.members]
        self._look = self._loop.call_later(PING_S, self._watch)
        while not self._failed and not all([member.ready for member in self.members]):
            self._changed.clear()
            await self._changed.wait()
        if self._failed:
            raise ConfigError(self._failed)

    async def stop(self, within_s: float) -> None:
        """SIGTERM to all: each finishes what is in flight and ends. A process that does not is killed."""
        self._stopping = True
        if self._look is not None:
            self._look.cancel()
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
            await member.ended()
            self._registry.gone(member.number)
            self._server.edge_gone(f"edge-{member.number}", member.boot)
            if self._stopping:
                return
            vain = 0 if served and self._clock.monotonic() - began > STEADY_S else vain + 1
            if vain >= MANY or (not served and status == 2):
                self._give_up(f"edge process {member.number} ends again and again (exit status {status}); see above.")
                return
            self.restarts += 1
            log.error("edge process %d has ended (exit status %d) and is started anew", member.number, status)
            await asyncio.sleep(0 if vain < 2 else FIRST_PAUSE_S * 2**vain)

    def _watch(self) -> None:
        """A process that does not answer makes room for one that does: its clients connect again."""
        for member in self.members:
            alive = member.look()
            if member.ready and member.unanswered == SLOW:
                log.warning("edge process %d has not answered for %g s", member.number, SLOW * PING_S)
            if not alive:
                self._replace(member, f"it has not answered for {member.unanswered * PING_S:g} s")
        self._look = self._loop.call_later(PING_S, self._watch)

    def _replace(self, member: EdgePlace, why: str) -> None:
        """Another process has its place as soon as it has ended."""
        process = member.process
        if process is not None and not self._stopping:
            log.error("edge process %d is replaced: %s", member.number, why)
            _signal(process.kill)

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
            end = self._server.accept(service, stream)
            return end if member is None else member.links(stream, end)
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

        talk = ControlStream(answer, ended)
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
        self.tell_all("stopped", why)

    def tell_all(self, kind: str, about: Any) -> None:
        """Nobody answers."""
        for member in self.members:
            if member.talk is not None:
                member.talk.tell(kind, about)

    async def change(self, pieces: Iterable[Sequence[Entry]]) -> None:
        """Entries of settings are others now (worker_settings.changed): returns when all processes use them. One that
        is being started hears of all with its hello."""
        self._version += 1
        there = [(member, member.talk) for member in self.members if member.talk is not None]
        for piece in pieces:
            for _, talk in there if piece else ():
                talk.tell("entries", piece)
            await asyncio.sleep(0)
        await self._heeded({member: talk.ask("change") for member, talk in there})

    async def heed_users(self) -> None:
        """The users are others now: returns when all processes know them."""
        await self._heeded({
            member: member.talk.ask("users") for member in self.members if member.talk is not None
        })  # fmt: skip

    async def _heeded(self, asked: Mapping[EdgePlace, asyncio.Future[Any]]) -> None:
        """An edge process that cannot say that it uses what is so now makes room for one that begins with it."""
        if asked:
            await asyncio.wait(asked.values(), timeout=SILENT * PING_S)
        for member, answer in asked.items():
            talk_ended = answer.done() and isinstance(answer.exception(), Parted)
            if not answer.done() or (answer.exception() is not None and not talk_ended):
                answer.cancel()
                self._replace(member, "it does not say that it uses what was changed")

    async def ask_all(self, kind: str, about: Any = None) -> dict[int, Any]:
        """Process → its answer. Who ends meanwhile, or does not answer in time, is not among them; who is known not to
        answer is not waited for."""
        asked = {
            member.number: member.talk.ask(kind, about)
            for member in self.members
            if member.talk is not None and not member.slow
        }
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
        return sum([member.ready and not member.slow for member in self.members])

    def slow(self) -> dict[int, float]:
        """Those that do not answer: for how many seconds."""
        return {member.number: member.unanswered * PING_S for member in self.members if member.slow}


def _runs(member: EdgePlace, stream: Stream) -> bool:
    """Is this stream of that process."""
    return member.process is not None and stream.peer == f"process {member.process.pid}"


def _unheard(answer: asyncio.Future[Any]) -> None:
    """What it says does not matter, if only that the process has ended."""
    if not answer.cancelled():
        answer.exception()


def _signal(send: Callable[[], None]) -> None:
    try:
        send()
    except ProcessLookupError:
        pass  # it has ended
