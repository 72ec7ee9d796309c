"""Whoever looks on hears of every change: what an operator sees of a queue is other only where it is marked.

Rule: looked at when a turn has ended, of any World; not of one with so many queues that the tests would take longer.
"""

from __future__ import annotations

from typing import Any

from broker.engine.engine import Engine
from broker.engine.queue.queue import Queue
from broker.engine.state import queue_views

MOST = 40


class Watched:
    """One engine after the other."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._seen: dict[int, Any] = {}
        self._mark = 0

    def check(self, engine: Engine) -> None:
        """A turn has ended."""
        slot = engine.shown
        if len(slot.queues) > MOST:
            self._engine = None
            return
        short = [(queue.name, queue.moving) for queue in slot.queues.values() if queue.moving < 0]
        assert not short, f"more came back, or arrived, than had left: {short}"
        now = {id: _shown(queue) for id, queue in slot.queues.items() if not queue.hidden}
        if self._engine is engine:
            news = slot.changed.since(self._mark)
            if news is not None:
                marked = {id for _, id in news}
                missed = {id for id in now.keys() | self._seen.keys() if now.get(id) != self._seen.get(id)} - marked
                assert not missed, [(id, self._seen.get(id), now.get(id)) for id in missed]
        self._engine, self._seen, self._mark = engine, now, slot.changed.begin()


def _shown(queue: Queue) -> tuple[Any, ...]:
    values = [value(queue) for value in queue_views.QUEUE_VALUES.values()]
    return (*values, queue.paused, queue.settings.paused, queue.pages.count + queue.far, queue_views.kind_of(queue))
