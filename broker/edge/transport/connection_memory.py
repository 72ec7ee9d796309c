"""What connections hold in memory together, and which of them give way when that is too much.

A connection holds what its client does not read, frames that have not come to their end, transactions before COMMIT,
what waits behind something unfinished, and pieces of large bodies on their way. Each has a bound of its own; a thousand
connections at theirs are more than any machine has. A connection comes to `note` when it begins to hold something, and
is looked at ten times a second (seldomer where there are many) until it holds nothing: one that holds nothing costs
nothing.

Connections may hold what queues leave of the memory of the process, and a quarter of it in any case. Near that those
that hold most are not read any more until the rest fits; in vain for some seconds, or beyond it, the one that holds
most ends, by name, one after another until it fits.

Rule: sizes are asked for, never kept in step. Must not know frames.
"""

from __future__ import annotations

import logging
from heapq import heappush, heapreplace
from typing import Final, Protocol

from broker.core.errors import Code
from broker.core.memory import NEVER, Memory
from broker.core.metrics import Metric
from broker.core.reasons import Reason
from broker.seams.clock import Clock

from .timers import TimerWheel

log = logging.getLogger("stampede.memory")

LOOK_S: Final = 0.1
EACH_S: Final = 0.00005
"""Between two looks beside that, for each connection that holds something: a twentieth of the CPU at most."""
PIECE: Final = 1000
"""Connections looked at in one turn of the loop: a millisecond or two."""
MOST: Final = 100
"""Those that hold most are known; further ones the next look finds."""
PATIENCE_S: Final = 5.0
"""So long it may stay near the bound while those that hold most are not read: a client that is asked to wait for its
own COMMIT waits for ever."""
HOLD: Final = "memory"


class MemoryHolder(Protocol):
    """A connection, by what it holds."""

    @property
    def id(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def told(self) -> str: ...

    @property
    def held(self) -> int:
        """Bytes that it keeps in memory now."""
        ...

    @property
    def writable(self) -> bool:
        """Its socket takes more."""
        ...

    def pause_reading(self, why: str) -> None: ...
    def resume_reading(self, why: str) -> None: ...
    def fail(self, code: Code, detail: str, receipt: bytes | None = None, at_once: bool = False) -> None: ...
    def abort(self, reason: Reason, detail: str = "") -> None: ...


Sized = tuple[int, int, MemoryHolder]
"""What it holds, its number, itself."""


class MemoryClock(Protocol):
    """The edge, by what tells when to look."""

    @property
    def beats(self) -> TimerWheel: ...
    @property
    def clock(self) -> Clock: ...


class Holding:
    """Of one edge. held   those of which something is kept back: their sockets are not read."""

    __slots__ = ("_armed", "_edge", "_held", "_memory", "_since", "ended", "paused", "sessions")

    def __init__(self, edge: MemoryClock, memory: Memory) -> None:
        self._edge = edge
        self._memory = memory
        self.sessions: dict[MemoryHolder, None] = {}
        self._held: dict[MemoryHolder, None] = {}
        self._armed = False
        self._since = 0.0
        """Since when it has been near the bound; 0: it is not."""
        self.paused = self.ended = 0

    def note(self, session: MemoryHolder) -> None:
        """It holds something from now on."""
        if self._memory.limit < NEVER:
            self.sessions[session] = None
            if not self._armed:
                self._arm()

    def _arm(self) -> None:
        self._armed = True
        edge = self._edge
        edge.beats.deadline(edge.clock.monotonic() + LOOK_S + EACH_S * len(self.sessions), self._look)

    # ── a look ─────────────────────────────────────────────────────────────────────────────────────

    def _look(self) -> None:
        self._part(list(self.sessions), 0, 0, [])

    def _part(self, sessions: list[MemoryHolder], start: int, total: int, most: list[Sized]) -> None:
        """Looks at the next PIECE; then acts on all of them."""
        for session in sessions[start : start + PIECE]:
            size = session.held
            if not size and session not in self._held:
                self.sessions.pop(session, None)
                continue
            total += size
            if len(most) < MOST:
                heappush(most, (size, session.id, session))
            elif size > most[0][0]:
                heapreplace(most, (size, session.id, session))
        if start + PIECE < len(sessions):
            self._edge.beats.soon(lambda: self._part(sessions, start + PIECE, total, most))
            return
        self._memory.sessions = total
        self._act(total, sorted(most, reverse=True))
        self._armed = False
        if self.sessions:
            self._arm()

    def _act(self, total: int, most: list[Sized]) -> None:
        memory = self._memory
        room = max(memory.limit - memory.queues, memory.limit // 4)
        near = room // 10 * 8
        if total <= near or memory.used() <= memory.near:
            self._since = 0.0
            if self._held and total <= room // 10 * 6:
                self._release()
            return
        now = self._edge.clock.monotonic()
        self._since = self._since or now
        left = self._end(total, room, most) if total > room else total
        if left > near and now - self._since >= PATIENCE_S:
            left = self._end(left, near, most[:1])  # one at a time: the others may still make it
        self._pause_largest(left, near, most)

    def _end(self, total: int, room: int, most: list[Sized]) -> int:
        """The connections that hold most go until the rest fits."""
        for size, _, session in most:
            if total <= room:
                break
            if session.closed:
                continue
            self.ended += 1
            total -= size
            detail = (
                f"this connection holds {size} bytes (unread messages, transactions, unfinished frames), more than any "
                "other, and memory is full: read and COMMIT sooner"
            )
            log.warning("%s is ended: %s. %s", session.told, Code.MEMORY_FULL.text, self._memory.told(total + size))
            if session.writable:
                session.fail(Code.MEMORY_FULL, detail, at_once=True)
            else:
                session.abort(Reason.MEMORY_FULL, detail)  # it reads nothing: an ERROR would only wait with the rest
        return total

    def _pause_largest(self, total: int, near: int, most: list[Sized]) -> None:
        """Those that hold most are not read until the rest fits."""
        for size, _, session in most:
            if total <= near:
                return
            total -= size
            if session not in self._held and not session.closed:
                if not self._held:
                    log.warning("connections hold too much: %s. Those that hold most wait", self._memory.told(total))
                self.paused += 1
                self._held[session] = None
                session.pause_reading(HOLD)

    def _release(self) -> None:
        held, self._held = self._held, {}
        for session in held:
            session.resume_reading(HOLD)

    def forget(self, session: MemoryHolder) -> None:
        """Its connection is over."""
        self.sessions.pop(session, None)
        self._held.pop(session, None)

    def metrics(self) -> list[Metric]:
        return [
            Metric("stomp_memory_sessions_paused_total", "counter", PAUSED, [({}, float(self.paused))]),
            Metric("stomp_memory_sessions_ended_total", "counter", ENDED, [({}, float(self.ended))]),
        ]


PAUSED = "Connections not read for a while because they held most when memory was short."
ENDED = "Connections ended because they held most when memory was full (1610)."
