"""A COMMIT of many parts or bytes on its way, in pieces of some milliseconds; or this slot's share of one over several
slots, when it is prepared or decided; or the dead letters that a turn has made, when they are many.

All of it counts or nothing, for the disk as for everybody who looks: so nothing else happens in this owner's slots
between two pieces, nothing is sealed, and its turn ends when all of it is in the log. What goes on is the loop:
sockets, leases, followers, the questions of others.

Rule: a caller that wants to look at a slot outside of a turn has the rest of it done first (Shard.finish).
"""

# Example. A COMMIT of 50,000 SENDs, 10 µs each: half a second. In pieces of 100 units it is 500 steps of the loop;
# between them sockets, leases and heart-beats are served, while inbox and engines of this owner stand still and
# nothing is sealed (GroupCommit.keep_open). A crash within: nothing of it was sealed, so nothing of it happened (C54).

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from broker.core.commands import Command
from broker.core.effects import Turn
from broker.core.message import Blob
from broker.core.records import GroupRecord, LogRecord, RunRecord
from broker.engine.publishing.prepared import PIECE

from ..commit.group_commit import Unwritable
from ..commit.release_gate import Touched

TurnParts = tuple[Turn, Touched, list[Blob]]
"""A turn, what it has touched, and large bodies that are to be forgotten at its end."""


class GrowingLog(Protocol):
    """Where its records go."""

    def append(self, record: LogRecord) -> None: ...
    def append_in_pieces(self, record: LogRecord) -> Iterator[None]: ...


class LargeCommit:
    """turn, touched, blobs   those of the turn that it is part of.
    commands   what it carries out; none: it was decided."""

    __slots__ = ("_work", "blobs", "commands", "touched", "turn")

    def __init__(
        self,
        log: GrowingLog,
        command: Command | None,
        work: Iterator[None],
        turn: Turn,
        touched: Touched,
        blobs: list[Blob],
    ) -> None:
        """work: carries it out, piece by piece, into `turn`."""
        self.commands = [] if command is None else [command]
        self.turn = turn
        self.touched = touched
        self.blobs = blobs
        # It may hold on to what it looks at: nothing of that goes on in between.
        self._work = self._all(work, log)

    def go_on(self) -> bool:
        """A piece. False: that was all."""
        return next(self._work, self) is None

    def _all(self, work: Iterator[None], log: GrowingLog) -> Iterator[None]:
        # Its checks come first; when one refuses, nothing has been changed.
        yield from work
        yield
        records = self.turn.appends.copy()
        self.turn.appends.clear()
        left = PIECE
        for record in records:
            cost = _cost(record)
            try:
                # Each dead letter is a small group of its own: a step of the loop for each would cost more than it.
                if cost <= PIECE:
                    log.append(record)
                else:
                    yield from log.append_in_pieces(record)
            except Exception as error:
                raise Unwritable(record.slot) from error
            left -= cost
            if left <= 0:
                left = PIECE
                yield
        yield  # the end of the turn is a step by itself: it looks at all that was touched


def _cost(record: LogRecord) -> int:
    """Of writing it: one for each record, and for each 8 KiB of messages."""
    records = record.records if isinstance(record, GroupRecord) else [record]
    return len(records) + (sum([each.run.nbytes for each in records if isinstance(each, RunRecord)]) >> 13)
