"""What each follower has of a slot led here, and what that allows: what counts, which may join, which must leave.

Rule: decides only, from what it was told; streams, clocks and the metadata store are the caller's.

What counts (docs/adr/0004, maximal isr): an item is told of when it is on the disk of *every* owner that could be in
the isr now. Those are the members of the last record read, and of every change proposed since that may have been
written. So the owner that is elected has it: an election picks from the record as it stands, and that is one of these.

Nobody is told anything before all of them have everything this leader began with (`whole`), and follow its lineage.
Hence the logs of the members only ever differ in their length while a leader writes, and a leader that dies leaves
members of which one has it all: a new leader that finds another member *ahead* has written nothing yet, and gives way.
"""

# Example. A leads slot 9 with B and C; min_in_sync is 2; A begins with lsn 10.
#     BEGUN    pending [(commit 6, lsn 10)]. B says that it has 10, C that it has 8: C is sent 9 and 10. Nothing
#              counts, not even what A has had for hours: if A dies now, whoever is elected must not lack what A has
#              told of
#     WHOLE    C acknowledges 10: all of needed {B, C} have what A began with
#     item 11  is sealed in commit 7: pending [(7, 11)]. ready() is 6 until B and C have acknowledged 11
#     C dies   wanted() is (A, B), which is proposed. Needed are still B and C: the store may not take it, and C,
#              elected, would lack 11. The record comes back with (A, B): needed {B}, 11 counts, the client gets its
#              receipt
#     no answer to the proposal: `unsure` has (A, B). Needed is the union of all that may stand in the store: here B
#         and C
#     C is back  acked 8, then 11: at its floor and at `reached`, so wanted() is (A, B, C). From the proposal on C is
#                needed
#
# Proof that nothing told is lost (I4). Told is what every member of every isr that the store may hold now has on its
# disk. An election takes the record from the store and one of its isr. So the elected has it. Between the proposal
# and its being known both sets are waited for; a change compares revisions, so no third set can come to be meanwhile.

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from enum import Enum
from typing import Final

from broker.core.slots import SlotRecord
from broker.core.states import StateTable

Lineage = Sequence[tuple[int, int]]
"""(epoch, its first lsn), ascending."""

UNKNOWN: Final = -1
"""acked of a follower that has not said what it has."""


def epoch_at(lineage: Lineage, lsn: int) -> int:
    """The epoch in which the item with this lsn was written; 0 = none."""
    # At most 32 entries (journal/log/lineage.py).
    return max((epoch for epoch, first in lineage if first <= lsn), default=0)


class Progress(Enum):
    """Of a follower, for one slot that is led here."""

    ASKED = "asked"
    """It has not answered what it has. Nothing is sent to it, and nothing of it counts."""
    TAIL = "tail"
    """It is on our lineage and is sent what it lacks, from the log."""
    LIVE = "live"
    """It has been sent everything; every commit goes there at once."""
    UNFIT = "unfit"
    """Its log cannot be continued: it needs a seed, and must not be in the isr for that."""
    SEED = "seed"
    """It is sent a copy of the slot; it is not in the isr."""
    AHEAD = "ahead"
    """It has more than we have, and we have written nothing: it shall lead, if it is in the isr, else it needs a
    seed."""


_ANEW: Final = "its stream broke, or it cannot go on, and it is asked anew"
FOLLOWER: Final = StateTable(
    "A follower of one slot, as its leader sees it (`owner/replication/isr.py`; decided in "
    "`owner/replication/leader.py`, `owner/replication/catchup.py`).",
    Progress,
    {Progress.ASKED: "it is a replica of a slot that is led here"},
    {
        Progress.ASKED: {
            Progress.TAIL: "its log goes on from where ours is, or was",
            Progress.UNFIT: "its log is another one",
            Progress.AHEAD: "it has more than we have",
            Progress.SEED: "it is its turn to be sent a copy",
        },
        Progress.TAIL: {
            Progress.LIVE: "nothing is left to be sent",
            Progress.UNFIT: "our log does not go back so far any more",
            Progress.ASKED: _ANEW,
        },
        Progress.LIVE: {Progress.TAIL: "it has no room, or a large body comes first", Progress.ASKED: _ANEW},
        Progress.UNFIT: {Progress.ASKED: "it is out of the isr, and what it has is forgotten"},
        Progress.SEED: {
            Progress.TAIL: "it has all of the copy",
            Progress.UNFIT: "the copy cannot be read here",
            Progress.ASKED: _ANEW,
        },
        Progress.AHEAD: {Progress.ASKED: "it is out of the isr, and what it has is forgotten"},
    },
    {state: "no replica any more, or led here no more" for state in Progress},
)


class FollowerProgress:
    """One follower of one slot, since it was last asked.

    sent     last lsn given to its stream.     acked   last lsn known to be on its disk, or UNKNOWN.
    floor    it may join the isr when it has at least this.
    asked    monotonic time when it was asked what it has.
    answered number of its pong after which its promises cover this slot.
    bodies   large bodies it has been given ahead of their items.    moving  one is on its way.
    told     the last lsn of which it has been told that it counts; UNKNOWN: of none yet."""

    __slots__ = ("acked", "answered", "asked", "bodies", "floor", "member", "moving", "sent", "slot", "state", "told")

    def __init__(self, slot: int, member: str) -> None:
        """It is about to be asked. What it was before is another FollowerProgress, which nobody looks at any more."""
        # A new object each time, not a reset one: acknowledgements that are still on their way name the old one and
        # change nothing.
        self.slot = slot
        self.member = member
        self.state = FOLLOWER.begin(Progress.ASKED)
        self.sent = 0
        # Less than every lsn, so a follower of which nothing is known makes nothing count.
        self.acked = UNKNOWN
        self.floor = 0
        self.asked = 0.0
        self.answered = 0
        self.bodies: set[int] = set()
        self.moving = False
        self.told = UNKNOWN

    def ask(self, now: float) -> None:
        """It is asked what it has."""
        self.asked = now

    def carries(self, body: bool) -> None:
        """Is a large body on its way to it: what comes next waits for that."""
        self.moving = body

    def not_before(self, lsn: int) -> None:
        """It must not be in sync before it has that item."""
        self.floor = max(self.floor, lsn)

    def sent_to(self, lsn: int) -> None:
        """It has been sent everything up to there."""
        self.sent = lsn

    def acks(self, lsn: int) -> None:
        """Everything up to there is on its disk."""
        self.acked = lsn

    def tell(self, lsn: int) -> bool:
        """Is it to be told that everything up to there counts: if its log goes on from ours, and once."""
        if self.told == lsn or not self.fit():
            return False
        self.told = lsn
        return True

    def fit(self) -> bool:
        """Does its log go on from where ours is or was."""
        return self.state is Progress.TAIL or self.state is Progress.LIVE

    def anew(self) -> FollowerProgress:
        """Nothing is known of it any more: one that is about to be asked."""
        if self.state is not Progress.ASKED:
            FOLLOWER.to(self.state, Progress.ASKED)
        return FollowerProgress(self.slot, self.member)

    def answers(self, state: Progress, lsn: int, last: int, pongs: int) -> None:
        """It has said what it has (`lsn`, `state`: judged()), where we have `last`."""
        self.state = FOLLOWER.to(self.state, state)
        self.answered = pongs
        # What we have now: whatever it says of less may be of a log that it has lost since (_may_join).
        self.floor = last
        if state is Progress.TAIL:
            self.sent = self.acked = lsn

    def caught_up(self) -> None:
        """It has been sent everything."""
        self.state = FOLLOWER.to(self.state, Progress.LIVE)

    def falls_behind(self) -> None:
        """What comes next is sent from the log."""
        self.state = FOLLOWER.to(self.state, Progress.TAIL)

    def cannot_go_on(self) -> None:
        """It needs a copy (or another one)."""
        self.state = FOLLOWER.to(self.state, Progress.UNFIT)

    def is_seeded(self) -> None:
        """A copy is on its way, or waits for its turn."""
        self.state = FOLLOWER.to(self.state, Progress.SEED)

    def has_copy(self, lsn: int) -> None:
        """It has been sent all of the copy, up to there."""
        self.state = FOLLOWER.to(self.state, Progress.TAIL)
        self.sent = lsn
        self.bodies.clear()


def judged(mine: Lineage, last: int, theirs: Lineage, lsn: int) -> Progress:
    """What becomes of a follower that holds `lsn` on lineage `theirs`, where we hold `last` on `mine`.

    Two logs that have the item `n` of the same epoch are the same up to it: an epoch has one leader, who writes in
    order, and a follower takes an item only behind the one before it."""
    # Where both have an item, the last of these decides, by the lemma above; what one of them has beyond is a matter
    # of length.
    shared = min(last, lsn)
    if shared and epoch_at(mine, shared) != epoch_at(theirs, shared):
        return Progress.UNFIT
    return Progress.TAIL if lsn <= last else Progress.AHEAD


class LeaderState(Enum):
    """Of a slot that is led here, in one epoch."""

    BEGUN = "begun"
    """Not everybody needed has what we began with: nothing counts, nothing is handed out. Nothing was written in this
    epoch, so another one that has more may still lead."""
    WHOLE = "whole"
    """Everybody needed has what we began with, and follows its lineage: what all of them have on their disks counts."""
    DEPOSED = "deposed"
    """A higher epoch is known, or it was given up here: nothing counts any more."""


LEADER: Final = StateTable(
    "The leader of one slot, in one epoch (`owner/replication/isr.py`; decided in `owner/replication/leader.py`).",
    LeaderState,
    {LeaderState.BEGUN: "its epoch stands in the log"},
    {
        LeaderState.BEGUN: {
            LeaderState.WHOLE: "every in-sync follower has what it began with",
            LeaderState.DEPOSED: "a higher epoch, or given up",
        },
        LeaderState.WHOLE: {LeaderState.DEPOSED: "a higher epoch, or given up"},
    },
    {LeaderState.DEPOSED: "the slot is led here no more"},
)


class LedSlot:
    """A slot that is led here, in one epoch.

    needed    who must have an item before it counts, beside us: the maximal isr.
    reached   every item up to this lsn counts (or will, once it is on our own disk).
    last      lsn of the last item sealed here.
    doubtful  followers that could not go on from what they were sent: they are seeded.
    until     monotonic time up to which dispatching is known to be allowed.
    at_rest   everybody is in sync and everything is known.
    told      every follower in sync has been told that everything up to this lsn counts; UNKNOWN: one may not have."""

    __slots__ = (
        "at_rest", "busy", "doubtful", "followers", "last", "live", "me", "min_in_sync", "needed", "pending", "reached",
        "record", "retry_at", "seed_rate", "state", "told", "unsure", "until",
    )  # fmt: skip

    def __init__(self, record: SlotRecord, me: str, min_in_sync: int, last: int, number: int) -> None:
        """`last`: what we hold. `number`: of the first commit that may hold more."""
        self.record = record
        self.me = me
        self.min_in_sync = min_in_sync
        self.last = last
        self.reached = 0
        self.state = LEADER.begin(LeaderState.BEGUN)
        self.until = 0.0
        # One entry a commit with items of this slot, not one an item: taken off as often as commits are acknowledged.
        self.pending: deque[list[int]] = deque([[number, last, 0]])
        """[commit number, last lsn in it, bytes] of what does not count yet. The first entry stands for `whole`."""
        self.followers: dict[str, FollowerProgress] = {m: FollowerProgress(record.slot, m) for m in self._members()}
        self.live: list[FollowerProgress] = []
        self.at_rest = False
        self.told = UNKNOWN
        self.unsure: list[tuple[str, ...]] = []
        """Proposed isrs of which nobody knows whether they were written."""
        self.busy = False
        """A proposal is on its way."""
        self.retry_at = 0.0
        self.doubtful: set[str] = set()
        self.seed_rate = 1
        """Grows when a seed took so long that the log behind it was gone."""
        self.needed: frozenset[str] = frozenset()
        self._renew()

    # ── proposals ──────────────────────────────────────────────────────────────────────────────────

    def proposes(self) -> None:
        """A proposal is on its way."""
        self.busy = True

    def answered(self) -> None:
        """It is not any more."""
        self.busy = False

    def retry(self, at: float) -> None:
        """The next proposal not before; 0: at once."""
        self.retry_at = at

    def promised(self, until: float) -> None:
        """Everybody needed has promised not to lead before."""
        self.until = until

    def hurry_seeds(self) -> None:
        """A copy took so long that the log behind it was gone: the next one goes faster."""
        self.seed_rate = min(2 * self.seed_rate, 1024)

    # ── what counts ────────────────────────────────────────────────────────────────────────────────

    def ready(self, committed: int) -> int:
        """The highest commit of which everything counts; `committed`: the last one on our own disk."""
        # The first commit that does not count yet, less one; if there is none, whatever is on our disk counts.
        return min(committed, self.pending[0][0] - 1) if self.pending else committed

    def sealed(self, number: int, lsn: int, nbytes: int) -> None:
        """An item of the slot is in commit `number`."""
        self.last = lsn
        if self.pending and self.pending[-1][0] == number:
            self.pending[-1][1] = lsn
            self.pending[-1][2] += nbytes
        else:
            self.pending.append([number, lsn, nbytes])

    def advance(self) -> int:
        """Takes off what counts by now; -1: nothing does, else its bytes."""
        # The record's isr, not `needed`: members that were only proposed may never be written, and do not make enough.
        if not self.pending or self.state is LeaderState.DEPOSED or len(self.record.isr) < self.min_in_sync:
            return -1
        # I3: the slowest of all who could be elected decides. Who is needed and has no progress has said nothing, hence
        # has nothing; where nobody else is needed, what we have counts.
        reached = min((self._acked(member) for member in self.needed), default=self.last)
        taken, pending = -1, self.pending
        # Amortised: each entry is taken off once.
        while pending and pending[0][1] <= reached:
            _, self.reached, nbytes = pending.popleft()
            taken = max(taken, 0) + nbytes
        # The first entry of `pending` is what we began with (I4): once that counts, all of them follow our lineage.
        if taken >= 0 and self.state is LeaderState.BEGUN:
            self.state = LEADER.to(self.state, LeaderState.WHOLE)
        return taken

    def is_deposed(self) -> None:
        """Nothing counts from now on."""
        if self.state is not LeaderState.DEPOSED:
            self.state = LEADER.to(self.state, LeaderState.DEPOSED)

    def _acked(self, member: str) -> int:
        progress = self.followers.get(member)
        return UNKNOWN if progress is None else progress.acked

    # ── who is in ──────────────────────────────────────────────────────────────────────────────────

    def adopt(self, record: SlotRecord) -> None:
        """A newer record of the same epoch: what was proposed before it was written or never will be (every change
        compares the revision)."""
        self.record = record
        # The record that was read is newer than everything that was compared with an older one: those changes are in
        # it, or failed.
        self.unsure.clear()
        self.followers = {m: self.followers.get(m) or FollowerProgress(record.slot, m) for m in self._members()}
        self._renew()

    def _members(self) -> list[str]:
        return [m for m in dict.fromkeys((*self.record.replicas, *self.record.isr)) if m != self.me]

    def propose(self, isr: tuple[str, ...]) -> None:
        """From now on, until a newer record is known, its members are needed too."""
        self.busy = True
        # Needed from here on, not from when it is written: the answer may be lost after the store has taken it, and
        # an election would pick from it.
        if isr not in self.unsure:
            self.unsure.append(isr)
        self._renew()

    def restart(self, member: str) -> FollowerProgress:
        """Nothing is known of the follower any more."""
        progress = self.followers[member] = self.followers[member].anew()
        self.renew_live()
        return progress

    def forget(self, member: str) -> FollowerProgress:
        """The follower is about to lose what it has. What it acknowledges of what was sent before speaks of that."""
        answered = self.followers[member].answered
        progress = self.restart(member)
        # It is not asked again before it has its copy; what it promised still holds.
        progress.answered = answered
        progress.floor = self.last
        return progress

    def renew_live(self) -> None:
        # Looked at for every item sealed: a list that is renewed when a state changes, not searched each time. So are
        # the other two, by the leader's tick: of 256 slots most are at rest, and it has nothing to do for them.
        self.live = [progress for progress in self.followers.values() if progress.state is Progress.LIVE]
        record = self.record
        self.at_rest = (
            len(self.live) == len(self.followers) and len(record.isr) == len(record.replicas) and not self.unsure
        )
        self.told = UNKNOWN

    def _renew(self) -> None:
        needed = set(self.record.isr).union(*self.unsure)
        needed.discard(self.me)
        self.needed = frozenset(needed)
        self.until = 0.0  # promises were counted of other members (I8): they are asked for anew
        self.renew_live()

    def tell(self, lsn: int) -> list[str]:
        """Whom to tell that everything up to there counts."""
        followers = [self.followers[member] for member in self.record.isr if member in self.followers]
        untold = [progress.member for progress in followers if progress.tell(lsn)]
        self.told = lsn if all(progress.told == lsn for progress in followers) else UNKNOWN
        return untold

    def wanted(self, lost: Collection[str]) -> tuple[str, ...] | None:
        """The isr to be proposed; None: none. `lost`: owners that do not answer.

        Never smaller than min_in_sync, with one exception: a member that cannot be caught up (UNFIT) and nobody else
        to take its place. It has to be seeded, for that it has to leave, and nothing counts until it is back."""
        isr = self.record.isr
        joining = [
            m for m, progress in self.followers.items() if m not in isr and m not in lost and self._may_join(progress)
        ]
        unfit = {m for m in isr if m in self.followers and self.followers[m].state is Progress.UNFIT}
        result = tuple(m for m in isr if m not in unfit and m not in lost) + tuple(joining)
        # Fewer would be no use, since nothing counts then, and a danger: whoever is left out need not have what the
        # rest agrees on, and could not be elected should the rest be lost (I11). So the lost stay, and it waits.
        if len(result) < self.min_in_sync:
            result = isr + tuple(joining)
            coming = [m for m in self.followers if m not in isr and m not in lost]
            if unfit and not joining and not coming:
                result = tuple(m for m in isr if m not in unfit)
        # Proposing it as it is settles what became of an earlier proposal.
        return None if result == isr and not self.unsure else result

    def _may_join(self, progress: FollowerProgress) -> bool:
        # I3: as a member it may be elected, so it must have all that was told of (`reached`). What it acknowledged is
        # believed from `floor` on only: below, it may speak of a log that it has lost or been made to forget since.
        return progress.fit() and progress.acked >= max(self.reached, progress.floor)
