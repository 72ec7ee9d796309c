"""Keeps what all queues of a process hold in memory within the bound of the process (core/memory.py).

Near the bound every queue may have less in memory than its setting says: `Budget.room`, halved as long as memory is
near the bound, doubled second by second when it is well below. Queues that have more than that put it away (engine/
page_out.py): the queue that holds most first, and all keep the same. At the bound producers wait as they do for a full
address (core.effects.AddressBlocked): only what goes to queues waits, so consumers go on, and make room. Beyond the
wall, a quarter more, messages are refused by name: those who were told to wait have not, or what is held is with
consumers.

Rule: a turn looks at so many queues and runs (PIECE), and goes on in the next one. Must not know how queues are kept.
"""

# Example, memory.limit_bytes 1 GiB, a queue may have 64 MiB in memory. A consumer has stopped reading, producers go
# on.
#     near      used passes `near`: every queue may have 32 MiB, then 16 … Those that have more write the rest to the
#               log, or forget what is there already; the fast queues with 1 MiB notice nothing
#     full      used reaches the limit all the same: senders to queues are told to wait with their next message
#               (AddressBlocked)
#     beyond    a quarter more: messages are refused by name (ERROR 1610), as whoever was to wait has not
#     low       well below again: 32 MiB, a step a second, then no bound but the settings'

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from broker.core.commands import Prepare, Publish, Transact
from broker.core.effects import AddressBlocked, Refused, Turn
from broker.core.errors import Code, RefusedError
from broker.core.memory import NEVER
from broker.core.metrics import Metric
from broker.engine.engine import Engine
from broker.engine.queue.queue import Queue
from broker.engine.state.budget import Budget

from ..commit.release_gate import Touched

log = logging.getLogger("stampede.memory")

PIECE: Final = 1000
"""Runs put away in one turn, or as many queues looked at four times over: 2 ms."""
LOOK_S: Final = 0.1
"""So often it is looked while memory is short, also when nothing happens."""
EASE_S: Final = 1.0
"""Between two steps of giving room back."""
LEAST: Final = 4096
"""Bytes that a queue may have in memory in any case, beside what its consumers hold."""
MOST_WAITING: Final = 100_000
"""Producers (and addresses) remembered as waiting: the eldest goes on beyond that, and is told again."""
RELIEVED: Final = 1000
"""Producers told to go on in one turn."""

Waiting = tuple[int, int, str]
"""Session, slot, address."""


class Pressure:
    """engines   those led here.    again   what was with consumers may be put away too (page_out.py).
    full   producers wait.    beyond   they are refused.    on   memory is short, or was lately."""

    __slots__ = (
        "_again",
        "_armed",
        "_budget",
        "_eased",
        "_engines",
        "_later",
        "_now",
        "_relief",
        "_rest_until",
        "_said_full",
        "_waiting",
        "_wake",
        "_walk", "beyond",
        "full",
        "most",
        "on",
        "put_away",
        "refused",
        "waits",
    )  # fmt: skip

    def __init__(
        self,
        budget: Budget,
        engines: Mapping[int, Engine],
        most: int,
        again: bool,
        now: Callable[[], float],
        later: Callable[[float, Callable[[], None]], Any],
        wake: Callable[[], None],
    ) -> None:
        """most: bytes of a queue in memory by the settings. now: seconds of the monotonic clock."""
        self._budget = budget
        self._engines = engines
        self._again = again
        self._now = now
        self._later = later
        self._wake = wake
        self.most = most
        self.on = self.full = self.beyond = False
        self.waits = self.refused = self.put_away = 0
        self._armed = self._said_full = False
        self._eased = self._rest_until = 0.0
        self._walk: Iterator[tuple[Engine, Queue]] | None = None
        self._waiting: dict[Waiting, None] = {}
        self._relief: list[Waiting] = []

    def allow(self, most: int) -> None:
        """Other settings: bytes of a queue in memory."""
        self.most = most

    # ── once a turn, while memory is short ─────────────────────────────────────────────────────────

    def look(self, turn: Turn, touched: Touched, spill: bool) -> None:
        """Call it in a turn in which what is counted is near the bound, or `on`. spill: the disk takes more."""
        memory = self._budget.memory
        used = memory.used()
        self.beyond = used >= memory.wall
        if used >= memory.limit:
            self._shut(used)
        elif self.full and used < memory.near:
            # Not at the limit: producers that go on at once would be there again at once.
            self.full = False
            # Told in pieces of 1,000 a turn: all at once they would send at once.
            self._relief += self._waiting
            self._waiting.clear()
        if self._relief:
            self._relieve(turn)
        if used > memory.near:
            self._press(turn, touched, spill, used)
        elif self.on and used < memory.low:
            self._ease(used)
        if (self.on or self._relief) and not self._armed:
            self._armed = True
            self._later(LOOK_S, self._due)

    def _due(self) -> None:
        self._armed = False
        self._wake()

    def _shut(self, used: int) -> None:
        self.full = True
        if not self._said_full:
            self._said_full = True
            log.warning(
                "memory full: %s. Producers wait; beyond %s they are refused (ERROR 1610), consumers go on",
                self._budget.memory.told(used), f"{self._budget.memory.wall >> 20:,} MiB",
            )  # fmt: skip

    def _relieve(self, turn: Turn) -> None:
        now, self._relief = self._relief[:RELIEVED], self._relief[RELIEVED:]
        turn.effects.extend([AddressBlocked(session, slot, address, False) for session, slot, address in now])

    # ── putting away ───────────────────────────────────────────────────────────────────────────────

    def _press(self, turn: Turn, touched: Touched, spill: bool, used: int) -> None:
        if not self.on:
            self.on = True
            log.warning("memory is short: %s. Queues that hold most go to disk", self._budget.memory.told(used))
            self._give(self.most // 2)
        if self._walk is None:
            # A walk has just ended: what it put away needs a moment to show.
            if self._now() < self._rest_until:
                return
            self._walk = self._queues()
        left = 4 * PIECE
        for engine, queue in self._walk:
            left -= 1
            # A walk goes over many turns.
            led = self._engines.get(engine.number) is engine  # slots come and go between two pieces
            if led and not queue.deleted and queue.weight > self._budget.room:
                gone = engine.put_away(queue, max(left // 4, 1), turn, spill, self._again)
                if gone:
                    self.put_away += gone
                    touched[engine] = None
                    left -= 4 * gone
            if left <= 0:
                self._wake()
                return
        self._walk = None
        # A whole walk did not bring it below: everybody may have half of what it had.
        self._rest_until = self._now() + LOOK_S
        self._give(max(self._budget.room // 2, LEAST))

    def _queues(self) -> Iterator[tuple[Engine, Queue]]:
        """All there are now; the next one is looked at whether it still is."""
        for engine in list(self._engines.values()):
            for queue in engine.queues():
                yield engine, queue

    def _ease(self, used: int) -> None:
        if self._now() < self._eased + EASE_S:
            return
        room = self._budget.room * 2
        if room < self.most:
            self._give(room)
            return
        self.on = self.full = self._said_full = False
        self._walk = None
        self._give(NEVER)
        log.info("enough memory again: %s", self._budget.memory.told(used))

    def _give(self, room: int) -> None:
        self._eased = self._now()
        self._budget.give(room)
        for engine in self._engines.values():
            engine.make_room()

    # ── producers ──────────────────────────────────────────────────────────────────────────────────

    def meets(self, engine: Engine, command: Publish, turn: Turn) -> bool:
        """A message comes while memory is full: its sender is to wait with the next one. True: this one is refused."""
        # What an owner sends itself (dead letters, diverts) was accepted long ago: it must not wait for a client.
        if not command.session:
            return False
        if self.beyond:
            engine.refuse(command, self.error(), turn)
            return True
        self._tell(command, turn)
        return False

    def meets_parts(self, engine: Engine, command: Transact | Prepare, turn: Turn) -> bool:
        """The same for a transaction, if it brings messages."""
        parts = [part for part in command.parts if type(part) is Publish]
        if not parts:
            return False
        if self.beyond:
            if isinstance(command, Transact):
                engine.refuse(command, self.error(), turn)
            else:
                turn.effects.append(Refused(command.session, command.seq, Code.MEMORY_FULL))
            return True
        for part in parts:
            if part.session:
                self._tell(part, turn)
        return False

    def error(self) -> RefusedError:
        """What a producer is told then."""
        self.refused += 1
        return RefusedError(
            Code.MEMORY_FULL, "retry when some messages have been consumed (or raise memory.limit_bytes)"
        )

    def _tell(self, part: Publish, turn: Turn) -> None:
        key = (part.session, part.slot, part.address)
        waiting = self._waiting
        if key not in waiting:
            self.waits += 1
            if len(waiting) >= MOST_WAITING:
                eldest = next(iter(waiting))
                del waiting[eldest]
                turn.effects.append(AddressBlocked(*eldest, False))
            waiting[key] = None
        # Told each time: an edge that has heard of it before may have forgotten.
        turn.effects.append(AddressBlocked(*key, True))

    # ── for people ─────────────────────────────────────────────────────────────────────────────────

    def metrics(self) -> list[Metric]:
        return [
            Metric("stomp_memory_waits_total", "counter", WAITS, [({}, float(self.waits))]),
            Metric("stomp_memory_refused_total", "counter", REFUSED, [({}, float(self.refused))]),
            Metric("stomp_memory_put_away_total", "counter", PUT_AWAY, [({}, float(self.put_away))]),
        ]


WAITS = "Times a producer was told to wait with an address because memory was full."
REFUSED = "Messages and transactions refused because memory was full (ERROR 1610)."
PUT_AWAY = "Runs of messages that were put out of memory because it was short."
