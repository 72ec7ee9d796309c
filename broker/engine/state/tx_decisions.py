"""Transactions this slot coordinates: in progress, decided but not told to all, aborted; and who coordinates others.

Rule: a decision is in the log before a participant acts on it; what is asked for and not decided can never be decided
any more; a coordinator that was deposed prepares nothing more here. Must not know what the transactions hold.
"""

# Example. Slot 3 coordinates T over 9 and 12; 12's Done is lost, and 12 asks after a while ("Inquire T").
#     deciding   3 is still at it: "ask again"
#     decided    3 has "decided T" in its log: "committed"
#     neither    3's leader is another one, and its log has nothing: it writes "aborted T", and only then says
#                "never". Its predecessor cannot decide any more: it leads no longer, and this slot's log is the only
#                place (I9)
# 9 and 12 forget what they prepared when they have carried out either; 3 forgets "decided" when both have.

from __future__ import annotations

from broker.core.errors import Code, RefusedError

_REMEMBERED_MS = 3_600_000
"""So long an abort is remembered: nobody prepares for longer, nor asks later."""
_MOST = 65_536
"""So many are remembered, whatever clients do."""


class Decisions:
    """decided   transaction → slots that must still be told to commit.    aborted   transaction → when (epoch ms).
    epochs   other slot → newest epoch of its leaders that have prepared something here."""

    __slots__ = ("aborted", "decided", "deciding", "epochs")

    def __init__(self) -> None:
        self.deciding: set[str] = set()
        self.decided: dict[str, list[int]] = {}
        self.aborted: dict[str, int] = {}
        self.epochs: dict[int, int] = {}

    def decide(self, tx: str, participants: list[int]) -> None:
        """It is committed. Raises RefusedError when a participant has been told that it is not."""
        self.deciding.discard(tx)
        # A participant was told "never" while this leader gathered answers: the first word in the log counts.
        if tx in self.aborted:
            raise RefusedError(Code.NO_SUCH_TRANSACTION, "it took too long and was rolled back; send it again")
        self.decided[tx] = participants

    def abort(self, tx: str, now: int) -> None:
        """It will never be decided."""
        self.aborted[tx] = now
        aborted = self.aborted
        # Never empty: the new one is in it. In order of time, so only the front is looked at.
        while aborted[oldest := next(iter(aborted))] < now - _REMEMBERED_MS or len(aborted) > _MOST:
            del aborted[oldest]

    def newer(self, coordinator: int, epoch: int) -> bool:
        """Is that the first time that the slot's leader of this epoch asks: then it must be logged before the answer.
        Raises RefusedError if a later leader has asked before: a COMMIT keeps its name over a fail-over, and what was
        carried out for the later one would be prepared once more, and found decided."""
        known = self.epochs.get(coordinator, 0)
        if epoch < known:
            raise RefusedError(Code.OWNER_MOVED, f"slot {coordinator} is led in epoch {known} now, not in {epoch}")
        if epoch == known:
            return False
        self.epochs[coordinator] = epoch
        return True
