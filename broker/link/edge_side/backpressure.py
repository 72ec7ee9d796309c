"""What the port itself tells the edge, and who is paused for whom.

Rule: nothing is told from within the edge's own call, and relief goes to those alone who wait for what has eased: what
waits for an owner that is down would otherwise grow by one read of every session each time another one recovers. Who
sends little does not pause for what others have sent. Must not know commands.
"""

# Example. edge_pending_bytes is 8 MiB. Owner A hangs; sessions 1 to 500 have sent it 8 MiB, session 501 sends to B.
#     presses   1 … 500 are paused for A's link: their connections are not read. 501 is not: it asks another link
#     B's slot has no owner for a while: who sends to it is paused for that slot (`_stranded`), beyond 8 MiB of it
#     spared    session 502 sends A 200 bytes: it is not what fills A, and goes on, up to 64 KiB (SPARED_BYTES)
#     eased     A answers; below 4 MiB its 500 sessions go on, and no one else is told anything

from __future__ import annotations

from broker.core.effects import Effect
from broker.seams.clock import Schedule

from ..owner_port import EffectListener
from ..stats import LinkStats
from .owner_link import OwnerLink
from .slot_channel import SlotChannel

SPARED_PART = 8
"""Of `limit`: what all who send little may send of more than that, together."""


class Backpressure:
    """See the head of this file. `limit`: bytes of unanswered commands of one owner (of one slot, when nobody leads it)
    above which producers are paused."""

    def __init__(self, limit: int, schedule: Schedule, stats: LinkStats) -> None:
        self.listener: EffectListener | None = None
        self.untold: list[Effect] = []
        self.limit = limit
        self._schedule = schedule
        self._stats = stats
        self._stranded: dict[int, set[int]] = {}
        """Slot without an owner → sessions paused for it."""
        self._relieved: set[int] = set()
        self._scheduled = False

    def attach(self, listener: EffectListener) -> None:
        """Who is told."""
        self.listener = listener

    def tell(self, effect: Effect) -> None:
        """Soon."""
        self.untold.append(effect)
        self.soon()

    def soon(self) -> None:
        """What is in `untold` is told soon."""
        if not self._scheduled:
            self._scheduled = True
            self._schedule(self._now)

    def _now(self) -> None:
        self._scheduled = False
        untold, self.untold = self.untold, []
        relieved, self._relieved = self._relieved, set()
        if self.listener is None:
            return
        if untold:
            self.listener.on_effects(untold)
        if relieved:
            self.listener.on_relief(relieved)

    # ── pressure ───────────────────────────────────────────────────────────────────────────────────

    def presses(self, channel: SlotChannel, session: int, nbytes: int) -> bool:
        """Must the session that has just submitted so much for the slot pause."""
        link = channel.link
        if link is None:
            # Without an owner the slot alone counts: what waits for it cannot wait at a link.
            if channel.nbytes <= self.limit:
                return False
            paused = self._stranded.setdefault(channel.slot, set())
        else:
            if not link.congested and link.nbytes <= self.limit:
                return False
            # Where its disk is behind all pause: what comes then waits in its memory.
            if not link.congested and link.spares(session, nbytes, self.limit // SPARED_PART):
                return False
            paused = link.paused
        if not paused:
            self._stats.paused()
        paused.add(session)
        return True

    def eased(self, link: OwnerLink) -> None:
        """The owner holds less, or has said something about its disk."""
        # Half: else each answered SEND would let 500 sessions go, of which one finds room.
        if not link.congested and link.nbytes < self.limit // 2:
            self.relieve(link.relieve())

    def landed(self, slot: int) -> None:
        """The slot has an owner again, or nothing waits for it any more."""
        self.relieve(self._stranded.pop(slot, set()))

    def relieve(self, sessions: set[int]) -> None:
        if sessions:
            self._relieved |= sessions
            self.soon()
