"""Transactions that reach into several slots, and what their sessions ask for meanwhile.

Rule: such a Transact leaves when every Hold it ends has been answered, and all that its session has sent to the other
slots it reaches into; whatever its session submits afterwards waits until it is answered itself. In one slot, order is
kept by the stream; over several streams the edge has to wait.
"""

# Example. A session sends m to slot 3, acknowledges in slot 7 within a transaction, and commits; 3 coordinates:
#     Hold to 7       claims the message for the transaction
#     COMMIT          is delayed: Hold is not answered yet. Sent now, it could reach 3, and 3's Prepare reach 7, before
#                     the Hold does, for these are two streams
#     Hold: Done      nothing is left to wait for: the COMMIT leaves
#     what the session sends now waits: a SEND to 7 could be seen there before the transaction is
#     COMMIT: Done    what waited goes on

from __future__ import annotations

from collections.abc import Iterable

from broker.core.commands import Command, Publish, Transact

from .consumer_replay import PendingCommand
from .slot_channel import SlotChannel


class DelayedTransactions:
    """`active`: a session waits; asked before anything else, because hardly ever one does.

    starting   what a Transact waits for → the Transact: one at most, because its session asks for nothing more."""

    __slots__ = ("_waiting", "_waits", "active", "starting")

    def __init__(self) -> None:
        self.active = False
        self._waiting: dict[int, tuple[PendingCommand, list[Command]]] = {}
        """Session → the Transact that it waits for, and what waits."""
        self._waits: dict[PendingCommand, tuple[SlotChannel, set[PendingCommand]]] = {}
        """Transact → its slot, and what it still waits for."""
        self.starting: dict[PendingCommand, PendingCommand] = {}

    def begin(self, session: int, channel: SlotChannel, entry: PendingCommand, others: Iterable[SlotChannel]) -> bool:
        """The session waits from now on. True: so does the Transact itself. `others`: of the slots it reaches into."""
        self._waiting[session] = (entry, [])
        self.active = True
        before = {hold for hold in entry.holds if not hold.answered}
        for other in others:
            # Over what is unanswered in these slots, of all sessions: bounded by edge_pending_bytes.
            before.update(sent for sent in other.kept.values() if _sent_by(session, sent))
        if before:
            entry.delay()
            self._waits[entry] = (channel, before)
            self.starting.update(dict.fromkeys(before, entry))
        return bool(before)

    def delays(self, command: Command) -> bool:
        """True: the command waits."""
        waiting = self._waiting.get(getattr(command, "session", 0))
        if waiting is None:
            return False
        waiting[1].append(command)
        return True

    def answered(self, before: PendingCommand) -> tuple[SlotChannel, PendingCommand] | None:
        """Which transaction may leave now, if any."""
        entry = self.starting.pop(before, None)
        if entry is None:
            return None
        channel, waits = self._waits[entry]
        waits.discard(before)
        if waits:
            return None
        del self._waits[entry]
        entry.may_leave()
        return channel, entry

    def end(self, session: int, entry: PendingCommand) -> list[Command] | None:
        """The session's transaction is answered: what waited, in order. None: it did not wait for this one."""
        _, waits = self._waits.pop(entry, (None, ()))
        # Refused, or given up, before it could leave.
        for before in waits:
            del self.starting[before]
        waiting = self._waiting.get(session)
        if waiting is None or waiting[0] is not entry:
            return None  # an earlier one, in one slot
        del self._waiting[session]
        self.active = bool(self._waiting)
        return waiting[1]


def _sent_by(session: int, entry: PendingCommand) -> bool:
    command = entry.command
    return isinstance(command, Publish | Transact) and command.session == session
