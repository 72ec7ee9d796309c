"""The sessions of edges that are gone end, so many in a step.

Rule: an edge that comes back before its own end is over waits for that: what it says now would be ended with it. A slot
that stands still takes nothing: its ends wait with it (Resting).
"""

# Example. Edge E had 1,200 sessions; its lease has ended.
#     begin      500 Disconnects go to the shard, the next 500 are asked for
#     E's Hello  of the new process, the same token: it waits, and what comes behind it
#     congested  the shard has too much: the next 500 wait for on_relief, for CONGESTED_S at most
#     the last   200 have gone: E's Hello is answered, then what came behind it is read

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice

from broker.core.commands import Command, Disconnect
from broker.rpc.v1 import link_pb2 as pb
from broker.seams.clock import Later, Schedule

from .edge_peer import Resting
from .edge_stream import EdgeStream

ENDED = 500
"""Sessions of an edge that is gone which are ended in one step."""
CONGESTED_S = 0.2
"""So long the next ones wait where too much waits already, at most: what makes room may be what they give back."""


class SessionEnds:
    """By the edge's token.

    enqueue(commands)   to the shard.
    congested()      the shard has too much.
    resting          slots that stand still.
    at_last(end, hello, held)   an edge that has waited may come in; held: what came behind its Hello."""

    def __init__(
        self,
        enqueue: Callable[[list[Command]], None],
        congested: Callable[[], bool],
        resting: Mapping[int, Resting],
        at_last: Callable[[EdgeStream, pb.Hello, list[bytes]], None],
        schedule: Schedule,
        later: Later,
    ) -> None:
        self._enqueue = enqueue
        self._congested = congested
        self._resting = resting
        self._at_last = at_last
        self._schedule = schedule
        self._later = later
        self._ends: dict[int, Iterator[Disconnect]] = {}
        self._waiting: set[int] = set()
        """Whose next piece waits until the shard has room."""
        self._early: dict[int, list[tuple[EdgeStream, pb.Hello]]] = {}
        """Who has come back before their end was over, and waits for it."""

    def begin(self, token: int, ends: Iterator[Disconnect]) -> None:
        """An edge is gone; ends: of all its sessions."""
        self._ends[token] = ends
        self._end_some(token)

    def keeps_waiting(self, end: EdgeStream, hello: pb.Hello) -> bool:
        """It has come before its own end was over, and waits for it."""
        if hello.token not in self._ends:
            return False
        end.wait()
        self._early.setdefault(hello.token, []).append((end, hello))
        return True

    def on_relief(self) -> None:
        """The shard has room again."""
        for token in sorted(self._waiting):
            self._schedule(partial(self._go_on, token))

    def _end_some(self, token: int) -> None:
        """The next sessions of that edge; the rest soon."""
        ends: list[Command] = []
        some = list(islice(self._ends[token], ENDED))
        for end in some:
            # A slot that stands still takes nothing: its end waits with it.
            resting = self._resting.get(end.slot)
            (ends if resting is None else resting.ends).append(end)
        self._enqueue(ends)
        if len(some) == ENDED:
            # The shard takes all it is given, and says when it has too much: whoever gives it more has to heed that.
            if self._congested():
                self._waiting.add(token)
                self._later(CONGESTED_S, partial(self._go_on, token))
            else:
                self._schedule(partial(self._end_some, token))
        else:
            del self._ends[token]
            for early, hello in self._early.pop(token, ()):
                self._at_last(early, hello, early.go_on())

    def _go_on(self, token: int) -> None:
        """There is room again, or none has come for long."""
        if token in self._waiting:
            self._waiting.discard(token)
            self._end_some(token)
