"""Transactions that reach into several slots, and what their sessions ask for meanwhile.

Rule: such a Transact leaves when every Hold it ends has been answered; whatever its session submits afterwards waits
until it is answered itself. In one slot, order is kept by the stream; over several streams somebody has to wait.
"""

from __future__ import annotations

from broker.core.commands import Command

from .lane import Lane
from .mirror import Entry


class Parking:
    """`active`: somebody waits; asked before anything else, because hardly ever anybody does."""

    __slots__ = ("_parked", "_starting", "active")

    def __init__(self) -> None:
        self.active = False
        self._parked: dict[int, tuple[Entry, list[Command]]] = {}
        """Session → the Transact that it waits for, and what waits."""
        self._starting: dict[Entry, tuple[Lane, set[Entry]]] = {}
        """Transact → the Holds that it waits for."""

    def begin(self, session: int, lane: Lane, entry: Entry) -> bool:
        """The session waits from now on. True: so does the Transact itself."""
        self._parked[session] = (entry, [])
        self.active = True
        holds = {hold for hold in entry.holds if not hold.answered}
        if holds:
            entry.parked = True
            self._starting[entry] = (lane, holds)
        return bool(holds)

    def park(self, command: Command) -> bool:
        """True: the command waits."""
        parked = self._parked.get(getattr(command, "session", 0))
        if parked is None:
            return False
        parked[1].append(command)
        return True

    def hold_answered(self, hold: Entry) -> list[tuple[Lane, Entry]]:
        """Which transactions may leave now."""
        ready = []
        for entry, (lane, holds) in list(self._starting.items()):
            holds.discard(hold)
            if not holds:
                del self._starting[entry]
                entry.parked = False
                ready.append((lane, entry))
        return ready

    def end(self, session: int, entry: Entry) -> list[Command] | None:
        """The session's transaction is answered: what waited, in order. None: it did not wait for this one."""
        self._starting.pop(entry, None)
        parked = self._parked.get(session)
        if parked is None or parked[0] is not entry:
            return None  # an earlier one, in one slot
        del self._parked[session]
        self.active = bool(self._parked)
        return parked[1]
