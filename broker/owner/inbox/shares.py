"""Who may have how much of a turn of a cluster's owner: half of it is for sessions that have less here than most, with
what stands before them in their slots; the other half is by order.

Rule: a command is counted once when it is seen and once when it goes, however many turns it waits; each slot keeps its
order. Must not know what a command does.
"""

# Example. Session 1 has asked for 20 wildcards, 85 slots each: 1,700 SUBSCRIBEs, behind which a SEND of session 2 to
# slot 9 stands. Of slot 9 there are 20 before it, 3 units each:
#     turn 1   1,701 are seen. Session 2 has less than the mean, and its SEND stands at 61 units of its slot: those 21
#              go first, then 80 others by order, until the turn has its 300
#     turn 2   what has come meanwhile is seen, nothing else; nobody has little: 100 by order
# Slots are independent there (portions.beside_by_slot), and a Transact touches its own one only: what it has in others
# is asked for by commands of theirs (Prepare), and its session waits for its answer at the edge.

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import itemgetter
from typing import Final

from broker.core.commands import Command, Disconnect, Publish, Subscribe, Unsubscribe

from . import portions
from .portions import LOOKED, units

BEGINS: Final = 3
"""Units of what begins or ends consumers: those of wildcards take less than others."""
_BEGINNING: Final = (Subscribe, Unsubscribe, Disconnect)


class Shares:
    """Of an inbox. seen: so many of it, the first ones, LOOKED at most and what was put back."""

    __slots__ = ("_lines", "_sums", "_total", "_where", "seen")

    def __init__(self) -> None:
        self.seen = 0
        self._total = 0
        self._sums: dict[int, int] = {}
        """Session → what waits of it. Grants and confirmations say no session."""
        self._where: dict[int, dict[int, int]] = {}
        """Session → slot → how many of its commands wait there."""
        self._lines: dict[int, deque[tuple[int, int]]] = {}
        """Slot → session and weight of each command that waits there, in their order."""

    def drain(self, inbox: list[Command]) -> tuple[list[Command], list[Command]]:
        """Drains a turn of it: what goes, and what waits."""
        for command in inbox[self.seen : LOOKED]:
            slot, session, weight = _named(command)
            self._lines.setdefault(slot, deque()).append((session, weight))
            self._adds(slot, session, weight)
        self.seen = max(self.seen, min(len(inbox), LOOKED))
        goes, rest = self._first(inbox)
        left = portions.TURN - sum(map(weigh, goes))
        cut = 0
        for command in rest[: self.seen - len(goes)]:
            if left <= 0:
                break
            left -= weigh(command)
            cut += 1
        goes += rest[:cut]
        for command in goes:
            self._forget(command)
        return goes, rest[cut:]

    def back(self, commands: Iterable[Command]) -> None:
        """These stand in front again, in this order."""
        for command in reversed([*commands]):
            slot, session, weight = _named(command)
            self._lines.setdefault(slot, deque()).appendleft((session, weight))
            self._adds(slot, session, weight)
            self.seen += 1

    def clear(self) -> None:
        """Nothing waits, or something else than what has been seen."""
        self.seen = self._total = 0
        for book in (self._sums, self._where, self._lines):
            book.clear()

    def _adds(self, slot: int, session: int, weight: int) -> None:
        if session:
            self._total += weight
            self._sums[session] = self._sums.get(session, 0) + weight
            where = self._where.setdefault(session, {})
            where[slot] = where.get(slot, 0) + 1

    def _forget(self, command: Command) -> None:
        """It is the first one of its slot."""
        self.seen -= 1
        slot = command.slot
        session, weight = self._lines[slot].popleft()
        if not self._lines[slot]:
            del self._lines[slot]
        if not session:
            return
        self._total -= weight
        self._sums[session] -= weight
        where = self._where[session]
        where[slot] -= 1
        if not where[slot]:
            del where[slot]
            if not where:
                del self._where[session], self._sums[session]

    def _first(self, inbox: list[Command]) -> tuple[list[Command], list[Command]]:
        """What goes ahead, and the others."""
        counts = self._ahead()
        if not counts:
            return [], inbox
        goes: list[Command] = []
        others: list[Command] = []
        left = sum(counts.values())
        for at, command in enumerate(inbox):
            slot = command.slot
            if not left:
                return goes, others + inbox[at:]
            if counts.get(slot):
                counts[slot] -= 1
                left -= 1
                goes.append(command)
            else:
                others.append(command)
        return goes, others

    def _ahead(self) -> dict[int, int]:
        """Slot → how many of it go ahead of the others."""
        mean = self._total / len(self._sums) if self._sums else 0
        small = dict.fromkeys([session for session, weight in self._sums.items() if weight < mean])
        most = portions.TURN // 2
        reach: dict[int, tuple[int, int]] = {}
        for slot in dict.fromkeys([slot for session in small for slot in self._where[session]]):
            before = 0
            for count, (session, weight) in enumerate(self._lines[slot], 1):
                if (before := before + weight) > most:
                    break
                if session in small:
                    reach[slot] = before, count
        ahead: dict[int, int] = {}
        # Those first before whose commands the least stands.
        for slot, (weight, count) in sorted(reach.items(), key=itemgetter(1)):
            if (most := most - weight) < 0:
                break
            ahead[slot] = count
        return ahead


def weigh(command: Command) -> int:
    """Its part of a turn."""
    if type(command) is Publish:
        return 1 + (len(command.run.records) >> 6)
    return BEGINS if type(command) in _BEGINNING else units(command)


def _named(command: Command) -> tuple[int, int, int]:
    """Slot, session, weight."""
    return command.slot, getattr(command, "session", 0), weigh(command)
