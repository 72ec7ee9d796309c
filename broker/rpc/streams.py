"""`seams.stream` over gRPC: one bidirectional call per stream, raw bytes, one task that reads and one that writes.

The bytes of a message travel as they are. A message that begins with NUL (no protobuf message does) gets one more
NUL in front; NUL + SOH + text is the farewell that close() sends, because a gRPC client has no other way to say why.
Behind the text may follow NUL + the number of its kind (one byte): releases before 0.2 neither send nor look for it.

Rule: moves bytes; never repairs, repeats or joins anything. No task, timer or future per message beside gRPC's own.
Knows nothing of what is in a message.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final

import grpc
import grpc.aio
from grpc.aio import EOF

from broker.seams.loop_watchdog import StepKindStats
from broker.seams.stream import Ended, EndKind, StreamEnd

log = logging.getLogger("stampede.rpc")

FAREWELL_S = 1.0
"""How long close() may take to get rid of what is queued."""
ESCAPE = b"\0"
FAREWELL = b"\0\x01"
MAX_WHY_BYTES = 1024
ALIVE_BEFORE = "alive: "
"""So begins the text of a farewell that is ALIVE; before 0.2 it was all that said so. Goes with 0.3."""
ENDED: Final = (grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError, grpc.aio.InternalError)
"""What gRPC raises when there is no call (any more) to write to."""

Write = Callable[[bytes], Coroutine[Any, Any, None]]


class GrpcStream:
    """What both ends have in common. The owner of the call runs `read_all` in its own task and calls `finish` last."""

    __slots__ = (
        "_begun", "_cancel", "_end", "_farewell", "_loop", "_over", "_pending", "_queue", "_steps", "_timer", "_wake",
        "_why", "_write", "_writer", "names", "peer",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, peer: str, steps: StepKindStats | None = None) -> None:
        """steps: what measures how long a message from the peer takes us; None: nobody does."""
        self.peer = peer
        self.names: frozenset[str] = frozenset()
        self._steps = steps
        self._loop = loop
        self._end: StreamEnd | None = None
        self._queue: deque[bytes] = deque()
        self._pending = 0
        self._wake: asyncio.Future[None] | None = None
        """There while the writer sleeps."""
        self._write: Write
        self._begun: _Begun | None = None
        """A message that was handed to gRPC already, for the writer to wait for."""
        self._why = Ended("")
        self._over = False
        self._farewell = b""
        self._cancel: Callable[[], object] = bool
        self._timer: asyncio.TimerHandle | None = None
        self._writer: asyncio.Task[None] | None = None

    # -- seams.stream.Stream

    def send(self, message: bytes) -> None:
        if self._over:
            return
        self._pending += len(message)
        if self._wake is None:
            self._queue.append(message)
        else:
            self._begin(message)

    @property
    def pending(self) -> int:
        return self._pending

    def close(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        if self._over:
            return
        self._over = True
        self._why = Ended(why, kind)
        self._farewell = _farewell(self._why)
        self._timer = self._loop.call_later(FAREWELL_S, self._cancel)
        self._rouse()

    def abort(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        if not self._over:
            self._over = True
            self._why = Ended(why, kind)
        self._cancel()

    # -- for the owner of the call

    def certified(self, names: frozenset[str]) -> None:
        """The certificate of the other end is for these components."""
        self.names = names

    def start(self, end: StreamEnd, write: Write, cancel: Callable[[], object]) -> None:
        """`write` sends one message; `cancel` ends the call at once, from within any callback."""
        self._end = end
        self._cancel = cancel
        self._write = write
        self._writer = self._loop.create_task(self._write_all())

    async def read_all(self, read: Callable[[], Awaitable[Any]]) -> Ended:
        """Hands out messages until the other end is done; why it ended. Raises what `read` raises."""
        assert self._end is not None
        deliver = self._end.on_message
        while True:
            message = await read()
            if message is EOF:
                return Ended("ended by the other side")
            if self._over:
                continue  # only the end of the call is waited for
            if message and message[0] == 0:
                if message[:2] == FAREWELL:
                    return _heard(message[len(FAREWELL) :])
                message = message[1:]
            try:
                if (steps := self._steps) is None:
                    deliver(message)
                    continue
                began = steps.begin()
                deliver(message)
                if steps.took(began):
                    steps.tell(f"{len(message)} bytes from {self.peer}")
            except Exception:
                log.exception("a message from %s broke its handler; the stream is given up", self.peer)
                return Ended("internal error")

    def finish(self, why: Ended) -> None:
        """The call has ended. The first reason counts: ours when we ended it."""
        first = self._why if self._over else why
        self._over = True
        self._queue.clear()
        self._pending = 0
        self._cancel = bool
        if self._timer is not None:
            self._timer.cancel()
        self._farewell = b""
        self._rouse()
        if self._end is not None:
            end, self._end = self._end, None
            try:
                end.on_closed(first)
            except Exception:
                log.exception("the end of a stream to %s broke its handler", self.peer)

    async def written(self) -> None:
        """Call after finish(): the call must not end with a write under way, gRPC takes that for a fault of ours."""
        if self._writer is not None:
            await asyncio.wait((self._writer,), timeout=FAREWELL_S)
            self._writer.cancel()

    # -- inside

    def _rouse(self) -> None:
        wake = self._wake
        if wake is not None:
            self._wake = None
            if not wake.done():
                wake.set_result(None)

    def _begin(self, message: bytes) -> None:
        """Nothing is under way: gRPC gets it now, not when the writer has its turn. That is a round of the loop less on
        each of the four ways of a message through a cluster."""
        write = self._write(_escaped(message))
        try:
            self._begun = _Begun(write, write.send(None), len(message))
        except StopIteration:
            self._pending -= len(message)
        except ENDED:
            self._cancel()  # the reader finds out why
        else:
            self._rouse()

    async def _write_all(self) -> None:
        queue, write = self._queue, self._write
        try:
            while True:
                if self._begun is not None:
                    begun, self._begun = self._begun, None
                    await begun
                    self._pending -= begun.size
                while queue:
                    message = queue.popleft()
                    await write(_escaped(message))
                    self._pending -= len(message)
                if self._farewell:
                    await write(self._farewell)
                if self._over:
                    return
                self._wake = self._loop.create_future()
                await self._wake
        except ENDED:
            self._cancel()  # the reader finds out why


def _escaped(message: bytes) -> bytes:
    return message if not message or message[0] else ESCAPE + message


def _farewell(why: Ended) -> bytes:
    text = f"{ALIVE_BEFORE}{why}" if why.kind is EndKind.ALIVE else why.detail
    told = FAREWELL + text.replace("\0", " ").encode()[:MAX_WHY_BYTES]
    return told if why.kind is EndKind.CLOSED else told + bytes((0, why.kind))


def _heard(told: bytes) -> Ended:
    """Of a farewell, without what marks it as one. A kind that this release does not know is none."""
    text, _, number = told.partition(b"\0")
    why = text.decode("utf-8", "replace")
    kind = EndKind(number[0]) if number and number[0] in _KINDS else EndKind.CLOSED
    if why.startswith(ALIVE_BEFORE):
        why, kind = why.removeprefix(ALIVE_BEFORE), EndKind.ALIVE
    return Ended(why or "closed by the other side", kind)


_KINDS: Final = frozenset(EndKind)


class _Begun:
    """The rest of a write that has come to its first wait outside of any task. `size`: bytes of the message."""

    __slots__ = ("_waits_for", "_write", "size")

    def __init__(self, write: Coroutine[Any, Any, None], waits_for: Any, size: int) -> None:
        self._write = write
        self._waits_for = waits_for
        self.size = size

    def __await__(self) -> Generator[Any, Any, None]:
        # What it waits for goes up to the task that waits for us, as if it had begun there.
        write, waits_for = self._write, self._waits_for
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:
                advance = partial(write.throw, error)
            else:
                advance = partial(write.send, sent)
            try:
                waits_for = advance()
            except StopIteration:
                return
