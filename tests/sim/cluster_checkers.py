"""What clients of a cluster may rely on, whatever happens to its processes: the model, and the checks on it.

Knows messages by number, and a `Copy` for each queue that may have got one. Knows only what clients know: what was
asked for, what was answered, what was delivered. An edge that ends leaves its questions unanswered: they stay "maybe"
until a delivery says more. Raises Violation.

Checks: nothing receipted is lost; nothing unexpected comes, bytes are as sent; nothing acknowledged comes back;
what comes again is marked; nobody else gets what somebody holds; order per session and queue; credit; transactions
all or nothing; nothing comes before it is due; a divert's copies are promised with their originals; attempts are
counted, and dead letters made, only where somebody failed; in the end everything is accounted for.
What only somebody inside can see: cluster_probes.py.

What is excused, and the promise that it stands for (docs/reliability.md, "An edge that was given up and comes back",
where nothing else is named):
  Holder.doubtful   an owner may have given its edge up, or have begun without it (only in that slot, if its lease had
                    ended): what it held "counted as failed and went to others, marked", its ACK or COMMIT of it is
                    refused (1309).
  STALE_MS          "for up to two seconds such an edge may hand on what owners had sent to it before": what was sent
                    without a mark may come behind the same with one. It never comes without a mark twice.
  Copy.void         a receipt to such a one "cannot say whose ACK it was", nor an ACK without one whether it was
                    carried out, so whether the copy is still to come is open until another one gets it. Also what was
                    sent to a durable queue that may not have been there yet, and what a request without a number sent.
  Copy.late         "an ACK without receipt … may be carried out when the edge comes back", and what was handed out in
                    `auto` "is consumed then if it is in the queue again".
  Group.crossing    a COMMIT over several slots may end as rolled back (docs/cluster.md, "Transactions").
  SKEW_MS           scheduled messages are due by the owners' wall clocks (docs/schedules.md).
  Model.calm        what is not durable is in the leader's memory (docs/cluster.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from itertools import takewhile
from typing import Any

from broker.core.address import AckMode
from broker.core.effects import Deliver
from broker.core.message import REDELIVERED, Run
from tests.sim.checker import Violation

PENDING, SURE, MAYBE, REFUSED = "pending", "sure", "maybe", "refused"
HERE, ASKED, GONE = "here", "asked", "gone"
NUMBER = re.compile(rb"#(\d+)#")
ORIGIN = re.compile(rb"_AMQ_ORIG_QUEUE:([^\n]*)\n")
DEAD = "DLQ"
DIVERTED = {"q.a": "q.copy"}
"""Where copies go of what is sent to an address, in histories with a divert."""
ORIGINS = {copies: address for address, copies in DIVERTED.items()}
MOST = 3
"""max_delivery_attempts, where there is such a limit."""
OFTEN = 1 << 30
STALE_MS = 2000
"""For so long after it was given up may an edge hand on what it was sent before (link/edge_side/owner_link.py: it knows
by its own clock that nothing was read for longer)."""
SKEW_MS = 30
"""How far a machine's wall clock is off at most, in histories with scheduled messages: they are due by wall clocks."""


class Message:
    """order: place among all that was ever sent.    producer: session it came from.    due: epoch ms, 0 = at once.
    large: its body, if that travels on its own; not in `data` then.    group: JMSXGroupID."""

    __slots__ = ("data", "due", "durable", "group", "large", "number", "order", "producer")

    def __init__(
        self,
        number: int,
        data: bytes,
        durable: bool,
        producer: object,
        due: int = 0,
        large: bytes = b"",
        group: bytes = b"",
    ) -> None:
        self.group = group
        self.number, self.data, self.durable, self.producer, self.due = number, data, durable, producer, due
        self.large = large
        self.order = 0


class Group:
    """A transaction: `yes`, `no` = what is known to have happened, or not, of its parts.

    crossing   it has some in several slots: who waits for its answer may hear last that it was rolled back."""

    def __init__(self) -> None:
        self.crossing = False
        self.yes: list[str] = []
        self.no: list[str] = []


class Copy:
    """A message in one queue.

    gone   HERE, ASKED (somebody asked to settle it, and has no answer) or GONE (answered: must never come again).
    void   nobody promises that it is delivered.
    unheard   who asked waits for no answer.    late: it came to another one since, who asked having been given up; when
           that one's edge comes back, what it asked for may be carried out, wherever the copy is then.
    fresh  so often has it come without a mark, to whomever.
    asker  who asked.    holder   who has it.    settled_in, group   transactions that settle it and that sent it."""

    __slots__ = (
        "asker", "deliveries", "fresh", "gone", "group", "holder", "late", "message", "queue", "settled_in", "state",
        "unheard", "void",
    )  # fmt: skip

    def __init__(self, message: Message, queue: str, group: Group | None) -> None:
        self.message = message
        self.queue = queue
        self.group = group
        self.settled_in: Group | None = None
        self.state = PENDING
        self.gone = HERE
        self.asker: Holder | None = None
        self.holder: Holder | None = None
        self.deliveries = self.fresh = 0
        self.void = self.unheard = self.late = False

    def __repr__(self) -> str:
        return f"message {self.message.number} in {self.queue}"


class Holder:
    """A consumer as its client sees it.

    room, window   bytes that may be on their way to it, messages it may hold (client modes).
    ended          it is gone, as far as its own side knows.
    doubtful       the cluster may have given it up without its knowledge (its edge was away for long).
    given_up       when that was the last time, epoch ms."""

    def __init__(self, number: int, slot: int, queue: str, address: str, ack: AckMode, owner: str) -> None:
        self.number, self.slot, self.queue, self.address, self.ack, self.owner = (
            number,
            slot,
            queue,
            address,
            ack,
            owner,
        )
        self.room = self.window = 1 << 62
        self.owed = 0
        self.overhead = 0
        self.ledger: dict[int, Copy] = {}
        """What it has not acknowledged. It is doubtful whether it has what is another's by now (Copy.holder)."""
        self.coming: set[int] = set()
        """Of these the body is still on its way, or its edge keeps them back (cluster_fans.py)."""
        self.bodies: dict[int, Copy] = {}
        """In AckMode.AUTO: what it has when all of the body has come."""
        self.withheld = 0
        """Bytes of what its edge keeps back."""
        self.split: Any = None
        """The SplitSubscription that it is a part of, if it is one."""
        self.ended = self.doubtful = False
        self.given_up = 0
        self.fresh: dict[object, int] = {}
        """Producer and group → place of the last message that came for the first time."""

    def __repr__(self) -> str:
        return f"consumer {self.number} of {self.owner}"

    def here(self) -> list[int]:
        """Ids of what its client can acknowledge: it gets nothing from behind a body that is still coming."""
        coming = self.coming
        return list(takewhile(lambda i: i not in coming, self.ledger)) if coming else list(self.ledger)


Claim = tuple[Holder, Copy]
"""Who has acknowledged what, whether it was his then or not."""


class Model:
    """calm: no process has failed and no leader has changed yet; then promises hold for non-durable messages, too.

    wall_ms   the true time."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self.wall_ms = wall_ms
        self.skew_ms = SKEW_MS
        """So early may come what is due."""
        self.messages: dict[int, Message] = {}
        self.copies: dict[tuple[int, str], Copy] = {}
        self.groups: list[Group] = []
        self.calm = True
        self.owners: dict[tuple[int, str, bytes], Holder] = {}
        """Slot, queue and group → who got something of it last."""
        self._fresh: dict[object, int] = {}
        """The same with a producer → place of the last message that came for the first time."""
        self.left: set[str] = set()
        """Queues that a consumer has left: what was on its way to it comes marked, though nobody has seen it."""
        self.vain: dict[str, int] = {}
        """Queue → so often has somebody failed there. No message has been out in vain more often."""
        self.deliveries = 0
        self._sent = 0

    # ── requests ───────────────────────────────────────────────────────────────────────────────────

    def sent(self, message: Message, queue: str, sure: bool, group: Group | None) -> Copy:
        """`sure`: the queue certainly exists when the message comes."""
        if not message.order:
            self._sent += 1
            message.order = self._sent
            self.messages[message.number] = message
        copy = self.copies[message.number, queue] = Copy(message, queue, group)
        copy.void = not sure
        return copy

    def ask(self, holder: Holder, copies: Iterable[Copy], group: Group | None = None) -> None:
        """Acknowledged."""
        for copy in copies:
            copy.gone, copy.asker, copy.holder, copy.settled_in = ASKED, holder, None, group
            copy.unheard = False

    def confirm(self, sent: Iterable[Copy], settled: Iterable[Copy], askers: Collection[Holder]) -> None:
        """Done."""
        for copy in sent:
            if copy.state in (PENDING, MAYBE):
                copy.state = SURE
        for copy in settled:
            if copy.gone == ASKED and copy.asker in askers:
                copy.gone = GONE
            # Who had been given up has come back with what it asked for; it may have found the copy at home again.
            copy.void |= copy.gone == HERE and any(asker.doubtful for asker in askers)

    def effective(self, claims: Iterable[Claim], atomic: bool) -> None:
        """What these named is receipted: nobody else may have it. atomic: nor have had it, from a transaction."""
        for holder, copy in claims:
            # Its edge has come back with what it asked for, and others have had the copy, and given it back, meanwhile.
            copy.void |= holder.doubtful and copy.gone == HERE
            if not (copy.message.durable or self.calm) or holder.ended:
                continue
            other, asker = copy.holder, copy.asker
            if other is not None and other is not holder and not other.ended and not other.doubtful:
                raise Violation(f"receipt for {holder} without effect: {other} holds {copy}")
            theirs = asker is not None and asker is not holder and not asker.ended and not asker.doubtful
            if atomic and theirs and (copy.gone == GONE or (asker.ack is AckMode.AUTO and copy.gone == ASKED)):
                raise Violation(f"transaction of {holder} holds, and {asker} has settled {copy}")

    @staticmethod
    def refuse(sent: Iterable[Copy], settled: Iterable[Copy], askers: Collection[Holder]) -> None:
        """Nothing of it happened."""
        for copy in sent:
            copy.state, copy.void = REFUSED, True
        for copy in settled:
            if copy.asker in askers and copy.gone == ASKED:
                copy.gone, copy.settled_in = HERE, None

    @staticmethod
    def unanswered(sent: Iterable[Copy]) -> None:
        """Who asked is gone, and nobody will ever be told."""
        for copy in sent:
            if copy.state == PENDING:
                copy.state = MAYBE

    def fail(self, holders: Iterable[Holder], times: int = 1) -> None:
        """Each of them fails with what it has, or with what is on its way to it."""
        for holder in holders:
            self.vain[holder.queue] = self.vain.get(holder.queue, 0) + times

    # ── deliveries ─────────────────────────────────────────────────────────────────────────────────

    def delivered(self, holder: Holder, effect: Deliver) -> list[Copy]:
        run = effect.run
        if effect.cost != run.nbytes + len(run) * holder.overhead:
            raise Violation(f"cost {effect.cost} of {run}")
        if len(run.ids) != len(run.records) or sum(map(run.size_of, range(len(run)))) != run.nbytes:
            raise Violation(f"sizes of {run}")
        if holder.owed >= holder.room:
            raise Violation(f"no room: {holder}, {holder.owed} of {holder.room} under way")
        holder.owed += effect.cost
        self.deliveries += len(run)
        return [self._delivered(holder, run, at) for at in range(len(run))]

    def _delivered(self, holder: Holder, run: Run, at: int) -> Copy:
        copy = self._identify(holder, run.lines + run.records[at])
        if (run.blob.length if run.blob is not None else 0) != len(copy.message.large):
            raise Violation(f"{copy}: its body is {run.blob}")
        if (early := copy.message.due - self.wall_ms()) > self.skew_ms:
            raise Violation(f"early: {copy} came to {holder} {early} ms before it is due")
        if run.attempts > self.vain.get(holder.queue, 0):
            raise Violation(f"{run.attempts} failures counted at a queue that has seen fewer: {copy}")
        if not (run.attempts or run.flags & REDELIVERED):
            copy.fresh += 1
        if copy.message.durable or self.calm:
            if copy.fresh > 1 and copy.state != REFUSED:
                # Whoever has been given up: one of those who have it read the mark.
                raise Violation(f"came a second time without a mark: {copy} to {holder}")
            wrong = self._wrong(copy, run, holder)
            stale = holder.doubtful and self.wall_ms() - holder.given_up <= STALE_MS
            if wrong and (not stale or copy.state == REFUSED):
                raise Violation(wrong)
            if wrong and (copy.gone != HERE or (copy.holder is not None and not copy.holder.ended)):
                # Proof that it may: an edge that stood still reads what an owner sent before it gave the edge up, and
                # so before anybody else got it. It is no delivery of the copy as it is now.
                if holder.ack is not AckMode.AUTO and not holder.ended:
                    holder.ledger.setdefault(run.ids[at], copy)
                elif holder.ack is AckMode.AUTO:
                    copy.void = True  # this one has it, and its edge says so when it comes back
                return copy
        if copy.message.group:
            self._grouped(holder, copy)
        if not (run.attempts or run.flags & REDELIVERED):
            self._order(holder, copy)
        if copy.gone == ASKED and copy.settled_in is not None:
            if not (copy.asker and copy.asker.doubtful):
                copy.settled_in.no.append(f"{copy} came back")
            copy.settled_in = None  # whoever settles it from now on does not do so for that transaction
        if copy.message.durable:
            copy.state = SURE
            if copy.group is not None:
                copy.group.yes.append(f"{copy} delivered")
        # What a doubtful one reads may be from long ago, and who asked for it has settled it since; another one has it.
        copy.void = holder.doubtful and (copy.void or copy.gone == ASKED)
        asker = copy.asker if copy.gone == ASKED else None
        if asker is not None and asker.doubtful:
            # In AUTO whoever was handed it has it, and its edge says so when it comes back.
            copy.late |= copy.unheard or asker.ack is AckMode.AUTO
        copy.gone = HERE
        copy.deliveries += 1
        if holder.ack is AckMode.AUTO and copy.message.large and not holder.ended:
            copy.holder, holder.bodies[run.ids[at]] = holder, copy
        elif holder.ack is AckMode.AUTO:
            copy.gone, copy.asker, copy.holder = ASKED, holder, None
        else:
            self._take(holder, run.ids[at], copy)
        return copy

    @staticmethod
    def arrived(holder: Holder, message_id: int) -> None:
        """All of the body of a large message is with its client, in AckMode.AUTO."""
        copy = holder.bodies.pop(message_id, None)
        if copy is not None and copy.holder is holder:
            copy.gone, copy.asker, copy.holder = ASKED, holder, None

    def _take(self, holder: Holder, message_id: int, copy: Copy) -> None:
        if holder.ended:
            return
        held = holder.ledger.pop(message_id, None)
        if held is not None and held.holder is holder and not holder.doubtful:
            raise Violation(f"id {message_id} twice in the hands of {holder}")
        if len(holder.ledger) >= holder.window:
            raise Violation(f"no credit: {holder} holds {len(holder.ledger)}")
        copy.holder = holder
        holder.ledger[message_id] = copy

    def _wrong(self, copy: Copy, run: Run, holder: Holder) -> str:
        """Why it may not come to this one now; empty: it may."""
        if copy.state == REFUSED:
            return f"ghost: {copy}, which was refused"
        if copy.gone == GONE:
            return f"acknowledged message came back: {copy}"
        asker = copy.asker
        open_ = copy.settled_in is not None and copy.settled_in.crossing  # finished() sees whether it was split
        if copy.gone == ASKED and asker is not None and not asker.doubtful and not asker.ended and not open_:
            return f"{copy} came to {holder} although {asker} lives and has settled it"
        other = copy.holder
        if other is not None and not other.ended and not other.doubtful:
            return f"{copy} came to {holder} while {other} holds it"
        if copy.deliveries and not (run.attempts or run.flags & REDELIVERED):
            return f"came again unmarked: {copy}"
        if not copy.deliveries and run.attempts and self.calm and holder.queue not in self.left:
            return f"marked as redelivered without need: {copy} attempts={run.attempts}"
        return ""

    def _identify(self, holder: Holder, data: bytes) -> Copy:
        found = NUMBER.search(data)
        message = self.messages.get(int(found[1])) if found else None
        if message is not None and holder.queue == DEAD and data.endswith(message.data):
            return self._dead_letter(message, data)
        front = b"_AMQ_ORIG_ADDRESS:%s\n" % ORIGINS[holder.queue].encode() if holder.queue in ORIGINS else b""
        if message is None or data != front + message.data:
            raise Violation(f"ghost, or bytes differ: {data!r}")
        copy = self.copies.get((message.number, holder.queue))
        if copy is None:
            raise Violation(f"ghost: message {message.number} was never sent to {holder.queue}")
        return copy

    def body(self, run: Run) -> bytes:
        """Of a large message that came."""
        found = NUMBER.search(run.lines + run.records[0])
        assert found is not None
        return self.messages[int(found[1])].large

    def _dead_letter(self, message: Message, data: bytes) -> Copy:
        """At first sight: from now on its source must be silent."""
        origin = ORIGIN.search(data)
        if origin is None:
            raise Violation(f"no origin: {data!r}")
        queue = origin[1].decode().replace("\\c", ":")
        if (copy := self.copies.get((message.number, f"{DEAD}|{queue}"))) is not None:
            return copy
        if b"\ndead-letter-reason:delivery-limit\n" in data and self.vain.get(queue, 0) < MOST:
            raise Violation(f"dead letter although nobody failed: message {message.number} of {queue}")
        source = self.copies.get((message.number, queue))
        # One that is not durable may be there twice: who sent it asked the next leader again.
        firm = message.durable or self.calm
        # What was on its way to a consumer that left counts as delivered, though nobody has seen it.
        refused = source is None or (source.state == REFUSED and firm)
        if source is None or refused or not (source.deliveries or queue in self.left):
            raise Violation(f"dead letter without reason: message {message.number} of {queue}")
        # It counted as failed when its edge was given up; that ACKs what nobody has any more, and nobody will get.
        settled = source.asker is None or not source.asker.doubtful or source.settled_in is not None
        if source.gone == GONE and firm and settled:
            raise Violation(f"dead letter although acknowledged: {source}")
        if firm and source.holder is not None and not source.holder.ended and not source.holder.doubtful:
            raise Violation(f"dead letter while {source.holder} holds it: {source}")
        if source.settled_in is not None and not (source.asker and source.asker.doubtful):
            source.settled_in.no.append(f"{source} became a dead letter")
        source.gone, source.settled_in = GONE, None
        copy = self.copies[message.number, f"{DEAD}|{queue}"] = Copy(message, f"{DEAD}|{queue}", None)
        copy.state = SURE
        return copy

    def _grouped(self, holder: Holder, copy: Copy) -> None:
        """A group stays with who got its first message; when an owner or an edge failed, if he holds some of it."""
        group = copy.message.group
        key = (holder.slot, holder.queue, group)
        before = self.owners.get(key, holder)
        self.owners[key] = holder
        if before is holder or before.ended or before.doubtful or holder.doubtful:
            return
        held = [c for c in before.ledger.values() if c.message.group == group and c.holder is before]
        if self.calm or any(c.message.durable for c in held):
            raise Violation(f"group {group!r} is {before}'s, who holds {held[:3]}, and {copy} came to {holder}")

    def _order(self, holder: Holder, copy: Copy) -> None:
        message = copy.message
        direct = holder.queue != DEAD and holder.queue not in ORIGINS and not message.due
        if copy.deliveries or not message.durable or not direct:
            return
        line = (message.producer, message.group)  # groups wait for their consumers, and hold up no other one
        if holder.fresh.get(line, -1) > message.order:
            raise Violation(f"order: {copy} behind {holder.fresh[line]} at {holder}")
        holder.fresh[line] = message.order
        if message.group:
            key = (holder.slot, holder.queue, message.group, message.producer)
            if self._fresh.get(key, -1) > message.order and not holder.doubtful:
                raise Violation(f"order of group {message.group!r}: {copy} behind {self._fresh[key]}")
            self._fresh[key] = message.order

    # ── the end ────────────────────────────────────────────────────────────────────────────────────

    def missing(self) -> list[Copy]:
        """What must still come or be acknowledged."""
        here = [c for c in self.copies.values() if c.gone == HERE and c.state == SURE and self._kept(c)]
        return [copy for copy in here if not (copy.void or copy.late)]

    def _kept(self, copy: Copy) -> bool:
        return copy.message.durable or self.calm

    def finished(self) -> None:
        """Everything has been drained and acknowledged: is anything missing?"""
        lost = [copy for copy in self.missing() if copy.state == SURE]
        if lost:
            raise Violation(f"lost: {lost[:5]}, {len(lost)} in all")
        for copy in self.copies.values():
            if not copy.message.durable or copy.void or copy.late:
                continue
            if copy.gone == HERE and copy.group is not None:
                copy.group.no.append(f"{copy} is not there")
            if copy.settled_in is not None:
                copy.settled_in.yes.append(f"{copy} is settled")
        for group in self.groups:
            if group.yes and group.no:
                raise Violation(f"transaction split: {group.yes[:3]} {group.no[:3]}")
