"""Pages coming back from the journal, and what a restart knows about the messages in them.

Rule: runs enter memory in the order of the index; only messages that came back at a restart are looked at one by
one. Must not know consumers.
"""

# Example. After a restart run 1 … 10 of queue a is paged. The log says: 3 settled, deliveries announced up to 5, 7
# was NACKed twice. The page comes back; _known() takes the run apart where the answers differ:
#     1, 2      may have been delivered: REDELIVERED
#     3         nothing
#     4, 5      as 1 and 2
#     6         new
#     7         attempts 2, REDELIVERED; if its redelivery has a time, it waits for that
#     8 … 10    new
# What came since the restart enters as it is, unless the log counts deliveries of this queue.

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import groupby, pairwise

from broker.core.effects import Turn
from broker.core.message import DURABLE, Run
from broker.core.spans import inside

from ..consumers.browser import consumed
from ..messages.runs import pick
from ..queue.queue import Queue
from ..routing.redelivery import postpone
from ..routing.returns import read_back
from ..state.schedule import suspected
from ..state.slot import Slot
from . import selective_dispatch


def fetched(slot: Slot, queue_id: int, runs: list[Run], turn: Turn) -> None:
    """The journal's answer to a Fetch."""
    queue = slot.queues.get(queue_id)
    if queue is None:
        return
    asked = queue.pages.fetched()
    if asked is None:
        return
    for run, following in pairwise(runs):
        # PART: to page one of them out again by its position would bring both back.
        if run.position == following.position:  # compaction has taken it apart
            run.in_part()
            following.in_part()
    slot.touched[queue] = None
    browsed = queue.browsers is not None and queue.browsers.reading is not None
    _enter(slot, queue, asked, runs, turn)
    if not browsed:
        read_on(slot, queue, turn)  # by turns: whoever consumes wants the next page at once, again and again


def read_on(slot: Slot, queue: Queue, turn: Turn) -> None:
    """Asks for a page for a browser, if one has nothing to go on with."""
    if not queue.browsers or queue.deleted or queue.pages.fetching is not None or queue.pages.recalls:
        return
    if (reader := queue.browsers.next_reader()) is not None:
        slot.fetch(queue, reader.next_positions(slot.page_of(queue)), turn)


def _enter(slot: Slot, queue: Queue, asked: int, runs: list[Run], turn: Turn) -> None:
    # By whom it was asked for: recalls, then buckets, browsers, keys and cursors (0), else the front of the index.
    if asked < 0:
        _recalled(slot, queue, array("Q", list(queue.pages.recalls)[:-asked]), runs, turn)
        return
    if queue.choice is not None and queue.choice.reading():
        selective_dispatch.fetched(queue, queue.choice, runs)
        return
    if queue.browsers and (browser := queue.browsers.was_read()) is not None:
        browser.fetched(runs, [part for run in runs for part, _ in _known(queue, run)])
        return
    if not asked:
        if queue.kind is not None:
            queue.kind.fetched(runs, [part for run in runs for part, _ in _known(queue, run)])
        return  # or its browser has left
    used_up = consumed(queue.pages.index.first(asked), runs)
    parts = [part for run in runs for part in _known(queue, run)]
    # Before the runs enter: `paging` may end with this page, and what is published from now on stands behind them in
    # memory.
    queue.unpaged(used_up, sum([len(run.records) for run, _ in parts]), sum([run.nbytes for run, _ in parts]))
    for part, due in parts:
        if part.due > turn.now and not 0 < part.expires <= turn.now and not queue.hidden:
            due = max(due, part.due)  # the clock of an earlier leader was ahead of ours
        if due > turn.now:
            postpone(slot, queue, part, due)
        else:
            # In the order of the index, behind what is in memory: while anything was paged, memory got nothing newer.
            queue.enter(part)
    if queue.kind is not None:
        queue.kind.read_back()
    # The last page: nobody can ask any more what was settled before the restart. A browser still reads positions of
    # its own.
    if not len(queue.pages.index) and not queue.browsers:
        queue.restart.looked_at()
    if not queue.count:
        slot.watch_idle(queue, turn.now)


def _recalled(slot: Slot, queue: Queue, asked: array[int], runs: list[Run], turn: Turn) -> None:
    """Bytes of messages that were known by number only: now what was said of them can be done."""
    places: dict[int, dict[int, tuple[Run, int]]] = {}
    for run in runs:
        places.setdefault(run.position, {}).update({i: (run, at) for at, i in enumerate(run.ids)})
    # Only what the answer covers; the rest of `recalls` is asked for by the next dispatch, and until then nothing is
    # handed out.
    for position in asked[: consumed(asked, runs)]:
        found = places.get(position, {})
        for ids, of in queue.pages.recalls.pop(position):
            queue.arrived(len(ids))
            messages: dict[int, Run] = {}
            # Each count is a run of its own: attempts belong to a run, and 1,000 messages that failed alike stay one.
            # By id: they were named in the order in which their client got them, and ids of a run ascend.
            for (run, attempts), group in groupby(sorted([i for i in ids if i in found]), _same(queue, found)):
                part = pick(run, [found[i][1] for i in group])
                _counted(part, attempts)
                messages.update(dict.fromkeys(part.ids, part))
            read_back(slot, queue, messages, len(ids), of, turn)


def _same(queue: Queue, found: dict[int, tuple[Run, int]]) -> Callable[[int], tuple[Run, int | None]]:
    """Messages with the same key may be one run: runs are equal only to themselves."""
    return lambda i: (found[i][0], queue.tries.counts.get(i))


def _counted(run: Run, attempts: int | None) -> None:
    """attempts: by the log; None: it says nothing of these. 0: they were out before, and nobody failed."""
    if attempts is not None:
        run.came_again(attempts)


def _known(queue: Queue, run: Run) -> list[tuple[Run, int]]:
    """The messages of the run that are still in the queue, grouped by what the log says of them, with the time of
    their redelivery (0: now)."""
    if (run.ids[0] > queue.restart.restored and not queue.tries.counts) or not run.flags & DURABLE:
        return [(run, 0)]
    counts, due, settled, suspects = queue.tries.counts, queue.tries.due, queue.restart.settled, queue.restart.suspects
    if run.due:  # its id says nothing of when it may have been delivered
        suspects = [(run.ids[0], run.ids[-1])] if suspected(queue, run) else []
    keys = [
        None if settled and inside(settled, i) else (counts.get(i), due.get(i, 0), inside(suspects, i)) for i in run.ids
    ]
    groups: list[tuple[tuple[int | None, int, bool], list[int]]] = []
    previous: object = None
    for at, key in enumerate(keys):
        if key is not None:
            if key == previous:
                groups[-1][1].append(at)
            else:
                groups.append((key, [at]))
        previous = key
    result: list[tuple[Run, int]] = []
    for (attempts, later, suspect), indices in groups:
        part = pick(run, indices)
        _counted(part, attempts)
        if suspect:
            part.came_again()
        result.append((part, later))
    return result
