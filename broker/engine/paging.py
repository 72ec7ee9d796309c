"""Pages coming back from the journal, and what a restart knows about the messages in them.

Rule: runs enter memory in the order of the index; only messages that came back at a restart are looked at one by
one. Must not know consumers.
"""

from __future__ import annotations

from broker.core.effects import Turn
from broker.core.message import DURABLE, REDELIVERED, Run

from .browser import consumed
from .queue import Queue
from .redelivery import postpone
from .runs import inside, pick
from .slot import Slot


def fetched(slot: Slot, queue_id: int, runs: list[Run], turn: Turn) -> None:
    """The journal's answer to a Fetch."""
    queue = slot.queues.get(queue_id)
    if queue is None or queue.fetching is None:
        return
    asked, queue.fetching = queue.fetching, None
    slot.touched[queue] = None
    for browser in queue.browsers:
        if browser.fetching:
            used = [part for run in runs for part, _ in _known(queue, run)]
            browser.fetched(runs, used)
            return
    if not asked:
        return  # its browser has left
    used_up = consumed(queue.index.first(asked), runs)
    queue.unpaged(used_up, sum([len(run.records) for run in runs]), sum([run.nbytes for run in runs]))
    for run in runs:
        if run.ids[0] > queue.restored:
            queue.enter(run)
            continue
        for part, due in _known(queue, run):
            if due > turn.now:
                postpone(slot, queue, part, due)
            else:
                queue.enter(part)
    if not len(queue.index) and not queue.browsers:
        queue.settled, queue.suspects = [], []  # everything that came back at the restart has been looked at
    if not queue.count:
        slot.watch_idle(queue, turn.now)


def _known(queue: Queue, run: Run) -> list[tuple[Run, int]]:
    """The messages of the run that are still in the queue, grouped by what the log says of them, with the time of
    their redelivery (0: now)."""
    if run.ids[0] > queue.restored or not run.flags & DURABLE:
        return [(run, 0)]
    counts, due, settled, suspects = queue.counts, queue.due, queue.settled, queue.suspects
    keys = [
        None if settled and inside(settled, i) else (counts.get(i, 0), due.get(i, 0), inside(suspects, i))
        for i in run.ids
    ]
    groups: list[tuple[tuple[int, int, bool], list[int]]] = []
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
        part.attempts = attempts
        if suspect:
            part.flags |= REDELIVERED
        result.append((part, later))
    return result
