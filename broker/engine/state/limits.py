"""Bounds of what an address may hold, and what happens at them.

Bytes and messages are counted per queue (`QueueUsage`) and per address (`AddressUsage`, the sum over its queues):
everything that was published to a queue and has not left it for good, wherever it is meanwhile (ready, with a
consumer, paged out, delayed). A message in three queues counts three times. Queues of wildcard subscriptions count for
the pattern they subscribed to, not for the addresses it covers. A split address has its limits divided by its
partitions.

What came in at once is taken at once: a limit may be passed by the messages of one read of a socket. Only DROP and
DEAD_LETTER look at single messages (edges send them one by one to addresses that FAIL). Dead letters and expired
messages are never refused, or they would be lost.

Rule: usage is counted only where a limit applies, and can be counted anew from the queues at any time: it is in no log.
"""

# Example. Topic t (DROP, max_size_messages 10) has two queues that hold 4 each: 8 of 10. Three messages come.
#     first    8 < 10: taken, and counts twice: 10
#     second   10 is not below 10: dropped in silence, its sender gets its receipt all the same
#     third    no queue's filter wants it: it needs no room, so it is taken (and goes where unrouted messages go)
# With FAIL (whose messages come one by one) the first would be taken and the others refused; with BLOCK all three are
# taken and the sender is told to wait: what is on its way already is never lost for a limit.

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import AddressBlocked, Turn
from broker.core.message import Run

from ..address.quota import BLOCK, DEAD_LETTER, DROP, FAIL, AddressUsage, limited
from ..messages.runs import pick
from ..queue.filters import Found, Look
from ..queue.queue import Queue
from .slot import Slot
from .slot_address import Address

MOST_WAITING: Final = 10_000
"""Sessions remembered as waiting at one address. The engine does not hear of the end of all of them; one that is
forgotten goes on, and is told again."""


# ── publishing ─────────────────────────────────────────────────────────────────────────────────────


def admit(slot: Slot, address: Address | None, command: Publish) -> Run | None:
    """What of the messages is for the dead letter address; None: nothing. `command.run` may be a shorter one
    afterwards, or have none: the rest are dropped in silence. Raises RefusedError(ADDRESS_FULL), but never for parts
    of a transaction (`command.atomic`): those have been asked by check(). `address` None: it has no queues."""
    quota = _quota_of(slot, address, command.address)
    if quota is None:
        return None
    if quota.policy in (DROP, DEAD_LETTER):
        surplus = _surplus(quota, address, command)
        if surplus is None or quota.policy == DEAD_LETTER:
            return surplus
        slot.counters.add("dropped_full", len(surplus.records))
        return None
    # A transaction was asked as a whole; a part that is refused in the middle would break it (C54).
    if not command.atomic:
        _refuse(quota, command)
    return None


Asked = dict[str, tuple[int, int]]
"""Address → messages and bytes that the parts of a transaction which were checked before this one bring to it."""


def check(slot: Slot, address: Address | None, command: Publish, asked: Asked, waits: bool = True) -> None:
    """Raises RefusedError(ADDRESS_FULL) if a part of a transaction may not come in. asked: of the same transaction,
    this part is added. waits: its session can be told to wait; else BLOCK refuses as well (a transaction over several
    slots: nobody here knows its session)."""
    quota = _quota_of(slot, address, command.address)
    if quota is not None:
        if quota.policy == FAIL and command.session:
            # Before the check by the quota alone: that one does not know of the parts before.
            _ask(quota, address, command, asked)
        _refuse(quota, command)
        if not waits and command.session and quota.policy == BLOCK and quota.full():
            raise quota.error()


def _ask(quota: AddressUsage, address: Address | None, command: Publish, asked: Asked) -> None:
    """FAIL is exact to the message: all of the transaction has to fit, each as if those before it had come in."""
    messages, nbytes = asked.get(quota.address, (0, 0))
    for at, ways in enumerate(_ways(address, command)):
        if ways and (quota.messages + messages >= quota.most_messages or quota.nbytes + nbytes >= quota.most_bytes):
            raise quota.error(messages)
        messages += ways
        nbytes += ways * command.run.size_of(at)
    asked[quota.address] = messages, nbytes


def _refuse(quota: AddressUsage, command: Publish) -> None:
    # The broker's own: dead letters, expired messages, diverted copies. There is nobody who could be told.
    if not command.session:
        return
    if quota.full() if quota.policy == FAIL else quota.policy == BLOCK and quota.nbytes >= quota.reject_bytes:
        raise quota.error()


def _quota_of(slot: Slot, address: Address | None, name: str) -> AddressUsage | None:
    """Of the address; one without queues has an empty one."""
    if address is not None:
        return address.quota
    if not limited(slot.match(name)):
        return None
    quota = AddressUsage(name)
    quota.bound(slot.match(name))
    return quota


def _surplus(quota: AddressUsage, address: Address | None, command: Publish) -> Run | None:
    """Takes out the messages that find the address full; None: there are none. What no queue wants needs no room."""
    run = command.run
    messages, nbytes = quota.messages, quota.nbytes
    count = len(run.records)
    most = len(address.queues) or 1 if address is not None else 1
    # By the most it could be, without looking at filters: an address far from its limit costs a sum.
    if messages + most * count <= quota.most_messages and nbytes + most * run.nbytes <= quota.most_bytes:
        return None
    fitting: list[int] = []
    surplus: list[int] = []
    for at, ways in enumerate(_ways(address, command)):
        if not ways or (messages < quota.most_messages and nbytes < quota.most_bytes):
            messages += ways
            nbytes += ways * run.size_of(at)
            fitting.append(at)
        else:
            surplus.append(at)
    if not surplus:
        return None
    command.brings(pick(run, fitting))
    return pick(run, surplus)


def _ways(address: Address | None, command: Publish) -> list[int]:
    """How many queues each message goes to."""
    run = command.run
    count = len(run.records)
    anycast, multicast = _queues(address, command)
    # Several anycast queues take turns; whose it is is decided later, so each message is taken to find one.
    # Counted once in either case: taking turns, each message is in one queue; with none, one may be made.
    ways = [int(len(anycast) > 1 or not anycast + multicast)] * count
    known: Found = {}
    if multicast and address is not None and address.filters:
        look = Look(run)
        # All at once: exact counts are needed here, of as many messages as one read brings.
        look.go_on(address.filters, 0)
        known = dict.fromkeys(address.filters.takers, ()) | look.found
    for queue in multicast + (anycast if len(anycast) == 1 else []):
        if not queue.closed():
            for at in _accepted(queue, run, command.address, known):
                ways[at] += 1
    return ways


def _accepted(queue: Queue, run: Run, address: str, known: Found) -> Sequence[int]:
    """The messages that the queue lets in. known: of filters that were asked together."""
    if queue.filter is None:
        return range(len(run.records))
    at = known.get(queue.filter)
    return queue.filter.select(run, address) if at is None else at


def _queues(address: Address | None, command: Publish) -> tuple[list[Queue], list[Queue]]:
    """Those there are for the command: anycast ones, and others."""
    if address is None:
        return [], []
    if command.queue is not None:
        named = address.queues.get(command.queue)
        return ([named] if named is not None else []), []
    anycast = address.anycast if command.routing is not Routing.MULTICAST else []
    return anycast, address.multicast if command.routing is not Routing.ANYCAST else []


def entered(queues: Sequence[Queue], run: Run) -> None:
    """The run has been published to these queues."""
    for queue in queues:
        if queue.usage is not None:
            queue.usage.change(len(run.records), run.nbytes)


def published(slot: Slot, command: Publish, turn: Turn) -> None:
    """Tells the sender to wait if the address is full now. Told with every SEND that comes all the same: an edge that
    has heard of it before may have forgotten (the stream to it broke)."""
    address = slot.addresses.get(command.address)
    quota = address.quota if address is not None else None
    session = command.session
    if quota is None or quota.policy != BLOCK or not session or not quota.full():
        return
    if len(quota.waiting) >= MOST_WAITING and session not in quota.waiting:
        # Told to go on, not forgotten: a session that nobody wakes would wait for ever.
        eldest = next(iter(quota.waiting))
        del quota.waiting[eldest]
        turn.effects.append(AddressBlocked(eldest, slot.number, quota.address, False))
    quota.waiting[session] = None
    turn.effects.append(AddressBlocked(session, slot.number, quota.address, True))


# ── leaving ────────────────────────────────────────────────────────────────────────────────────────


def deleted(slot: Slot, queue: Queue, turn: Turn) -> None:
    """The queue is gone with all it had."""
    usage = queue.usage
    if usage is not None:
        # All it has, so the sum over the usages stays the quota, whatever was estimated.
        usage.leave(usage.messages, usage.nbytes, slot.number, turn)
        queue.open_usage(None)
        if queue.address not in slot.addresses:
            usage.quota.release(slot.number, turn)


# ── the usages ──────────────────────────────────────────────────────────────────────────────────────


def open_usage(slot: Slot, address: Address, queue: Queue) -> None:
    """A queue has come to the address."""
    if address.quota is None and limited(slot.match(address.name)):
        _open_quota(slot, address)
    if address.quota is not None:
        queue.open_usage(address.quota)


def _open_quota(slot: Slot, address: Address) -> None:
    quota = AddressUsage(address.name)
    quota.bound(slot.match(address.name))
    address.count(quota)
    slot.counted_by(True)


def bound(slot: Slot, address: Address) -> None:
    """Its settings have changed: its bounds are these, and it has none without a limit. Who waits where there is room
    now is told by the next tick (relieve). Its queues come next, one by one: recount()."""
    old = address.quota
    if old is not None and old.waiting:
        slot.loose.append(old)
        slot.tick_soon()
    settings = slot.match(address.name)
    if not limited(settings):
        address.count(None)
    elif old is None:
        _open_quota(slot, address)
    else:
        old.bound(settings)
        slot.counted_by(True)


def recount(slot: Slot, queue: Queue) -> int:
    """Its address may have a limit that it had not, or have none any more. What that costs, in queues that are looked
    at."""
    address = slot.addresses.get(queue.address)
    quota = address.quota if address is not None and address.queues.get(queue.name) is queue else None
    if quota is None:
        queue.open_usage(None)
    elif queue.usage is None or queue.usage.quota is not quota:
        # A usage that is there is right: it has been told of all that came and went.
        queue.open_usage(quota)
        return _count(queue)
    return 0


def configure(slot: Slot) -> None:
    """recounting() at once."""
    for _ in recounting(slot, sys.maxsize):
        pass


def recounting(slot: Slot, most: int) -> Iterator[None]:
    """All usages are counted anew, so many queues at a time; nothing may happen in the slot in between."""
    # Usages are sums of what is there: everything was restored, and nothing is known of what came and went.
    slot.counted_by(False)
    for at, address in enumerate(slot.addresses.values(), 1):
        if address.quota is not None and address.quota.waiting:
            slot.loose.append(address.quota)
            slot.tick_soon()
        address.count(None)
        bound(slot, address)
        if not at % most:
            yield
    if not slot.counted:
        return
    left = most
    for queue in slot.queues.values():
        queue.open_usage(None)
        left -= 1 + recount(slot, queue)
        if left <= 0:
            left = most
            yield


_HELD: Final = 4000
"""Messages with consumers of one queue that are looked at: 1 ms. With more of them their bytes are an estimate."""


def _count(queue: Queue) -> int:
    """All that is in it."""
    usage = queue.usage
    assert usage is not None
    seen = 0
    if queue.kind is None or queue.kind.cursors is None:  # what cursors hold is in the queue all the same
        seen, nbytes = _held(queue)
        # Of more than are looked at the others are taken to be as large.
        most = seen if seen < _HELD else max(queue.delivering, seen)
        usage.change(most, nbytes * most // seen if seen else 0)
    gate, runs = queue.gate, queue.returned
    usage.change(gate.messages, gate.nbytes + gate.paged_bytes)
    usage.change(sum([len(run.records) for run in runs]), sum([run.nbytes for run in runs]))
    usage.change(queue.count + queue.pages.count, queue.nbytes + queue.pages.nbytes)
    if queue.kind is not None and queue.kind.last_value is not None:
        messages, nbytes = queue.kind.last_value.settled()
        usage.change(-messages, -nbytes)
    if queue.far:
        # Of what memory has the number only, no size is known: as large as the others.
        usage.change(queue.far, queue.far * (queue.nbytes // queue.count if queue.count else 0))
    if queue.agenda is not None:
        usage.change(queue.agenda.count, queue.agenda.nbytes)
    usage.change(queue.delayed.count, queue.delayed.nbytes)
    return (seen + len(runs)) // _EACH


_EACH: Final = 15
"""Of them are looked at in the time of a queue."""


def _held(queue: Queue) -> tuple[int, int]:
    """(messages, bytes) of those that consumers hold, of so many of them as are looked at."""
    seen = nbytes = 0
    for consumer in queue.consumers:
        for run in consumer.flight or ():
            seen += len(run.records)
            nbytes += run.nbytes
            if seen >= _HELD:
                return seen, nbytes
        for group in (consumer.ledger, consumer.bodies, *consumer.held.values()):
            for i, run in (group or {}).items():
                # Ids of a run ascend: index() would be the square of what a client holds of one run.
                nbytes += run.size_of(bisect_left(run.ids, i))
                seen += 1
                if seen >= _HELD:
                    return seen, nbytes
    for returning in queue.returning or ():
        for i, run in returning.messages.items():
            nbytes += run.size_of(bisect_left(run.ids, i))
            seen += 1
            if seen >= _HELD:
                return seen, nbytes
    return seen, nbytes


def relieve(slot: Slot, turn: Turn) -> None:
    """Sessions that wait by settings that are no more may go on: the next SEND finds out whether there is room."""
    for quota in slot.take_loose():
        quota.release(slot.number, turn)
