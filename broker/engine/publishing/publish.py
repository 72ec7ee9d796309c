"""Taking messages: number, route, decide what goes to the log and what to memory.

Rule: where a run will rest (memory or page index) is decided here, once, so that order cannot break later: from
the first paged run on all runs of the queue are paged until the index is empty. Must not know consumers.
"""

# The way of a SEND. Session 5 sends durable x to /queue/a; consumer 7 is ready and a is empty:
#     _queues      a, by name. No rule, no filter: the short way
#     number_run   id 21. From here on nothing can refuse it
#     at once?     7 would get it at once: the record itself says "dispatched", and no mark is needed later
#     the log      RunRecord(21); a's gate holds the run, `pending` the receipt. Nobody sees it yet
#     release      21 enters a, Done goes to the edge, 7 gets it (commit_release.py): persist, then tell (I3)
# If x is not durable and nothing of a waits: it enters a at once, and the receipt goes with this turn. If something
# durable waits in front of it: it waits with that, or it would overtake (I7). If a is full: it becomes a position, in
# a transient record if it is not durable.

from __future__ import annotations

from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.effects import Done, Turn
from broker.core.errors import RefusedError
from broker.core.message import BLOB, DURABLE, PART, TRANSIENT, UNIQUE, Run
from broker.core.records import GroupRecord, LogRecord, MetaRecord, RunRecord

from ..address.address_rules import OWNED
from ..dispatch.attach import awaken
from ..dispatch.dispatch import dispatch
from ..messages.copies import WIDE
from ..messages.runs import copy
from ..queue import selective_consumers
from ..queue.queue import Queue, receive
from ..routing import advisories, dead_letter_queues, diverts, retroactive
from ..routing.addresses import anycast_queue, named_queue
from ..routing.forwarding import Forward, send_on
from ..routing.routing import check_publish, default_routing, may_create_queue
from ..state import limits, makers
from ..state.awaiting_commit import Held
from ..state.log_group import grouped
from ..state.slot import Slot, progress
from ..state.slot_address import Address
from . import admission


def publish(slot: Slot, command: Publish, turn: Turn, checked: bool = False) -> None:
    """Raises RefusedError if the destination does not take it; `checked`: that was asked when it was prepared."""
    run = command.run
    address = slot.addresses.get(command.address)
    rules = slot.rulebook(command.address) if address is None else address.rules
    # One question for all that is not plain: most messages pay nothing for what they do not use.
    if rules is not None or run.due or run.flags & UNIQUE:
        if rules is not OWNED or run.due or run.flags & UNIQUE:
            _publish_careful(slot, command, turn, checked)
            return
        makers.check(slot, address, command)
    # The usual shape, without any check and without a call: of that type there is one queue, so nothing has to be made
    # or allowed.
    plain = command.queue is None and command.routing is Routing.ANYCAST
    if plain and address is not None and len(address.anycast) == 1:
        queues = [address.anycast]
    else:
        queues = _queues(slot, command, address, turn, checked)
    wild = slot.patterns is not None or slot.wildcards.some
    if wild and command.queue is None and command.routing is not Routing.ANYCAST:
        queues = _with_wildcards(slot, command, queues, turn)
        if slot.patterns is not None and slot.patterns.filtered:
            _publish_sifted(slot, command, queues, turn)
            return
    slot.counters.accepted += len(run.records)
    done = Done(command.session, command.seq) if command.seq else None
    # One group of queues: the run goes to them as it is, uncut and uncopied.
    if len(queues) == 1 and len(queues[0]) > 0:
        waits = _accept(slot, command, run, queues[0], turn, done)
    else:
        waits = share(slot, command, queues, turn, done)
    if done is not None and not waits:
        turn.effects.append(done)


def _publish_careful(slot: Slot, command: Publish, turn: Turn, checked: bool) -> None:
    """By way of admission; told when everything it appended is durable."""
    if not checked:
        check_publish(slot, command)
    command.run.accepted_at(turn.now)  # selectors may ask for it before it is numbered
    before, count, first = progress(turn), len(command.run.records), len(turn.appends)
    left, onward = admission.admit(slot, command, turn)
    # Before its own queues: the copies stand in the same group of the log, so a divert and its address have both or
    # neither.
    for part, way in onward:
        _send_on(slot, command, part, way, turn)
    slot.counters.accepted += count
    if left:
        queues = _queues(slot, command, slot.addresses.get(command.address), turn, True)
        wild = slot.patterns is not None or slot.wildcards.some
        if wild and command.queue is None and command.routing is not Routing.ANYCAST:
            queues = _with_wildcards(slot, command, queues, turn)
        rules = slot.rulebook(command.address)
        if rules is not None and rules.retroactive:
            queues = retroactive.with_ring(slot, command, queues, turn)
        share(slot, command, queues, turn, None, careful=True)
        if slot.counted:
            limits.published(slot, command, turn)
    # A replay looks for (producer, number) in run records; copies have none, so it is written by itself.
    if command.dedup is not None and _nameless(turn.appends[first:]):
        turn.appends.append(MetaRecord(slot.number, "producers", {"producers": [list(command.dedup)]}))
    if len(turn.appends) - first > 1:
        # All that one command writes counts together: half of it in the log would make a replay look like a
        # duplicate.
        turn.appends[first:] = grouped(slot.number, turn.appends[first:])
    # Nothing of it may be in this turn: the first try of the same id waits for an earlier commit, and this answer
    # with it.
    if command.seq and (not left or (slot.pending and command.run.flags & UNIQUE)):
        # What was known already may still be on its way to the disk.
        slot.barrier(Done(command.session, command.seq), turn)
    else:
        slot.answer(command.session, command.seq, turn, before)


def _nameless(records: list[LogRecord]) -> bool:
    """Has all that lasts gone elsewhere, as copies without the number of the command: a replay would not find it."""
    parts = [part for r in records for part in (r.records if isinstance(r, GroupRecord) else (r,))]
    runs = [part for part in parts if isinstance(part, RunRecord) and not part.run.flags & TRANSIENT]
    return bool(runs) and all(part.dedup is None for part in runs)


def _publish_sifted(slot: Slot, command: Publish, queues: list[list[Queue]], turn: Turn) -> None:
    """A wildcard subscription has a filter."""
    before = progress(turn)
    command.run.accepted_at(turn.now)
    slot.counters.accepted += len(command.run.records)
    share(slot, command, queues, turn, None, careful=True)
    slot.answer(command.session, command.seq, turn, before)


def _queues(slot: Slot, command: Publish, address: Address | None, turn: Turn, checked: bool) -> list[list[Queue]]:
    """Groups of queues: each message goes to all queues of one group, the groups take turns. Two special shapes:
    [] or [[]] nobody gets it."""
    routing = command.routing
    # The two usual shapes, without any check: queues of that type exist, so nothing has to be made or allowed.
    if command.queue is None and address is not None:
        if routing is Routing.ANYCAST and len(address.anycast) == 1:
            return [address.anycast]
        if routing is Routing.MULTICAST and address.multicast:
            return [address.multicast]
    # Here and not above: what exists may be sent to, and only what has to be made is asked about.
    if not checked:
        check_publish(slot, command)
    if command.queue is not None:
        return [[named_queue(slot, command, command.queue, turn)]]
    wanted = routing
    if routing is Routing.UNSET and (address is None or dead_letter_queues.only(address)):
        wanted = default_routing(slot, command.address)
    if wanted is Routing.MULTICAST:
        return [address.multicast] if address else []
    if address is None or (not address.anycast and (wanted is Routing.ANYCAST or not address.multicast)):
        others = address.multicast if address is not None and routing is Routing.UNSET else []
        if address is not None and not may_create_queue(slot, command.address, command.create):
            return [others]
        return [[anycast_queue(slot, command.address, turn, command.maker), *others]]
    if routing is Routing.UNSET and address.multicast:
        if len(address.anycast) <= 1:
            return [address.anycast + address.multicast]
        return [*([queue] for queue in address.anycast), address.multicast]
    # Groups of one: the messages take turns among several anycast queues of one address.
    return [[queue] for queue in address.anycast]


def _with_wildcards(slot: Slot, command: Publish, groups: list[list[Queue]], turn: Turn) -> list[list[Queue]]:
    """A wildcard's queue gets what a multicast queue of the address would get."""
    last = groups[-1] if groups else []
    # The destination means a queue here: a wildcard subscription is a topic's, and gets nothing of it.
    if command.routing is Routing.UNSET and last and last[-1].routing is Routing.ANYCAST:
        return groups
    more = awaken(slot, command, turn)
    return [*groups[:-1], [*last, *more]] if more else groups


def share(
    slot: Slot, command: Publish, groups: list[list[Queue]], turn: Turn, done: Done | None, careful: bool = False
) -> bool:
    """Gives the run to the queues. Several anycast ones take turns message by message; the multicast ones get a copy of
    everything.

    Each part is numbered for itself, so that ids stay consecutive within a log record. careful: queues may have
    filters."""
    run = command.run
    anycast = [g for g in groups if g and g[0].routing is Routing.ANYCAST]
    others = [g for g in groups if g and g[0].routing is not Routing.ANYCAST]
    if not anycast and not others:
        _unrouted(slot, command, turn)
        return False
    # A copy each, since each part gets ids of its own: a run's ids are one range.
    parts: list[tuple[Run, list[Queue]]] = [(copy(run), group) for group in others]
    if anycast:
        parts += _turns(slot.addresses[command.address], run, anycast)
    if careful:
        parts = admission.sift(slot, parts, command.address)
        if not parts:
            _unrouted(slot, command, turn)
    waits = False
    for part, group in parts:
        waits |= _accept(slot, command, part, group, turn, None)
    if waits and done is not None:
        slot.pending.append(Held(turn.number, done))
    return waits


def _unrouted(slot: Slot, command: Publish, turn: Turn) -> None:
    way = diverts.unrouted(slot, command)
    if slot.match(command.address).message_advisories:
        count, kind = len(command.run.records), advisories.NO_CONSUMER
        advisories.tell(slot, kind, command.address, Routing.MULTICAST, (), count, turn)
    if way is None:
        slot.counters.add("dropped_unrouted", len(command.run.records))
    else:
        _send_on(slot, command, command.run, way, turn)


def _send_on(slot: Slot, command: Publish, run: Run, way: Forward, turn: Turn) -> None:
    """Messages of `command` go another way: at once, if that is in this slot. What is not taken there is dropped."""
    onward = send_on(slot, command, run, way, turn)
    if onward is not None:
        try:
            publish(slot, onward, turn)
        except RefusedError:
            slot.counters.add("dropped_unrouted", len(onward.run.records))


def _turns(address: Address, run: Run, anycast: list[list[Queue]]) -> list[tuple[Run, list[Queue]]]:
    parts: list[tuple[Run, list[Queue]]] = []
    start, ways = address.start % len(anycast), len(anycast)
    for n, group in enumerate(anycast):
        # The n-th queue gets every ways-th message, beginning with the one whose turn it is: no loop over messages.
        part = run.cut(slice((n - start) % ways, None, ways))
        if part.records:
            parts.append((part, group))
    address.turn_on(start + len(run.records))
    return parts


def _accept(slot: Slot, command: Publish, run: Run, queues: list[Queue], turn: Turn, done: Done | None) -> bool:
    """Numbers the run and gives it to all `queues`. True: `done` waits with it."""
    if slot.strangers and command.session in slot.strangers:
        queues = selective_consumers.without_own(queues, command.session)
        if not queues:
            return False
    if slot.counted:
        limits.entered(queues, run)
    if run.flags & (TRANSIENT | PART):
        # It came from a journal by way of a hidden queue or a dead letter: how it rested there is over.
        run.without(TRANSIENT | PART)
    if run.due:
        _accept_due(slot, command, run, queues, turn, done)
        return True
    if run.flags & BLOB:
        _accept_blob(slot, command, run, queues, turn, done)
        return True
    slot.number_run(run, turn.now)
    if slot.strangers:
        selective_consumers.note(queues, command.session, run)
    if run.flags & DURABLE:
        kept = queues if len(queues) == 1 and queues[0].durable else [queue for queue in queues if queue.durable]
        if kept:
            _accept_durable(slot, command, run, queues, kept, turn, done)
            return True
    if len(queues) > WIDE:
        slot.copies.entered(len(queues), len(run.records))
    without_room = receive(queues, run, -1 if command.atomic else slot.limit, slot.touched)
    return _accept_paged(slot, command, run, without_room, turn, done) if without_room else False


def _accept_due(slot: Slot, command: Publish, run: Run, queues: list[Queue], turn: Turn, done: Done | None) -> None:
    """Not due yet: it rests in the log, durable or not (schedule.py), and nobody may have been given it."""
    durable = [queue for queue in queues if queue.durable] if run.flags & DURABLE else []
    others = [queue for queue in queues if queue not in durable]
    entries: list[tuple[Queue, Run, bool]] = []
    if durable:
        slot.number_run(run, turn.now)
        selective_consumers.note(durable, command.session, run)
        slot.reserve(turn)
        turn.appends.append(RunRecord(slot.number, command.address, [q.id for q in durable], run, False, command.dedup))
        entries = [(queue, run, False) for queue in durable]
    if others:
        part = copy(run)
        slot.number_run(part, turn.now)
        selective_consumers.note(others, command.session, part)
        slot.reserve(turn)
        # Not paged (False): due messages go to the agenda when the log has them, by their position.
        entries += [(queue, paged, False) for queue, paged, _ in _spill(slot, command, part, others, turn)]
    for queue, part, _ in entries:
        queue.numbered(part.ids)
    slot.await_commit(entries, turn.number, done)


def _accept_blob(slot: Slot, command: Publish, run: Run, queues: list[Queue], turn: Turn, done: Done | None) -> None:
    """A large body lives as long as a log record refers to it, so there always is one: durable for the durable
    queues, transient (under a number of its own, so that the accounts can tell them apart) for the other queues."""
    durable = [queue for queue in queues if queue.durable] if run.flags & DURABLE else []
    others = [queue for queue in queues if queue not in durable]
    if durable:
        slot.number_run(run, turn.now)
        selective_consumers.note(durable, command.session, run)
        # Two numbers for one message, one for each record: a body lives while either refers to it.
        _accept_durable(slot, command, run, durable, durable, turn, None if others else done)
    if others:
        part = copy(run)
        slot.number_run(part, turn.now)
        selective_consumers.note(others, command.session, part)
        entries = [(queue, _must_page(slot, queue, part, turn)) for queue in others]
        for queue in others:
            queue.numbered(part.ids)
        slot.reserve(turn)
        transient = _spill(slot, command, part, others, turn)[0][1]
        slot.await_commit([(queue, transient, paged) for queue, paged in entries], turn.number, done)


def _accept_durable(
    slot: Slot, command: Publish, run: Run, queues: list[Queue], kept: list[Queue], turn: Turn, done: Done | None
) -> None:
    """kept: those of the queues that are durable."""
    dispatched = False
    for queue in kept:
        if queue.consumers and queue.delivers_at_once():
            # One queue is enough: the record is one, and says it of all its queues. Of a queue where it is not true
            # it costs a needless `redelivered` after a crash.
            dispatched = True
            break
    ids = run.ids
    last = ids[-1]
    entries: list[tuple[Queue, Run, bool]] = []
    spill: list[Queue] = []
    for queue in queues:
        full = queue.pages.paging or queue.nbytes + queue.gate.nbytes + run.nbytes > slot.limit
        paged = full and _must_page(slot, queue, run, turn)
        queue.numbered(ids)
        # One that is not durable has no part in the durable record: paged, it needs one of its own.
        if not queue.durable:
            if paged:
                spill.append(queue)
                continue
        else:
            queue.watermark.came(last, dispatched)
        entries.append((queue, run, paged))
    if slot.next_id > slot.reserved:
        slot.reserve(turn)
    kept_in = [kept[0].id] if len(kept) == 1 else [queue.id for queue in kept]
    turn.appends.append(RunRecord(slot.number, command.address, kept_in, run, dispatched, command.dedup))
    if spill:
        entries += _spill(slot, command, run, spill, turn)
    slot.await_commit(entries, turn.number, done)


def _accept_paged(slot: Slot, command: Publish, run: Run, queues: list[Queue], turn: Turn, done: Done | None) -> bool:
    """Non-durable messages for queues that are too full, or where earlier ones still wait for the log."""
    spill: list[Queue] = []
    behind: list[tuple[Queue, Run, bool]] = []
    for queue in queues:
        if _must_page(slot, queue, run, turn):
            spill.append(queue)
        elif queue.gate.entries or command.atomic:
            behind.append((queue, run, False))
        else:
            queue.enter(run)
            slot.touched[queue] = None
    if spill:
        slot.reserve(turn)
        slot.await_commit(behind + _spill(slot, command, run, spill, turn), turn.number, done)
        return True
    if behind:
        # What they wait for is already under way: no later commit is needed, but for a transaction's own.
        # The number of the latest commit under way: pending is in order, so behind it everything older has entered.
        slot.await_commit(behind, turn.number if command.atomic else slot.pending[-1].number, None)
    return False


def _must_page(slot: Slot, queue: Queue, run: Run, turn: Turn) -> bool:
    """Has the run to be paged? Hands out what the queue has first, if a consumer is ready."""
    if queue.pages.paging:
        return True
    if queue.nbytes + queue.gate.nbytes + run.nbytes <= slot.limit:
        return False
    # Otherwise every message beyond the limit would look through a queue that nobody takes from.
    hungry = queue.consumers or queue.kind is not None
    if queue.count and queue.returning is None and hungry and turn.may(slot.number):
        dispatch(slot, queue, turn)
    # A single run larger than the limit still goes through memory when there is nothing else.
    if queue.nbytes + queue.gate.nbytes + run.nbytes <= slot.limit or not (queue.count or queue.gate.entries):
        return False
    # From here until the index is empty, whatever becomes free meanwhile: see page_store.py.
    queue.pages.begin()
    return True


def _spill(slot: Slot, command: Publish, run: Run, queues: list[Queue], turn: Turn) -> list[tuple[Queue, Run, bool]]:
    """A transient record for queues that have no durable one to read back."""
    paged = copy(run)
    paged.spilled()
    turn.appends.append(RunRecord(slot.number, command.address, [q.id for q in queues], paged))
    for queue in queues:
        queue.spills()
    return [(queue, paged, True) for queue in queues]


def is_wide(slot: Slot, command: Publish) -> bool:
    """May many queues get what it brings."""
    if command.queue is not None or command.routing is Routing.ANYCAST:
        return False
    address = slot.addresses.get(command.address)
    if slot.patterns is not None or slot.wildcards.some:
        return True
    return address is not None and len(address.multicast) > WIDE
