"""What a client may rely on: the checker of the shard's simulations.

Knows messages by number, and for each queue that may have got one a `Copy`. Knows only what a client can know:
what was submitted in which order, what was answered, what was delivered. What was not answered before a crash is
"maybe" until a delivery says more. Raises Violation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from broker.core.address import AckMode
from broker.core.effects import Deliver
from broker.core.message import BLOB, REDELIVERED, Run
from tests.sim.checker import Violation

PENDING, SURE, MAYBE, REFUSED = "pending", "sure", "maybe", "refused"
HERE, ASKED, GONE = 0, 1, 2
NUMBER = re.compile(rb"#(\d+)#")
ORIGIN = re.compile(rb"_AMQ_ORIG_QUEUE:([^\n]*)\n")


class Message:
    """bytes: header lines, empty line, body, NUL as sent; of a large one without body and NUL (they are `large`)."""

    def __init__(self, number: int, data: bytes, large: bytes, durable: bool, priority: int, expires: int) -> None:
        self.number, self.data, self.large = number, data, large
        self.durable, self.priority, self.expires = durable, priority, expires
        self.size = len(data) + (len(large) + 1 if large else 0)
        self.order = 0


class Group:
    """A transaction: `yes`, `no` = what is known to have happened, or not, of its parts."""

    def __init__(self) -> None:
        self.yes: list[str] = []
        self.no: list[str] = []


class Copy:
    """A message in one queue.

    gone     HERE, ASKED (settled or purged, not confirmed) or GONE (must never come again).
    asked    life in which it was settled: within it, the settle holds at once.
    void     nobody promises that it is delivered.   forgotten   must not be delivered any more.
    crashed  there was an unclean end since it was sent: it may be marked without need."""

    __slots__ = (
        "asked", "crashed", "deliveries", "failures", "forgotten", "gone", "group", "holder", "kept", "life", "message",
        "purged", "queue", "settled_in", "state", "void",
    )  # fmt: skip

    def __init__(self, message: Message, queue: str, kept: bool, life: int, group: Group | None) -> None:
        self.message = message
        self.queue = queue
        self.kept = kept and message.durable
        self.life = life
        self.group = group
        self.settled_in: Group | None = None
        self.state = PENDING
        self.gone = HERE
        self.asked = self.purged = -1
        self.deliveries = self.failures = 0
        self.holder: Holder | None = None
        self.void = self.forgotten = self.crashed = False

    def __repr__(self) -> str:
        return f"message {self.message.number} in {self.queue}"


class Holder:
    """A consumer as the client sees it: upper bounds of its room and credit, and what it holds. failed: at its end."""

    def __init__(self, number: int, slot: int, queue: str, address: str, ack: AckMode, kept: bool) -> None:
        self.number, self.slot, self.queue, self.address, self.ack, self.kept = number, slot, queue, address, ack, kept
        self.room = self.messages = self.nbytes = 1 << 62
        self.overhead = self.owed = 0
        self.ledger: dict[int, Copy] = {}
        self.sent_auto: list[Copy] = []
        self.ended = self.failed = False
        self.fresh: dict[int, int] = {}
        """priority → number of the last message that came for the first time"""


class Model:
    def __init__(self, expiry_address: str, dead_letter_address: str) -> None:
        self.expiry_address = expiry_address
        self.dead_letter_address = dead_letter_address
        self.messages: dict[int, Message] = {}
        self.copies: dict[tuple[int, str], Copy] = {}
        self.groups: list[Group] = []
        self.life = 0
        self.crashes = 0
        self._order_of = 0

    # ── requests ───────────────────────────────────────────────────────────────────────────────────

    def sent(self, message: Message, queue: str, kept: bool, sure: bool, group: Group | None) -> Copy:
        """`sure`: the queue certainly exists when the message comes."""
        if not message.order:
            self._order_of += 1
            message.order = self._order_of
            self.messages[message.number] = message
        copy = self.copies[message.number, queue] = Copy(message, queue, kept, self.life, group)
        copy.void = not sure
        return copy

    def ask(self, copies: Iterable[Copy], group: Group | None = None) -> None:
        """Acknowledged (or sent in mode auto)."""
        for copy in copies:
            copy.gone, copy.asked, copy.holder, copy.settled_in = ASKED, self.life, None, group

    def purge(self, copies: Iterable[Copy]) -> None:
        """Their queue is to be deleted. What is on its way to its consumer may still come."""
        for copy in copies:
            copy.gone = max(copy.gone, ASKED)
            copy.settled_in = None
            copy.void = True
            copy.purged = self.life

    def confirm(self, sent: Iterable[Copy], settled: Iterable[Copy]) -> None:
        """Done."""
        for copy in sent:
            if copy.state == PENDING:
                copy.state = SURE
        for copy in settled:
            if copy.gone == ASKED and self.life in (copy.asked, copy.purged):
                copy.gone = GONE

    def refuse(self, sent: Iterable[Copy], settled: Iterable[Copy]) -> None:
        """Nothing of it happened; to who had what it settled that is a failure."""
        for copy in sent:
            copy.state, copy.void = REFUSED, True
        for copy in settled:
            copy.gone, copy.asked, copy.settled_in = HERE, -1, None
            copy.failures += 1

    def restarted(self, clean: bool) -> None:
        """`clean`: everything that was submitted has been carried out."""
        self.life += 1
        self.crashes += not clean
        for copy in self.copies.values():
            copy.holder = None
            if not copy.kept:
                copy.void = copy.forgotten = True
                continue
            if copy.state == PENDING:
                copy.state = SURE if clean else MAYBE
            if clean and copy.gone == ASKED and self.life - 1 in (copy.asked, copy.purged):
                copy.gone = GONE
            copy.crashed |= not clean

    # ── deliveries ─────────────────────────────────────────────────────────────────────────────────

    def delivered(self, holder: Holder, effect: Deliver, now: int) -> list[Copy]:
        run = effect.run
        if effect.cost != run.nbytes + len(run) * holder.overhead:
            raise Violation(f"cost {effect.cost} of {run}")
        if len(run.ids) != len(run.records) or sum(map(run.size_of, range(len(run)))) != run.nbytes:
            raise Violation(f"sizes of {run}")
        return [self._delivered(holder, run, at, now) for at in range(len(run))]

    def _delivered(self, holder: Holder, run: Run, at: int, now: int) -> Copy:
        copy = self._identify(holder, run.lines + run.records[at], bool(run.flags & BLOB))
        if copy.forgotten or copy.state == REFUSED:
            raise Violation(f"ghost: {copy}, {copy.state}")
        if copy.gone == GONE or (copy.gone == ASKED and copy.asked == self.life):
            raise Violation(f"settled message came back: {copy}")
        if copy.holder is not None and not copy.holder.ended:
            raise Violation(f"delivered while held: {copy}")
        if run.expires and run.expires <= now:
            raise Violation(f"expired message delivered: {copy}")
        self._marks(copy, run)
        self._order(holder, copy)
        self._credit(holder, run.size_of(at) + holder.overhead)
        if copy.gone == ASKED and copy.settled_in is not None:
            copy.settled_in.no.append(f"{copy} came back")
            copy.settled_in = None
        if copy.group is not None and copy.kept:
            copy.group.yes.append(f"{copy} delivered")  # non-durable parts do not wait for the disk
        if copy.kept:
            copy.state = SURE
            copy.void = copy.purged == self.life
        copy.gone = ASKED if copy.purged == self.life else HERE
        copy.deliveries += 1
        if holder.ack is AckMode.AUTO:
            self.ask([copy])
            holder.sent_auto.append(copy)
        elif holder.ended:  # it was on its way
            copy.failures += holder.failed
        else:
            copy.holder = holder
            if run.ids[at] in holder.ledger:
                raise Violation(f"id {run.ids[at]} twice in the hands of one consumer")
            holder.ledger[run.ids[at]] = copy
        return copy

    def _identify(self, holder: Holder, data: bytes, large: bool) -> Copy:
        found = NUMBER.search(data)
        if found is None:
            raise Violation(f"not one of ours: {data!r}")
        number = int(found[1])
        message = self.messages.get(number)
        if message is None or not data.endswith(message.data) or large != bool(message.large):
            raise Violation(f"ghost, or bytes differ: {data!r}")
        if holder.queue not in (self.dead_letter_address, self.expiry_address):
            if data != message.data:
                raise Violation(f"bytes differ: {data!r}")
            copy = self.copies.get((number, holder.queue))
            if copy is None:
                raise Violation(f"ghost: message {number} was never sent to {holder.queue}")
            return copy
        origin = ORIGIN.search(data)
        if origin is None:
            raise Violation(f"no origin: {data!r}")
        queue = origin[1].decode().replace("\\c", ":")
        return self.copies.get((number, f"{holder.queue}|{queue}")) or self._moved(number, queue, holder)

    def _moved(self, number: int, queue: str, holder: Holder) -> Copy:
        """First sight of a dead letter or expired message: from now on its source must be silent."""
        source = self.copies.get((number, queue))
        if source is None or source.state == REFUSED or (source.gone == GONE and source.purged < 0):
            raise Violation(f"ghost: message {number} was moved from {queue} to {holder.queue}")
        if source.forgotten and not source.message.durable:
            raise Violation(f"ghost: {source} was forgotten")
        if not source.deliveries and not source.message.expires:
            raise Violation(f"{source} was moved without reason")
        if source.group is not None and source.kept:
            source.group.yes.append(f"{source} moved")
        copy = Copy(source.message, f"{holder.queue}|{queue}", True, self.life, None)
        copy.state, copy.crashed = SURE, self.crashes > 0
        self.copies[number, copy.queue] = copy
        source.gone, source.void, source.settled_in = GONE, True, None
        return copy

    def _marks(self, copy: Copy, run: Run) -> None:
        marked = bool(run.attempts or run.flags & REDELIVERED)
        if copy.deliveries and not marked:
            raise Violation(f"came again unmarked: {copy}")
        if not copy.deliveries and marked and not copy.crashed:
            raise Violation(f"marked as redelivered without need: {copy} attempts={run.attempts}")
        if run.attempts > copy.failures:
            raise Violation(f"{run.attempts} failures counted, {copy.failures} seen: {copy}")

    @staticmethod
    def _order(holder: Holder, copy: Copy) -> None:
        if not copy.deliveries and "|" not in copy.queue:
            message = copy.message
            if holder.fresh.get(message.priority, -1) > message.order:
                raise Violation(f"order: {copy} behind {holder.fresh[message.priority]}")
            holder.fresh[message.priority] = message.order

    @staticmethod
    def _credit(holder: Holder, cost: int) -> None:
        if holder.room <= 0:
            raise Violation(f"no room: consumer {holder.number}")
        if holder.ack is not AckMode.AUTO and (holder.messages <= 0 or holder.nbytes <= 0):
            raise Violation(f"no credit: consumer {holder.number}")
        holder.room -= cost
        if holder.ack is not AckMode.AUTO:
            holder.messages -= 1
            holder.nbytes -= cost

    # ── the end ────────────────────────────────────────────────────────────────────────────────────

    def finished(self, now: int) -> None:
        """Everything has been drained and acknowledged: is anything missing?"""
        for copy in self.copies.values():
            if copy.void or copy.gone or self._may_vanish(copy, now):
                continue
            if copy.state == SURE or copy.life == self.life:
                raise Violation(f"lost: {copy} ({copy.state}, delivered {copy.deliveries} times)")
            if copy.group is not None and copy.kept:
                copy.group.no.append(f"{copy} is not there")
        for copy in self.copies.values():
            if copy.settled_in is not None and copy.kept and not copy.void and not self._may_vanish(copy, now):
                copy.settled_in.yes.append(f"{copy} is settled")
        for group in self.groups:
            if group.yes and group.no:
                raise Violation(f"transaction split: {group.yes} {group.no}")

    def _may_vanish(self, copy: Copy, now: int) -> bool:
        expires = copy.message.expires
        if expires and expires <= now and not self.expiry_address and "|" not in copy.queue:
            return True
        return bool(copy.deliveries and not self.dead_letter_address)
