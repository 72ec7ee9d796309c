"""What one edge wants to know of all others, or of one: an owner asks them, and tells what they say.

Edges have no streams to each other. Each has one to every owner that leads anything, by which both know who the other
is: any owner will do. An edge that has no stream to this owner is not asked; who asks knows which edges there are.

Rule: questions and answers are JSON that nobody here looks into. Bounded: ROUNDS at a time, WAIT_S each; who has not
answered by then is named as one that has not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from broker.rpc.v1 import link_pb2 as pb
from broker.seams.clock import Later

from .questions import Tell

ROUNDS: Final = 32
"""Questions of all edges that are under way."""
WAIT_S: Final = 3.0
"""For the answers of edges. Shorter than the patience of who asks (admin/api/fan_out.py)."""


class RelayedAnswers(msgspec.Struct):
    """Edge → what it has said; edge → why it has said nothing."""

    answers: dict[str, msgspec.Raw] = {}
    failed: dict[str, str] = {}


class _Round:
    """One question of one edge."""

    __slots__ = ("said", "tell", "waiting")

    def __init__(self, waiting: Iterable[str], tell: Callable[[RelayedAnswers], None]) -> None:
        self.waiting = set(waiting)
        self.said = RelayedAnswers({}, {})
        self.tell = tell

    def hear(self, edge: str, told: pb.Told) -> bool:
        """True: that was the last one."""
        if edge in self.waiting:
            self.waiting.discard(edge)
            if told.failed:
                self.said.failed[edge] = told.failed
            else:
                self.said.answers[edge] = msgspec.Raw(told.answer)
        return not self.waiting


class EdgeRelay:
    """See the head of this file."""

    def __init__(self, later: Later) -> None:
        self._later = later
        self._last = 0
        self._rounds: dict[int, _Round] = {}

    def forward(self, asks: Iterable[pb.Ask], others: Mapping[str, Callable[[pb.Ask], None]], send: Tell) -> None:
        """others: the other edges, and what sends to each."""
        for ask in asks:
            if len(self._rounds) >= ROUNDS:
                send(pb.Told(id=ask.id, failed="the owner has too much to ask; ask again"))
                continue
            self._begin(ask, others, send)

    def heard(self, edge: str, answers: Iterable[pb.Told]) -> None:
        """They have come from there."""
        for told in answers:
            known = self._rounds.get(told.id)
            if known is not None and known.hear(edge, told):
                self._end(told.id)

    def lost(self, edge: str) -> None:
        """It will not answer any more."""
        for number, known in list(self._rounds.items()):
            if known.hear(edge, pb.Told(failed="its connection to the owner that asked it was lost")):
                self._end(number)

    def _begin(self, ask: pb.Ask, others: Mapping[str, Callable[[pb.Ask], None]], send: Tell) -> None:
        self._last += 1
        number = self._last

        def tell(said: RelayedAnswers) -> None:
            send(pb.Told(id=ask.id, answer=msgspec.json.encode(said)))

        asked = [edge for edge in others if not ask.edge or edge == ask.edge]
        self._rounds[number] = _Round(asked, tell)
        if not asked:
            self._end(number)
            return
        for ask_it in [others[edge] for edge in asked]:
            ask_it(pb.Ask(id=number, question=ask.question))
        self._later(WAIT_S, lambda: self._end(number))

    def _end(self, number: int) -> None:
        known = self._rounds.pop(number, None)
        if known is None:
            return
        for edge in known.waiting:
            known.said.failed[edge] = f"no answer within {WAIT_S:g} s (an earlier release, or it does not live)"
        known.tell(known.said)
