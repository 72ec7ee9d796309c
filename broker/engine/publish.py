"""Taking messages: number, route, decide what goes to the log and what to memory.

Rule: where a run will rest (memory or page index) is decided here, once, so that order cannot break later: from
the first paged run on all runs of the queue are paged until the index is empty. Must not know consumers.
"""

from __future__ import annotations

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Done, Turn
from broker.core.message import BLOB, DURABLE, TRANSIENT, WAS_DURABLE, Run
from broker.core.records import RunRecord

from .addresses import anycast_queue, awaken, check_publish, default_routing, named_queue
from .dispatch import dispatch
from .queue import Queue
from .runs import copy
from .slot import Held, Slot


def publish(slot: Slot, command: Publish, turn: Turn, checked: bool = False) -> None:
    """Raises RefusedError if the destination does not take it; `checked`: that was asked when it was prepared."""
    run = command.run
    queues = _queues(slot, command, turn, checked)
    if slot.patterns is not None and command.queue is None and command.routing is not Routing.ANYCAST:
        queues = _with_wildcards(slot, command, queues, turn)
    slot.counters.accepted += len(run.records)
    done = Done(command.session, command.seq) if command.seq else None
    if len(queues) == 1 and len(queues[0]) > 0:
        waits = _accept(slot, command, run, queues[0], turn, done)
    else:
        waits = _share(slot, command, queues, turn, done)
    if done is not None and not waits:
        turn.effects.append(done)


def _queues(slot: Slot, command: Publish, turn: Turn, checked: bool) -> list[list[Queue]]:
    """Groups of queues: each message goes to all queues of one group, the groups take turns. Two special shapes:
    [] or [[]] nobody gets it."""
    routing = command.routing
    address = slot.addresses.get(command.address)
    if command.queue is None and address is not None:
        if routing is Routing.ANYCAST and len(address.anycast) == 1:
            return [address.anycast]
        if routing is Routing.MULTICAST and address.multicast:
            return [address.multicast]
    if not checked:
        check_publish(slot, command)
    if command.queue is not None:
        return [[named_queue(slot, command, command.queue, turn)]]
    wanted = routing
    if routing is Routing.UNSET and address is None:
        wanted = default_routing(slot, command.address)
    if wanted is Routing.MULTICAST:
        return [address.multicast] if address else []
    if address is None or (not address.anycast and (wanted is Routing.ANYCAST or not address.multicast)):
        return [[anycast_queue(slot, command.address, turn)]]
    if routing is Routing.UNSET and address.multicast:
        if len(address.anycast) <= 1:
            return [address.anycast + address.multicast]
        return [*([queue] for queue in address.anycast), address.multicast]
    return [[queue] for queue in address.anycast]


def _with_wildcards(slot: Slot, command: Publish, groups: list[list[Queue]], turn: Turn) -> list[list[Queue]]:
    """A wildcard's queue gets what a multicast queue of the address would get."""
    last = groups[-1] if groups else []
    if command.routing is Routing.UNSET and last and last[-1].routing is Routing.ANYCAST:
        return groups
    more = awaken(slot, command, turn)
    return [*groups[:-1], [*last, *more]] if more else groups


def _share(slot: Slot, command: Publish, groups: list[list[Queue]], turn: Turn, done: Done | None) -> bool:
    """Several anycast queues take turns message by message; the multicast ones get a copy of everything.

    Each part is numbered for itself, so that ids stay consecutive within a log record."""
    run = command.run
    anycast = [g for g in groups if g and g[0].routing is Routing.ANYCAST]
    others = [g for g in groups if g and g[0].routing is not Routing.ANYCAST]
    if not anycast and not others:
        slot.counters.dropped_unrouted += len(run.records)
        return False
    parts: list[tuple[Run, list[Queue]]] = [(copy(run), group) for group in others]
    address = slot.addresses[command.address]
    start, ways = address.start % max(len(anycast), 1), len(anycast)
    for n, group in enumerate(anycast):
        run.ids = range(len(run.records))
        part = run.cut(slice((n - start) % ways, None, ways))
        if part.records:
            parts.append((part, group))
    address.start = start + len(run.records)
    waits = False
    for part, group in parts:
        waits |= _accept(slot, command, part, group, turn, None)
    if waits and done is not None:
        slot.pending.append(Held(turn.number, done))
    return waits


def _accept(slot: Slot, command: Publish, run: Run, queues: list[Queue], turn: Turn, done: Done | None) -> bool:
    """Numbers the run and gives it to all `queues`. True: `done` waits with it."""
    if run.flags & TRANSIENT:
        run.flags &= ~TRANSIENT
    if run.flags & BLOB:
        _accept_blob(slot, command, run, queues, turn, done)
        return True
    slot.number_run(run, turn.now)
    if run.flags & DURABLE and any(queue.durable for queue in queues):
        _accept_durable(slot, command, run, queues, turn, done)
        return True
    touched, size, limit = slot.touched, run.nbytes, slot.limit
    last = run.ids[-1]
    crowded: list[Queue] | None = None
    for queue in queues:
        queue.last = last
        if queue.gated or queue.paging or queue.nbytes + size > limit or command.atomic:
            crowded = [queue] if crowded is None else [*crowded, queue]
        else:
            queue.enter(run)
            touched[queue] = None
    if crowded is None:
        return False
    return _accept_crowded(slot, command, run, crowded, turn, done)


def _accept_blob(slot: Slot, command: Publish, run: Run, queues: list[Queue], turn: Turn, done: Done | None) -> None:
    """A large body lives as long as a log record refers to it, so there always is one: durable for the durable
    queues, transient (under a number of its own, so that the books can tell them apart) for the others."""
    durable = [queue for queue in queues if queue.durable] if run.flags & DURABLE else []
    others = [queue for queue in queues if queue not in durable]
    if durable:
        slot.number_run(run, turn.now)
        _accept_durable(slot, command, run, durable, turn, None if others else done)
    if others:
        part = copy(run)
        slot.number_run(part, turn.now)
        entries = [(queue, _crowded(slot, queue, part, turn)) for queue in others]
        for queue in others:
            queue.last = part.ids[-1]
        slot.reserve(turn)
        transient = _spill(slot, command, part, others, turn)[0][1]
        _hold(slot, [(queue, transient, paged) for queue, paged in entries], turn.number, done)


def _accept_durable(slot: Slot, command: Publish, run: Run, queues: list[Queue], turn: Turn, done: Done | None) -> None:
    kept = [queue for queue in queues if queue.durable]
    dispatched = any(queue.takes() for queue in kept)
    last = run.ids[-1]
    entries: list[tuple[Queue, Run, bool]] = []
    spill: list[Queue] = []
    for queue in queues:
        paged = _crowded(slot, queue, run, turn)
        queue.last = last
        if not queue.durable:
            if paged:
                spill.append(queue)
                continue
        elif dispatched and queue.announced <= queue.cleared:
            queue.cleared = last
        elif last > queue.cleared:
            queue.announced = last
        entries.append((queue, run, paged))
    slot.reserve(turn)
    turn.appends.append(RunRecord(slot.number, command.address, [q.id for q in kept], run, dispatched, command.dedup))
    if spill:
        entries += _spill(slot, command, run, spill, turn)
    _hold(slot, entries, turn.number, done)


def _accept_crowded(slot: Slot, command: Publish, run: Run, queues: list[Queue], turn: Turn, done: Done | None) -> bool:
    """Non-durable messages for queues that are too full, or where earlier ones still wait for the log."""
    spill: list[Queue] = []
    behind: list[tuple[Queue, Run, bool]] = []
    for queue in queues:
        if _crowded(slot, queue, run, turn):
            spill.append(queue)
        elif queue.gated or command.atomic:
            behind.append((queue, run, False))
        else:
            queue.enter(run)
            slot.touched[queue] = None
    if spill:
        slot.reserve(turn)
        _hold(slot, behind + _spill(slot, command, run, spill, turn), turn.number, done)
        return True
    if behind:
        # What they wait for is already under way: no later commit is needed, but for a transaction's own.
        _hold(slot, behind, turn.number if command.atomic else slot.pending[-1].number, None)
    return False


def _crowded(slot: Slot, queue: Queue, run: Run, turn: Turn) -> bool:
    """Has the run to be paged? Hands out what the queue has first, if somebody takes it."""
    if queue.paging:
        return True
    if queue.nbytes + queue.gated_bytes + run.nbytes <= slot.limit:
        return False
    if queue.count and queue.consumers:
        dispatch(slot, queue, turn)
    if queue.nbytes + queue.gated_bytes + run.nbytes <= slot.limit or not (queue.count or queue.gated):
        return False
    queue.paging = True
    return True


def _spill(slot: Slot, command: Publish, run: Run, queues: list[Queue], turn: Turn) -> list[tuple[Queue, Run, bool]]:
    """A transient record for queues that have no durable one to read back."""
    paged = copy(run)
    paged.flags = run.flags & ~DURABLE | TRANSIENT
    if run.flags & DURABLE:
        paged.flags |= WAS_DURABLE
    turn.appends.append(RunRecord(slot.number, command.address, [q.id for q in queues], paged))
    for queue in queues:
        queue.spilled = True
    return [(queue, paged, True) for queue in queues]


def _hold(slot: Slot, entries: list[tuple[Queue, Run, bool]], number: int, done: Done | None) -> None:
    for queue, run, paged in entries:
        queue.gated += 1
        if paged:
            queue.gated_pages += 1
        else:
            queue.gated_bytes += run.nbytes
    slot.pending.append(Held(number, done, entries))
