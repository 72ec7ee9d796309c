"""Fair turns of reading: what connections send much of is taken in portions, round robin, so much per turn of the loop.

A flood would otherwise be read until its socket is empty, megabytes in one turn of the loop, and everybody else's frame
waits behind that. Small reads, as those of who waits for answers, are taken at once, until a turn has read them for
some milliseconds: 400 connections that write 3.9 KB each are a flood, too. Larger ones are taken as long as this turn
of the loop has time for them; what it has not waits in its connection, whose socket is not read meanwhile.

What waits is taken by turns of who it is of: a user, or an address where nobody has logged in by name. So 400
connections of one user have the share of one, and among themselves each has its turn. His reads of some hundred bytes
do not stand behind those of some thousand: who asks and who floods may be the same user. Nor do they behind those of a
thousand other users: half of a turn's time is for them, if they need it.

A session that has taken as many frames of a read as it may in one turn (inbound.breathe) waits in the same row for its
next one: forty of those, each with its own call in every turn, made turns of 132 ms.

A client that sends little waits for the turns of the loop that a flood fills: its message is read in one, stored in the
next, delivered in a third. So the turns are short as long as there is a client that sends little, and long when there
is not: larger portions have more frames that are carried out together.

Rule: bytes of one connection stay in order, and at most one read of it waits. Nothing is held back while there is time:
alone, a flood is as fast as ever. Must not know what bytes mean.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

SMALL = 4096
"""Bytes of a read that waits only when a turn has had many of them."""
TINY = 512
"""… and not behind larger ones."""
ROUND_S = 0.003
"""Reads of more than that get so much of one turn of the loop, all together, …"""
SHORT_ROUND_S = 0.001
"""… or so much, while a client sends small ones."""
SHORT_FOR_S = 0.1
"""So long after a small read: who writes ten times a second has short turns all the time."""
UNSEEN_S = 2e-5
"""Small reads of a turn that took less, all together, are errors of measuring: that of one frame takes 30 µs."""
SMALL_S = 0.003
"""So long small reads may take before anybody asks in how many turns that was; and then as much again in this one."""
PORTIONS = 2
"""A connection gets the time of a turn divided by that at once: as many bytes as took so long before."""
LEAST, FIRST, MOST = 4 * 1024, 6 * 1024, 1024 * 1024
"""Bytes of a portion, at the beginning, and its bounds. Nobody knows what the first ones cost: 16 KiB of ACKs in a
transaction, of which each is another one, have computed for 8 to 12 ms, so that 6 KiB take less than 5. Shorter ones
hold fewer frames that are like each other; 8 and 16 KiB would save half a percent of the calls of a message."""


class ReadSize(Enum):
    """About how large a read is: those of a size wait behind each other."""

    TINY = "tiny"
    SMALL = "small"
    LARGE = "large"


Lane = tuple[str, ReadSize]
"""Whose reads (a user, or an address), and about how large."""


def lane_of(whose: str, size: int) -> Lane:
    """Where a read of so many bytes waits."""
    return whose, ReadSize.LARGE if size > SMALL else ReadSize.SMALL if size > TINY else ReadSize.TINY


class ReadsInTurns(Protocol):
    """A connection that has more than it may bring at once."""

    def read_portion(self) -> None:
        """Its turn has come: hands on the next portion of what waits, if it still does; tells spent() or used()."""
        ...

    @property
    def lane(self) -> Lane:
        """Who shares his turns with it: those of a user or an address whose reads are about as large."""
        ...

    @property
    def waits(self) -> bool:
        """Has it more, for this turn of the loop, and may be read."""
        ...


_Rows = OrderedDict[Lane, OrderedDict[ReadsInTurns, None]]
"""By lane."""


class FairReader(Protocol):
    """A connection. portion: bytes it may bring at a time."""

    portion: int


class ReadTime(Protocol):
    """total: seconds of all reads (seams/loop_watchdog.py)."""

    total: float


class NoReads:
    """Nobody keeps count."""

    total = 0.0


class Rounds:
    """Of one loop. schedule(callback): run it in the next turn of the loop (call_soon).

    reads   what all reads have taken.    until   small ones are taken up to that, then may_go_on() is asked."""

    __slots__ = (
        "_blocked_lanes", "_counted", "_due", "_later", "_left", "_most", "_now", "_round_s", "_schedule", "_serving",
        "_short_until", "_spent", "_tiny", "_total", "_waiting", "reads", "until",
    )  # fmt: skip

    def __init__(
        self, schedule: Callable[[Callable[[], None]], Any], now: Callable[[], float], reads: ReadTime | None = None
    ) -> None:
        self.reads = reads or NoReads()
        self.until = self._most = SMALL_S
        self._counted = False
        """What small reads take now is of one turn."""
        self._blocked_lanes: set[Lane] = set()
        """Lanes of small reads in which some wait."""
        self._schedule = schedule
        self._now = now
        self._spent = 0.0
        self._round_s = ROUND_S
        """Of this turn: that, or SHORT_ROUND_S."""
        self._short_until = 0.0
        self._total = 0.0
        """What all reads had taken when this turn began."""
        self._left = 0
        self._due = self._serving = False
        self._tiny: _Rows = OrderedDict()
        self._waiting: _Rows = OrderedDict()
        self._later: dict[ReadsInTurns, None] = {}
        """Who has asked while others are being served: for the next turn."""

    def has_time(self) -> bool:
        """May a read be taken now; then call spent()."""
        return self._spent < self._round_s and not (self._waiting or self._tiny)

    def may_go_on(self, lane: Lane, size: int) -> bool:
        """Small reads have taken SMALL_S: may one of this lane be taken. It may have been in many turns: nobody looks
        at each of them, that would cost a lone message a call. So they get as much again, and then it was this one.
        While some of a lane wait, others of it wait behind them, but for tiny ones."""
        if not self._counted:
            self._counted = True
            self.until = self.reads.total + SMALL_S
            self._soon()
            return True
        if self._blocked_lanes and (size <= TINY or lane not in self._blocked_lanes) and self.reads.total < self._most:
            return True
        self._blocked_lanes.add(lane)
        self._soon()
        return False

    @property
    def short(self) -> bool:
        """A client sends small reads, for which turns are short."""
        return self._round_s < ROUND_S

    def began(self) -> float:
        """Now a connection is read, or goes on; then call spent() or used()."""
        self._left = 0
        return self._now()

    def left(self, nbytes: int) -> None:
        """So many of the bytes that have just come wait in their session: that they were cheap says nothing."""
        self._left = nbytes

    def spent(self, reader: FairReader, began: float, nbytes: int) -> None:
        """So many bytes of it came since then."""
        span = self.used(began)
        nbytes = max(nbytes - self._left, 0)
        fitting = int(nbytes * self._round_s / PORTIONS / span) if span > 0 else MOST
        # A step that the machine was too busy for says little: one of them halves it at most.
        reader.portion = min(max(fitting, reader.portion // 2, LEAST), MOST)

    def used(self, began: float) -> float:
        """Time of this turn since then. Seconds."""
        span = self._now() - began
        self._spent += span
        self._soon()
        return span

    def wait(self, reader: ReadsInTurns) -> None:
        """It has bytes that wait, and may be read."""
        if self._serving:
            self._later[reader] = None
        else:
            self._enter(reader)
        self._soon()

    def _enter(self, reader: ReadsInTurns) -> None:
        lane = reader.lane
        rows = self._tiny if lane[1] is ReadSize.TINY else self._waiting
        row = rows.get(lane)
        if row is None:
            row = rows[lane] = OrderedDict()
        row[reader] = None

    def _soon(self) -> None:
        if not self._due:
            self._due = True
            self._schedule(self._round)

    def _round(self) -> None:
        """The next turn of the loop."""
        self._due = False
        self._round_s = self._time_of_a_turn()
        self._spent = 0.0
        tiny, waiting = self._tiny, self._waiting
        self._serving = True
        try:
            self._serve(tiny, self._round_s / 2)
            self._serve(waiting, self._round_s)
            self._serve(tiny, self._round_s)
        finally:
            self._serving = False
            for reader in self._later:
                self._enter(reader)
            self._later.clear()
            self._blocked_lanes = {lane for lane in self._blocked_lanes if lane in tiny or lane in waiting}
            self._counted = bool(self._blocked_lanes)
            self._most = self.reads.total + SMALL_S
            self.until = 0.0 if self._blocked_lanes else self._most
            if tiny or waiting:
                self._soon()

    def _time_of_a_turn(self) -> float:
        """Seconds. What reads have taken that did not wait, were small ones: nobody has to count those himself."""
        now, total = self._now(), self.reads.total
        if total - self._total - self._spent > UNSEEN_S:
            self._short_until = now + SHORT_FOR_S
        self._total = total
        return SHORT_ROUND_S if now < self._short_until else ROUND_S

    def _serve(self, rows: _Rows, until: float) -> None:
        """Whose turn it is, one after the other, as long as this turn of the loop has spent less than that."""
        while rows and self._spent < until:
            lane, row = rows.popitem(last=False)
            reader, _ = row.popitem(last=False)
            if row:
                rows[lane] = row
            reader.read_portion()
            if reader.waits:
                self._enter(reader)
