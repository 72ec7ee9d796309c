"""What an edge knows of its consumers: enough to attach them to another owner as if nothing had happened.

Rule: in the client ack modes every message that the client was given, and whose settlement nobody has answered yet, is
in `ids` or in `aside`, in the order of delivery, until it is given back; in AckMode.AUTO only what has a large body is,
until all of that has come, and what was delivered else since an owner last said that everything is durable is in
`spans`. Must not know links nor which owner leads a slot.
"""

# Example, ack:client. The client was given 1 2 3 4 5 of slot 9 and acknowledges 3, which means 1 2 3 (C43); A dies.
#     ids      4 5           given, not settled
#     aside    ACK → 1 2 3   settled by an ACK that nobody has answered
#     again    Subscribe(resume: held 1…5) to B, then the ACK with its number. B gives 1 … 5 back to this consumer, so
#              that the ACK settles 1 2 3. If A had done so before it died, B finds them settled already (ghosts), and
#              the ACK changes nothing
# Why held in the order of delivery: an ACK is for all before it, and B must count the same "before".
#
# In AckMode.AUTO nothing is held: what was delivered counts as consumed (C41). `spans` says what was delivered since
# an owner last said that all of that is settled on the disk, so that a new owner does not deliver it a second time.

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from typing import Final

from broker.core.address import AckMode, Outcome
from broker.core.commands import UNLIMITED, Command, Hold, Publish, Resume, Settle, Subscribe
from broker.core.ledger import covered as up_to
from broker.core.message import BLOB, DURABLE, Run
from broker.core.spans import Span, append_ids, insert_ids, inside

from ..bodies.edge_bodies import BodyUp

SIZE = 96
"""Bytes of a command on the wire, about, besides what it brings."""
DEAD: Final = 32
"""So many places of settled messages are passed over for each message held, before what is held is copied into a dict
without them: that costs about as much."""


class PendingCommand:
    """A command that waits for its answer. By identity; `number` is unique in its slot.

    seq         what the edge called it; 0: nobody wants to hear of it (any more).
    consumer    whose life it begins, changes or ends.
    resume      it attaches a consumer again: made anew for each replay.
    answered    a Hold that is kept until its transaction ends.
    happened    its effect has been seen: on a replay only its answer is asked for.
    holds       the Holds that end with it.
    delayed     a Transact that may not leave yet.
    turn        the sequence it is numbered in, alone; 0: that of the channel.
    body        the large body of a Publish, if it can be sent again.
    claimed     a Hold that a new owner (or stream) was told of: what it covers was claimed there, whether the
                transaction had happened or not.
    firm        a Hold: all that it covers is durable.
    own         nobody has asked for it: the port did. A refusal means that it is no more.
    """

    __slots__ = (
        "answered", "body", "claimed", "command", "consumer", "delayed", "firm", "happened", "holds",
        "nbytes", "number", "own", "resume", "seq", "turn",
    )  # fmt: skip

    def __init__(self, number: int, command: Command, seq: int, nbytes: int) -> None:
        self.number = number
        self.command = command
        self.seq = seq
        self.nbytes = nbytes
        self.consumer: ReplayedConsumer | None = None
        self.resume = False
        self.answered = False
        self.happened = False
        self.holds: list[PendingCommand] = []
        self.delayed = False
        self.turn = 0
        self.claimed = self.firm = self.own = False
        self.body: BodyUp | None = None

    def attaches_again(self, consumer: ReplayedConsumer) -> None:
        """It tells a new owner, or stream, of the consumer."""
        self.resume, self.consumer = True, consumer

    def alone_in(self, turn: int) -> int:
        """The sequence it is numbered in."""
        self.turn = turn
        return turn

    def delay(self) -> None:
        """It may not leave yet."""
        self.delayed = True

    def may_leave(self) -> None:
        """It may leave now."""
        self.delayed = False

    def answer(self) -> None:
        """A Hold is answered, and stays for those who lead its slot next; nobody wants to hear of it any more."""
        self.answered = True
        self.seq = 0

    def end_holds(self) -> list[PendingCommand]:
        """The Holds that ended with it."""
        holds, self.holds = self.holds, []
        return holds

    def concerns(self, consumer: ReplayedConsumer | None) -> ReplayedConsumer | None:
        """Whose life it begins, changes or ends; None: nobody's."""
        self.consumer = consumer
        return consumer

    def carries(self, body: BodyUp) -> None:
        """Its large body can be sent again."""
        self.body = body

    def of_port(self, consumer: ReplayedConsumer, seq: int) -> None:
        """A Settle of the port's own, `seq` on the wire."""
        assert isinstance(self.command, Settle)
        self.own, self.consumer, self.command.seq = True, consumer, seq
        consumer.set_aside(self, self.command.ids)


class ReplayedConsumer:
    """One consumer.

    subscribed    its Subscribe has been answered.
    closing       its Unsubscribe or Disconnect has been submitted: it gets nothing any more.
    leaving       that stands in its channel now, behind what it settles and holds; what comes later concerns nothing.
    outstanding   bytes delivered and not granted back.
    ids           message → is it durable.
    aside         what unanswered Settles and open Holds cover, in the order of these commands.
    backs         unanswered Settles that give messages back.
    holds         id named by a Hold of an open transaction → that Hold.
    opening       which of its slot's openings it was last attached behind.
    old           spans that the Barrier under way covers.
    tries         attempts of what it was given again, as long as it is known.
    """

    __slots__ = (
        "_back_of", "_passed", "_removed", "_unfiled", "aside", "backs", "closing", "command", "confirms", "ended",
        "holds", "ids", "leaving", "number", "old", "opening", "outstanding", "slot", "spans", "subscribed", "tries",
    )  # fmt: skip

    def __init__(self, command: Subscribe) -> None:
        self.number = command.consumer
        self.slot = command.slot
        self.command = command
        self.confirms = command.ack is AckMode.AUTO or command.browse
        self.subscribed = False
        self.closing = False
        self.leaving = False
        self.ended = False
        self.outstanding = self.opening = 0
        self.ids: dict[int, bool] = {}
        self.aside: dict[PendingCommand, list[int]] = {}
        self.holds: dict[int, PendingCommand] = {}
        self.backs: dict[PendingCommand, None] = {}
        self._back_of: dict[int, PendingCommand] = {}
        """Message → which of `backs` gives it back, itself or by a Hold that it ends."""
        self._unfiled: dict[PendingCommand, None] = {}
        """Those of `backs` of which that is not written down yet: most are answered before anything comes again."""
        self.spans: list[Span] = []
        self.old: list[Span] = []
        self.tries: dict[int, int] = {}
        self._removed = self._passed = 0

    @property
    def given(self) -> bool:
        """Was anything delivered to it that it may still have."""
        return bool(self.outstanding or self.ids or self.aside or self.spans or self.old)

    # ── its life ───────────────────────────────────────────────────────────────────────────────────

    def begins(self) -> None:
        """Its Subscribe is answered."""
        self.subscribed = True

    def closes(self) -> None:
        """What ends it has been submitted: it gets nothing any more."""
        self.closing = True

    def leaves(self) -> None:
        """What ends it stands in its channel."""
        self.leaving = True

    def ends(self) -> None:
        """A browser has seen everything."""
        self.ended = True

    # ── deliveries ─────────────────────────────────────────────────────────────────────────────────

    def delivered(self, run: Run, cost: int) -> None:
        """The client is about to be given the run."""
        self.outstanding += cost
        # A large body in AUTO is consumed when all of it has come, not when it began: until then it is held like any
        # other.
        if self.confirms and not (self.command.bodies and run.flags & BLOB):
            if self.command.browse:
                insert_ids(self.spans, run.ids)
            else:
                append_ids(self.spans, run.ids)
            return
        if self.backs:
            self._came_back(run.ids)
        if run.attempts or self.tries:
            self.learns(run)
        lasting = bool(run.flags & DURABLE)
        # The usual delivery, without a list.
        if len(run.records) == 1:
            self.ids[run.ids[0]] = lasting
        else:
            self.ids.update(dict.fromkeys(run.ids, lasting))

    def learns(self, run: Run) -> None:
        """How often messages that the client has, or is about to be given, have been out in vain."""
        if run.attempts:
            self.tries.update(dict.fromkeys(run.ids, run.attempts))
        else:  # counted anew: its leader lost the counts
            for i in run.ids:
                self.tries.pop(i, None)

    def granted(self, nbytes: int) -> None:
        """So much is given back to its owner."""
        self.outstanding -= nbytes

    def attached(self, opening: int) -> None:
        """The owner of that opening knows of it."""
        self.opening = opening

    def may_read_body(self, message: int) -> bool:
        """May its body be asked for in its name."""
        return message in self.ids

    def unseen(self, run: Run) -> Run | None:
        """A browser that began anew sees the queue from its head: what of the run it has not seen yet."""
        seen = self.spans
        # The usual run of a browser, which never began anew, is behind all it has seen: one comparison.
        if not seen or run.ids[0] > seen[-1][1]:
            return run
        fresh = [n for n, i in enumerate(run.ids) if not inside(seen, i)]
        if len(fresh) == len(run.records):
            return run
        if not fresh:
            return None
        return run.pick(fresh)

    def _came_back(self, ids: Iterable[int]) -> None:
        """A message that a Settle gives back was delivered again: that Settle has happened, as a whole, and on a replay
        it would take the new delivery away."""
        for entry in self._unfiled:
            for each in (entry, *entry.holds):
                covered = self.aside.get(each, ())
                # A dict of its own is half the work, and one NACK may give back all there is.
                if self._back_of:
                    self._back_of.update(zip(covered, repeat(entry)))
                else:
                    self._back_of = dict.fromkeys(covered, entry)
        self._unfiled.clear()
        for i in ids:
            # All that it gives back is known no more after the first one.
            if (known := self._back_of.get(i)) is not None:
                self._happened(known)

    def _happened(self, entry: PendingCommand) -> None:
        for each in [entry, *(hold for hold in entry.holds if hold in self.aside)]:
            each.happened = True
            self.forget(each)

    def let_go(self) -> None:
        """Another owner (or stream) begins. What unanswered Settles give back may have reached another consumer, of any
        edge, and is that one's then. So it is not claimed again: if nobody has it, it is in the queue, and that is all
        they were about (but for a delay). A REJECT is repeated: its messages go to nobody but the dead letters.
        The same goes for what a consumer that is leaving held for a transaction that was not committed before."""
        for entry in list(self.backs):
            # A NACK or a RETURN that is repeated could take a message away from somebody who has got it since.
            if getattr(entry.command, "outcome", None) is not Outcome.REJECT:
                self._happened(entry)
        if self.leaving:
            for hold in dict.fromkeys(self.holds.values()):
                self._happened(hold)

    # ── settlements ────────────────────────────────────────────────────────────────────────────────

    def set_aside(self, entry: PendingCommand, ids: Sequence[int]) -> None:
        """`ids` are settled by the entry, or held by it. What open Holds cover stays with them until it is answered."""
        if self.leaving:
            return
        covered: list[int] = []
        words: list[int] = []
        hold = isinstance(entry.command, Hold)
        alone = isinstance(entry.command, Settle) and entry.command.outcome is Outcome.UNREADABLE
        # Firm until something of it is not durable.
        entry.firm = hold
        for i in ids:
            # An ACK in a transaction was said before, by a Hold; the COMMIT's Settle ends it.
            held = self.holds.get(i)
            if held is not None and not hold:
                entry.holds.append(held)
                del self.holds[i]
            elif i not in self.ids:
                continue
            elif self.command.ack is AckMode.CLIENT and not alone:
                words.append(i)
            else:
                # client-individual: this one (C44). Nor does one that never came to its client say anything of those
                # before it, which did.
                entry.firm &= self.ids.pop(i)
                covered.append(i)
                if hold:
                    self.holds[i] = entry
        # The last one first: what it covers the others are not looked for.
        for i in reversed(words):
            if i in self.ids:
                entry.firm &= self._cover(i, covered)
        if hold:
            self.holds.update(zip(words, repeat(entry)))
        if covered:
            self.aside[entry] = covered
        if isinstance(entry.command, Settle) and entry.command.outcome is not Outcome.ACK:
            self.backs[entry] = self._unfiled[entry] = None

    def _cover(self, i: int, covered: list[int]) -> bool:
        """Is all of it durable."""
        ids = self.ids
        named = up_to(ids, i)
        covered += named
        if len(named) == len(ids):
            self.ids = {}
            self._removed = self._passed = 0
            return all(ids.values())
        lasting = all(list(map(ids.pop, named)))
        # A dict emptied from its front passes over the dead places again and again: rebuild it in time.
        self._passed += self._removed
        self._removed += len(named)
        if self._removed > len(ids) or self._passed > DEAD * len(ids):
            self.ids = dict(ids.items())
            self._removed = self._passed = 0
        return lasting

    def forget(self, entry: PendingCommand) -> None:
        """The entry is answered, or (a Hold) its transaction has ended: what it covers is no longer ours."""
        covered = self.aside.pop(entry, ())
        self.backs.pop(entry, None)
        self._unfiled.pop(entry, None)
        # Without a line of code for each: one word covers as much as its client likes.
        if self._back_of:
            deque(map(self._back_of.pop, covered, repeat(None)), 0)
        if self.tries:
            # What has come again meanwhile is still its client's, with what is known of it.
            gone = self.ids.keys().isdisjoint(covered) if self.ids else True
            deque(map(self.tries.pop, covered if gone else set(covered) - self.ids.keys(), repeat(None)), 0)
        if self.holds and isinstance(entry.command, Hold):
            for i in entry.command.ids:
                if self.holds.get(i) is entry:
                    del self.holds[i]

    def mark(self) -> None:
        """A Barrier is on its way behind what the owner has been told of the deliveries so far."""
        self.old += self.spans
        self.spans = []

    def settled(self) -> None:
        """Everything delivered before the Barrier that was just answered is settled for good."""
        self.old = []

    # ── again ──────────────────────────────────────────────────────────────────────────────────────

    def again(self, seq: int) -> Subscribe:
        """The command that attaches it to the slot's owner of now."""
        asked = self.command
        room = asked.room if asked.room >= UNLIMITED else asked.room - self.outstanding
        # A queue that was made for this subscription may be made again; the room is what is left of what it asked
        # for.
        command = asked.attach_again(seq, asked.create or self.subscribed, 0 if self.closing else room)
        held: list[Span] = []
        firm: list[Span] = []
        for entry, covered in self.aside.items():
            entry.claimed = True
            append_ids(held, covered)
            if entry.firm:
                append_ids(firm, covered)
        if not self.leaving:  # else its end gives them back, and may have done so already
            append_ids(held, self.ids)
            # Nothing was asked to become of these: one that is not there any more somebody else has settled.
            lasting = all(self.ids.values())
            append_ids(firm, self.ids if lasting else [i for i, lasts in self.ids.items() if lasts])
        command.resumes(Resume(held, [] if command.browse else self.old + self.spans, self.tries, firm))
        return command


def held(consumers: Mapping[int, ReplayedConsumer], slot: int, number: int) -> list[int]:
    """What the consumer's client was given and has not settled."""
    known = consumers.get(number)
    return [] if known is None or known.closing else list(known.ids)


def size_of(command: Command) -> int:
    """Bytes on the wire, about, and what it takes of the memory for unanswered commands."""
    kind = type(command)
    if kind is Publish:
        run: Run = command.run  # type: ignore[union-attr]
        # A large body travels by itself and is counted there.
        return SIZE + run.nbytes - (run.blob.length if run.blob is not None else 0)
    parts = getattr(command, "parts", None)
    if parts is not None:
        return SIZE + sum(size_of(part) for part in parts)
    return SIZE + 6 * len(getattr(command, "ids", ()))
