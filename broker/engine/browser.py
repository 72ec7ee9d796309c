"""A browsing consumer: sees what was ready when it came and it asked for, once and in order, and takes nothing.

Rule: it looks at a list made at its SUBSCRIBE; what is consumed meanwhile may be shown all the same.
Must not know queues.
"""

from __future__ import annotations

from array import array
from collections import deque

from broker.core.effects import BrowseEnd, Deliver, Turn
from broker.core.message import Run

from .consumer import Consumer
from .runs import pick


class Browser:
    """feed   runs still to be shown.    positions   journal positions still to be read, last one first.
    fetching   the fetch under way is this browser's.    done   it has seen everything."""

    __slots__ = ("_address", "_some", "asked", "consumer", "done", "feed", "fetching", "overran", "positions")

    def __init__(
        self,
        consumer: Consumer,
        address: str,
        runs: list[Run],
        positions: array[int],
        far: list[int],
        some: dict[int, set[int]],
    ) -> None:
        """`address`: of the messages, for AMQAddress. `far`: positions of which only the messages `some` are in the
        queue."""
        self.consumer = consumer
        self.feed: deque[Run] = deque()
        self.overran = ""
        """Over what its selector would have cost too much; empty: nothing."""
        self._address = address
        self._some = some
        self._feed(runs)
        positions = array("Q", far) + positions
        positions.reverse()
        self.positions = positions
        self.fetching = False
        self.done = False
        self.asked: array[int] = array("Q")

    def next_positions(self, count: int) -> array[int]:
        """The next positions to read, in order."""
        self.asked = self.positions[-count:]
        self.asked.reverse()
        return self.asked

    def fetched(self, answer: list[Run], runs: list[Run]) -> None:
        """The journal's answer, and what of it is in the queue; positions not covered are asked for again."""
        self.fetching = False
        used = consumed(self.asked, answer)
        del self.positions[len(self.positions) - used :]
        self._feed([self._present(run) for run in runs])

    def _present(self, run: Run) -> Run:
        """Those messages of a run that was read back which are in the queue."""
        ids = self._some.get(run.position)
        return run if ids is None else pick(run, [at for at, i in enumerate(run.ids) if i in ids])

    def _feed(self, runs: list[Run]) -> None:
        """Those messages it wants to see."""
        wish = self.consumer.wish
        selector = None if wish is None else wish[0]
        for run in runs:
            if selector is not None and run.ids:
                run = pick(run, selector.select(run, self._address))
                if selector.meter is not None:
                    self.overran = selector.meter.overran() or self.overran
            if run.ids:
                self.feed.append(run)

    def show(self, turn: Turn) -> None:
        """Delivers what there is room for, and tells when that was all."""
        if self.done:
            return
        consumer, feed = self.consumer, self.feed
        while feed and consumer.room > 0:
            run = feed.popleft()
            if run.expires and run.expires <= turn.now:
                continue
            fitting = consumer.prefix(run)
            if fitting < len(run.records):
                feed.appendleft(run.cut(slice(fitting, None)))
                run = run.cut(slice(fitting))
            turn.effects.append(Deliver(consumer.id, run, consumer.charge(run)))
        if not feed and not self.positions:
            self.done = True
            turn.effects.append(BrowseEnd(consumer.id))


def consumed(asked: array[int], runs: list[Run]) -> int:
    """How many of the asked positions an answer of the journal covers. It may stop early, and skips what is dead."""
    return asked.index(runs[-1].position) + 1 if runs else len(asked)
