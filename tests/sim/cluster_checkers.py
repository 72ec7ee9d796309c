"""What clients of a cluster may rely on, whatever happens to its processes: the model, and the checks on it.

Knows messages by number, and a `Copy` for each queue that may have got one. Knows only what clients know: what was
asked for, what was answered, what was delivered. An edge that ends leaves its questions unanswered: they stay "maybe"
until a delivery says more. Raises Violation.

Checks: nothing receipted is lost; nothing unexpected comes, bytes are as sent; nothing acknowledged comes back;
what comes again is marked; nobody else gets what somebody holds; order per session and queue; credit; transactions
all or nothing; in the end everything is accounted for. What only somebody inside can see: cluster_probes.py.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from broker.core.address import AckMode
from broker.core.effects import Deliver
from broker.core.message import REDELIVERED, Run
from tests.sim.checker import Violation

PENDING, SURE, MAYBE, REFUSED = "pending", "sure", "maybe", "refused"
HERE, ASKED, GONE = "here", "asked", "gone"
NUMBER = re.compile(rb"#(\d+)#")
ORIGIN = re.compile(rb"_AMQ_ORIG_QUEUE:([^\n]*)\n")
DEAD = "DLQ"


class Message:
    """order: place among all that was ever sent.    producer: session it came from.
    crossing: part of a transaction over several slots; its place among what the session sends elsewhere is open."""

    __slots__ = ("crossing", "data", "durable", "number", "order", "producer")

    def __init__(self, number: int, data: bytes, durable: bool, producer: object) -> None:
        self.number, self.data, self.durable, self.producer = number, data, durable, producer
        self.order = 0
        self.crossing = False


class Group:
    """A transaction: `yes`, `no` = what is known to have happened, or not, of its parts."""

    def __init__(self) -> None:
        self.yes: list[str] = []
        self.no: list[str] = []


class Copy:
    """A message in one queue.

    gone   HERE, ASKED (somebody asked to settle it, and has no answer) or GONE (answered: must never come again).
    void   nobody promises that it is delivered.
    asker  who asked.    holder   who has it.    settled_in, group   transactions that settle it and that sent it."""

    __slots__ = ("asker", "deliveries", "gone", "group", "holder", "message", "queue", "settled_in", "state", "void")

    def __init__(self, message: Message, queue: str, group: Group | None) -> None:
        self.message = message
        self.queue = queue
        self.group = group
        self.settled_in: Group | None = None
        self.state = PENDING
        self.gone = HERE
        self.asker: Holder | None = None
        self.holder: Holder | None = None
        self.deliveries = 0
        self.void = False

    def __repr__(self) -> str:
        return f"message {self.message.number} in {self.queue}"


class Holder:
    """A consumer as its client sees it.

    room, window   bytes that may be on their way to it, messages it may hold (client modes).
    ended          it is gone, as far as its own side knows.
    doubtful       the cluster may have given it up without its knowledge (its edge was away for long)."""

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
        self.ended = self.doubtful = False
        self.fresh: dict[object, int] = {}
        """Producer → place of the last message of its that came for the first time."""

    def __repr__(self) -> str:
        return f"consumer {self.number} of {self.owner}"


class Model:
    """calm: no process has failed and no leader has changed yet; then promises hold for non-durable messages, too."""

    def __init__(self) -> None:
        self.messages: dict[int, Message] = {}
        self.copies: dict[tuple[int, str], Copy] = {}
        self.groups: list[Group] = []
        self.calm = True
        self.left: set[str] = set()
        """Queues that a consumer has left: what was on its way to it comes marked, though nobody has seen it."""
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

    def confirm(self, sent: Iterable[Copy], settled: Iterable[Copy], askers: Collection[Holder]) -> None:
        """Done. What came to another one meanwhile is that one's."""
        for copy in sent:
            if copy.state in (PENDING, MAYBE):
                copy.state = SURE
        for copy in settled:
            if copy.gone == ASKED and copy.asker in askers and not (copy.asker and copy.asker.doubtful):
                copy.gone = GONE

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
        if copy.message.durable or self.calm:
            self._check_again(copy, run, holder)
        if not (run.attempts or run.flags & REDELIVERED):
            self._order(holder, copy)
        if copy.gone == ASKED and copy.settled_in is not None and not (copy.asker and copy.asker.doubtful):
            copy.settled_in.no.append(f"{copy} came back")
            copy.settled_in = None
        if copy.message.durable:
            copy.state = SURE
            if copy.group is not None:
                copy.group.yes.append(f"{copy} delivered")
        copy.gone = HERE
        copy.deliveries += 1
        if holder.ack is AckMode.AUTO:
            copy.gone, copy.asker = ASKED, holder
        else:
            self._take(holder, run.ids[at], copy)
        return copy

    def _take(self, holder: Holder, message_id: int, copy: Copy) -> None:
        if holder.ended:
            return
        if message_id in holder.ledger:
            raise Violation(f"id {message_id} twice in the hands of {holder}")
        if len(holder.ledger) >= holder.window:
            raise Violation(f"no credit: {holder} holds {len(holder.ledger)}")
        copy.holder = holder
        holder.ledger[message_id] = copy

    def _check_again(self, copy: Copy, run: Run, holder: Holder) -> None:
        if copy.state == REFUSED:
            raise Violation(f"ghost: {copy}, which was refused")
        if copy.gone == GONE:
            raise Violation(f"acknowledged message came back: {copy}")
        asker = copy.asker
        if copy.gone == ASKED and asker is not None and not asker.doubtful and not asker.ended:
            raise Violation(f"{copy} came to {holder} although {asker} lives and has settled it")
        other = copy.holder
        if other is not None and not other.ended and not other.doubtful:
            raise Violation(f"{copy} came to {holder} while {other} holds it")
        if other is not None and not other.ended:
            other.ledger = {i: held for i, held in other.ledger.items() if held is not copy}
        if copy.deliveries and not (run.attempts or run.flags & REDELIVERED):
            raise Violation(f"came again unmarked: {copy}")
        if not copy.deliveries and run.attempts and self.calm and holder.queue not in self.left:
            raise Violation(f"marked as redelivered without need: {copy} attempts={run.attempts}")

    def _identify(self, holder: Holder, data: bytes) -> Copy:
        found = NUMBER.search(data)
        message = self.messages.get(int(found[1])) if found else None
        if message is not None and holder.queue == DEAD and data.endswith(message.data):
            return self._dead_letter(message, data)
        if message is None or data != message.data:
            raise Violation(f"ghost, or bytes differ: {data!r}")
        copy = self.copies.get((message.number, holder.queue))
        if copy is None:
            raise Violation(f"ghost: message {message.number} was never sent to {holder.queue}")
        return copy

    def _dead_letter(self, message: Message, data: bytes) -> Copy:
        """At first sight: from now on its source must be silent."""
        origin = ORIGIN.search(data)
        if origin is None:
            raise Violation(f"no origin: {data!r}")
        queue = origin[1].decode().replace("\\c", ":")
        if (copy := self.copies.get((message.number, f"{DEAD}|{queue}"))) is not None:
            return copy
        source = self.copies.get((message.number, queue))
        # What was on its way to a consumer that left counts as delivered, though nobody has seen it.
        if source is None or source.state == REFUSED or not (source.deliveries or queue in self.left):
            raise Violation(f"dead letter without reason: message {message.number} of {queue}")
        if source.gone == GONE and (message.durable or self.calm):
            raise Violation(f"dead letter although acknowledged: {source}")
        if source.holder is not None and not source.holder.ended and not source.holder.doubtful:
            raise Violation(f"dead letter while {source.holder} holds it: {source}")
        if source.settled_in is not None and not (source.asker and source.asker.doubtful):
            source.settled_in.no.append(f"{source} became a dead letter")
        source.gone, source.settled_in = GONE, None
        copy = self.copies[message.number, f"{DEAD}|{queue}"] = Copy(message, f"{DEAD}|{queue}", None)
        copy.state = SURE
        return copy

    @staticmethod
    def _order(holder: Holder, copy: Copy) -> None:
        message = copy.message
        if not copy.deliveries and message.durable and not message.crossing and holder.queue != DEAD:
            if holder.fresh.get(message.producer, -1) > message.order:
                raise Violation(f"order: {copy} behind {holder.fresh[message.producer]} at {holder}")
            holder.fresh[message.producer] = message.order

    # ── the end ────────────────────────────────────────────────────────────────────────────────────

    def missing(self) -> list[Copy]:
        """What must still come or be acknowledged."""
        return [c for c in self.copies.values() if c.gone == HERE and c.state == SURE and not c.void and self._kept(c)]

    def _kept(self, copy: Copy) -> bool:
        return copy.message.durable or self.calm

    def finished(self) -> None:
        """Everything has been drained and acknowledged: is anything missing?"""
        lost = [copy for copy in self.missing() if copy.state == SURE]
        if lost:
            raise Violation(f"lost: {lost[:5]}, {len(lost)} in all")
        for copy in self.copies.values():
            if not copy.message.durable or copy.void:
                continue
            if copy.gone == HERE and copy.group is not None:
                copy.group.no.append(f"{copy} is not there")
            if copy.settled_in is not None:
                copy.settled_in.yes.append(f"{copy} is settled")
        for group in self.groups:
            if group.yes and group.no:
                raise Violation(f"transaction split: {group.yes[:3]} {group.no[:3]}")
