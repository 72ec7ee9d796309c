"""What a queue is beside first in, first out: the state of last values, of messages that stay, of queues that wait.

Its queue tells it what comes and goes; before messages are handed out and again afterwards queue_policies.py brings the
queue in order by it. A plain queue has none of these.

Rule: state and what follows from it; takes nothing out of the queue.
"""

from __future__ import annotations

from typing import Protocol

from broker.config.addressing import AddressSettings
from broker.core.message import Run

from ..consumers.consumer_cursors import Cursors
from ..messages.page_index import PageIndex
from .last_value import LastValue


class Ordered(Protocol):
    """What of a queue is looked at when its settings change."""

    delivering: int

    def in_order(self) -> list[Run]:
        """All ready runs as they would be delivered."""
        ...


class QueuePolicy:
    """What a queue does beside first in, first out.

    last_value   newest message of each key; None: all.
    cursors      messages stay, and each consumer has its own place; None: they go.
    since        when the first consumer came; 0: nobody is there.
    begun        enough came (consumers_before_dispatch); until all are gone."""

    __slots__ = ("begun", "cursors", "last_value", "since")

    def __init__(self) -> None:
        self.last_value: LastValue | None = None
        self.cursors: Cursors | None = None
        self.since = 0
        self.begun = False

    def configure(self, queue: Ordered, settings: AddressSettings, index: PageIndex) -> None:
        """What is there already is looked at as if it had just come."""
        key = settings.last_value_key or ("_AMQ_LVQ_NAME" if settings.last_value else "")
        if not key:
            self.last_value = None
        elif self.last_value is None or self.last_value.name != key:
            self.last_value = LastValue(key)
            self.last_value.rest(queue.in_order(), index)
        # To change it now would settle, or give back, what was never taken out of the queue (or the other way round).
        if queue.delivering:
            return  # what consumers hold was taken by the old rule; the new one applies when the last of them has gone
        if not settings.non_destructive:
            self.cursors = None
        elif self.cursors is None:
            self.cursors = Cursors()

    # ── what happens to the queue ──────────────────────────────────────────────────────────────────

    def came(self, run: Run) -> None:
        """A run has entered memory."""
        if self.last_value is not None:
            self.last_value.fresh.append(run)
        if self.cursors is not None:
            self.cursors.came(run)

    def left(self, run: Run) -> None:
        """A run has left memory."""
        if self.cursors is not None:
            self.cursors.left(run)

    def paged_unseen(self, position: int) -> None:
        """Something has come to the page index of which nothing is known but where it is."""
        if self.last_value is not None:
            self.last_value.blind.append(position)

    def paged(self, run: Run) -> None:
        """… and it is this."""
        if self.last_value is not None:
            # page() has put it there a moment ago, as one of which nothing is known.
            self.last_value.blind.pop()
            self.last_value.paged(run)

    def arranged(self, index: PageIndex) -> None:
        """The page index has another order, and nobody has looked at it yet."""
        if self.last_value is not None:
            self.last_value.arranged(index)

    def unpaged(self, index: PageIndex, positions: int) -> None:
        """So many are about to leave the page index."""
        if self.last_value is not None and self.last_value.blind:
            self.last_value.unpaged(index.first(positions))
        if self.cursors is not None:
            self.cursors.unpaged(positions)

    def changed(self) -> None:
        """Part of a run has gone: what is left stands where it stood."""
        if self.cursors is not None:
            self.cursors.changed()

    def fetched(self, runs: list[Run], used: list[Run]) -> None:
        """The journal's answer to whom it was read for, and what of it is in the queue."""
        if self.last_value is not None and self.last_value.asked is not None:
            self.last_value.looked(runs, used)
        elif self.cursors is not None:
            self.cursors.fetched(runs, used if self.last_value is None else self.last_value.alive(used))

    def read_back(self) -> None:
        """A page has entered memory: its messages rested before, so they replace each other before a consumer gets
        one."""
        if self.last_value is not None:
            self.last_value.settle_down()

    def enough(self, consumers: int, settings: AddressSettings, now: int) -> int | None:
        """0: enough consumers are there, or the first came long ago. Else when to ask again; None: nobody says."""
        if not consumers:
            self.since, self.begun = 0, False
            return None
        if not self.begun:
            self.since = self.since or now
            due = self.since + settings.delay_before_dispatch_ms
            timed = settings.delay_before_dispatch_ms >= 0
            self.begun = consumers >= settings.consumers_before_dispatch or (timed and due <= now)
            if not self.begun:
                return due if timed else None
        return 0
