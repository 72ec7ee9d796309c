"""A consumer attaches again: what its client holds becomes its own again before other consumers are served.

Rule: an id is in one place only. What is taken out of memory or out of the paged part here is found there no more
(paged: it counts as settled for the pages to come). Must not know sessions.
"""

# Example. The leader of queue a died; the next one's log has 1 … 8, all live. Edge E attaches consumer 7 (`client`),
# whose client holds 4, 5, 6, and consumer 8 (`auto`), whose client was sent 1, 2, 3.
#     withdraw   1 … 6 leave the queue, from wherever they are; of those that are paged stubs are made
#     held       4, 5, 6 are in 7's ledger again, in its client's order; nobody else is given them (I6)
#     taken      1, 2, 3 are settled: their client got them
#     7, 8       are handed out as usual
#     settled 5  were 5 settled in the log instead, it would be a ghost in the ledger, so that an ACK of it finds
#                something
# Before other edges are served: attach_barrier.py of the link lets those come first that live. Consumers of one that
# comes later may find their messages with other consumers, and get ghosts.

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable

from broker.core.commands import Resume
from broker.core.effects import Turn
from broker.core.message import Run
from broker.core.spans import Span, inside, merged, spans_of, within, without

from ..consumers.consumer import Consumer, Ledger
from ..messages.runs import pick
from ..messages.unloaded import Stub, ghost, is_ghost, is_strange, may_be_ghosts
from ..queue.queue import Queue
from ..queue.selective_consumers import reclaim
from ..routing.returns import leave
from ..state.slot import Slot


def resume(slot: Slot, queue: Queue, consumer: Consumer, known: Resume, earlier: Ledger | None, turn: Turn) -> None:
    """Gives the new attachment what its client holds, settles what it has taken, and gives back the rest of what its
    earlier attachment to this leader held (None: there was none, or it has ended)."""
    if queue.kind is not None and queue.kind.cursors is not None:
        queue.kind.cursors.attach(consumer, known.held, known.taken)
        queue.delivering_again(len(consumer.ledger or ()))
        return
    # A ghost holds nothing: its message is looked for again, and may be in the queue by now.
    # The same leader, a new stream: what it held is in no queue, but in the ledger of the attachment that has just
    # ended.
    before = {i: run for i, run in (earlier or {}).items() if not is_ghost(run)}
    held = known.held if consumer.ledger is not None or consumer.bodies is not None else []
    # Such ids stay in the queue: another consumer may come for them, and its client has them too. Only one can be
    # right, and the log knows of the later delivery.
    lost = _lost(slot.inherited.get(queue.id, {}), known, before) if held and slot.inherited else []
    named = merged([*(part for span in held for part in without(span, lost)), *known.taken])
    mine = {i: run for i, run in before.items() if inside(named, i)}
    # Lost with the stream: nobody has failed. (A NACK whose answer went with it is not counted either.)
    leave(slot, queue, {i: run for i, run in before.items() if i not in mine}, turn, failed=False)
    # Only what the earlier attachment did not have: an id is looked for where it can be.
    had = spans_of(list(mine)) if mine else []
    rest = [part for span in named for part in without(span, had)]
    mine.update(withdraw(queue, rest))
    mine.update(_coming_back(queue, rest))
    # Behind withdraw(): to settle by number alone would leave them in memory, to be handed out.
    if known.taken:
        taken = merged(known.taken)
        gone = {i: run for i, run in mine.items() if inside(taken, i)}
        slot.counters.add("acked", len(gone))
        slot.settle_ids(queue, gone, turn)
    if held:
        ledger = _held(queue, consumer, known, mine, earlier)
        reclaim(queue, consumer, ledger)
        if consumer.ledger is None:
            consumer.carry(ledger)
        else:
            # In the client's order, not by id: a cumulative ACK covers what was delivered before (C43).
            consumer.adopt(ledger, not ledger.keys() <= mine.keys())
        queue.delivering_again(len(ledger))


def _held(queue: Queue, consumer: Consumer, known: Resume, mine: Ledger, earlier: Ledger | None) -> Ledger:
    """What is the consumer's again, in the order of delivery. Of large bodies in AckMode.AUTO nobody says anything that
    is not there."""
    if consumer.ledger is None:
        spans = merged(known.held)
        return {i: run for i, run in sorted(mine.items()) if inside(spans, i)}
    if not may_be_ghosts(known.held):
        return _in_order({**(earlier or {}), **mine}, known.held)
    ledger: Ledger = {}
    strange = {i for i, run in (earlier or {}).items() if is_strange(run)}
    firm = merged(known.firm) if queue.durable else []
    for span in known.held:
        # Proof that it was its own doing: as long as it stays attached nobody else takes anything from it.
        # Three ghosts per span, not per message: a client may hold 100,000.
        own, lasting, absent = ghost(span, own=True), ghost(span, firm=True), ghost(span)
        # Of most spans all is here, or nothing: no line of code for each message.
        runs = [run for run in map(mine.get, absent.ids) if run is not None] if mine else []
        if len(runs) == len(absent.ids):
            ledger.update(zip(absent.ids, runs, strict=True))
            continue
        if not runs and earlier is None and (not firm or within(span, firm)):
            ledger.update(dict.fromkeys(absent.ids, lasting if firm else absent))
            continue
        for i in absent.ids:
            if i in mine:
                ledger[i] = mine[i]
            elif earlier is not None and i not in strange:
                ledger[i] = own
            else:
                ledger[i] = lasting if inside(firm, i) else absent
    return ledger


def _in_order(here: Ledger, held: list[Span]) -> Ledger:
    """What of these is in the spans, in their order."""
    place = {span: at for at, span in enumerate(held)}
    ascending = sorted(held)
    found: list[tuple[int, int, Run]] = []
    for i, run in here.items():
        at = bisect_right(ascending, i, key=_first) - 1
        if at >= 0 and i <= ascending[at][1]:
            found.append((place[ascending[at]], i, run))
    found.sort(key=_place)
    return {i: run for _, i, run in found}


def _lost(counts: dict[int, int], known: Resume, before: Ledger) -> list[Span]:
    """What an earlier leader has taken from the client without its edge's knowledge (which was given up, or late):
    who was given it next may attach later than this one, and must find it. `counts`: of the log."""
    held, tries = merged(known.held), known.tries
    return [
        (i, i)
        for i, attempts in sorted(counts.items())
        if attempts > tries.get(i, 0) and i not in before and inside(held, i)
    ]


def withdraw(queue: Queue, spans: list[Span]) -> Ledger:
    """Takes the messages of the ascending `spans` out of the queue, wherever in it they are."""
    found: Ledger = {}
    if not spans:
        return found
    queue.came_back(_rest(queue.take_returned(), spans, found))
    for level in queue.stores():
        _from_level(queue, level, spans, found)
    if queue.choice is not None:
        found.update(queue.withdraw_far(queue.choice, spans))
    if queue.delayed.runs:
        _from_delayed(queue, spans, found)
    if queue.pages.table is not None:
        for span in spans:
            _from_pages(queue, span, found)
    return found


def _from_level(queue: Queue, level: deque[Run], spans: list[Span], found: Ledger) -> None:
    """Runs of a level stand by ascending id, but where some were scheduled."""
    passed: list[Run] = []
    # Up to the last id asked for: what is younger is not looked at.
    while level and (queue.agenda is not None or level[0].ids[0] <= spans[-1][1]):
        run = level.popleft()
        for part in _rest([run], spans, found):
            passed.append(part)
            if part is not run:
                queue.stays_in_part(part)
        if not passed or passed[-1] is not run:
            queue.left(run)
    level.extendleft(reversed(passed))


def _from_delayed(queue: Queue, spans: list[Span], found: Ledger) -> None:
    size = len(found)
    left = [(due, part) for due, run in queue.delayed for part in _rest([run], spans, found)]
    if len(found) != size:
        queue.delayed.keep(left)


def _from_pages(queue: Queue, span: Span, found: Ledger) -> None:
    table = queue.pages.table
    assert table is not None
    mean = queue.pages.nbytes // max(queue.pages.count, 1)
    # A list first: withdrawn() changes what find() looks at.
    for place, part in list(table.find(*span)):
        for first, last in without(part, queue.restart.settled):
            stub = Stub(range(first, last + 1), queue.pages.index.at(place), mean * (last - first + 1))
            found.update(dict.fromkeys(stub.ids, stub))
            queue.restart.withdrawn((first, last))
            queue.pages.withdrawn(len(stub.ids), stub.nbytes)


def _coming_back(queue: Queue, spans: list[Span]) -> Ledger:
    """Takes these out of what is on its way back to the queue: of that nobody else is to get them either."""
    found: Ledger = {}
    for returning in queue.returning or ():
        found.update(returning.withdraw(spans))
    queue.no_longer_delivering(len(found))
    return found


def _rest(runs: Iterable[Run], spans: list[Span], found: Ledger) -> list[Run]:
    """What is left of the runs when the messages of `spans` have gone to `found`."""
    rest: list[Run] = []
    for run in runs:
        first, last = run.ids[0], run.ids[-1]
        if first > spans[-1][1] or last < spans[0][0]:
            rest.append(run)
        elif within((first, last), spans):  # as most are: no look at each
            found.update(dict.fromkeys(run.ids, run))
        else:
            kept: list[int] = []
            for at, i in enumerate(run.ids):
                if inside(spans, i):
                    found[i] = run
                else:
                    kept.append(at)
            if kept:
                rest.append(run if len(kept) == len(run.ids) else pick(run, kept))
    return rest


def _first(span: Span) -> int:
    return span[0]


def _place(found: tuple[int, int, Run]) -> tuple[int, int]:
    return found[:2]
