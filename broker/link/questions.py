"""Questions of operators on their way from an edge to owners (or to other edges, edge_relay.py), and the answers.

They travel beside the batches of a stream: nobody's commands wait for them, and one that is lost with its stream is
answered as such. The process that is asked works an answer out in steps, with the loop's others in between.

Rule: questions and answers are JSON; of a question one field is read here, whether an operator waits for its answer.
Must not know what can be asked.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import Any

import msgspec

from broker.rpc.v1 import link_pb2 as pb
from broker.seams.loop_watchdog import portion
from broker.seams.read_turns import UNHURRIED

log = logging.getLogger("stampede.link")

Done = Callable[[bytes | None, str], None]
"""The answer, or None and why there is none."""
View = Callable[[dict[str, Any]], Generator[None, None, dict[str, Any]]]
"""owner/shard/views.py, edge/connection_views.py"""
Tell = Callable[[pb.Told], None]

MOST = 64
"""Questions of all that are worked out at a time: further ones are refused, except within a share."""
SHARE = 4
"""Of one edge, whatever other edges ask: one console with many tabs must not silence those of all other edges."""


class Asked:
    """An edge's end: what was asked on one stream and is not answered."""

    __slots__ = ("_last", "_waiting")

    def __init__(self) -> None:
        self._last = 0
        self._waiting: dict[int, Done] = {}

    def ask(self, question: bytes, done: Done, edges: bool = False, edge: str = "") -> pb.Up:
        """What is to be sent. edges: the owner asks all other edges (edge_relay.py), or that `edge` alone."""
        self._last += 1
        self._waiting[self._last] = done
        return pb.Up(asks=[pb.Ask(id=self._last, question=question, edges=edges, edge=edge)])

    def told(self, answers: Iterable[pb.Told]) -> None:
        """They have come."""
        for told in answers:
            done = self._waiting.pop(told.id, None)
            if done is not None:
                done(None if told.failed else told.answer, told.failed)

    def lost(self, why: str) -> None:
        """No answer will come any more."""
        waiting, self._waiting = self._waiting, {}
        for done in waiting.values():
            done(None, why)


class OperatorAnswers:
    """The end of who is asked: an owner, or an edge. Until open() it is not ready to answer anything."""

    def __init__(self, schedule: Callable[[Callable[[], None]], Any], now: Callable[[], float]) -> None:
        """now: seconds."""
        self._view: View | None = None
        self._schedule = schedule
        self._now = now
        self._under_way: Counter[str] = Counter()
        """Who asks → its questions that are worked out."""

    def open(self, view: View) -> None:
        """From now on questions are answered."""
        self._view = view

    def answer(self, edge: str, asks: Iterable[pb.Ask], send: Tell) -> None:
        """edge: whose they are. send: to the stream that they came by, as long as it is there."""
        for ask in asks:
            if self._view is None or (self._under_way[edge] >= SHARE and self._under_way.total() >= MOST):
                self._tell(send, ask.id, b"", "it is not ready, or has too much to answer; ask again")
                continue
            try:
                question = msgspec.json.decode(ask.question)
                work = self._view(question)
                # Portions get longer the longer somebody waits.
                since = None if UNHURRIED in question else self._now()
            except (ValueError, KeyError, TypeError) as error:
                self._tell(send, ask.id, b"", f"it does not know this question: {error}")
                continue
            # Bounded per owner: an answer may look at 100,000 queues, in steps.
            self._under_way[edge] += 1
            self._step(edge, work, ask.id, send, since)

    def _step(
        self, edge: str, work: Generator[None, None, dict[str, Any]], id: int, send: Tell, since: float | None
    ) -> None:
        try:
            portion(work, self._now, since)
        except StopIteration as end:
            self._over(edge)
            self._tell(send, id, msgspec.json.encode(end.value), "")
        except Exception:  # a question must never end an owner
            self._over(edge)
            log.exception("a question of an operator failed")
            self._tell(send, id, b"", "internal error; its log says more")
        else:
            # One portion in each turn of the loop.
            self._schedule(lambda: self._step(edge, work, id, send, since))

    def _over(self, edge: str) -> None:
        self._under_way[edge] -= 1
        # Edges come and go under other names.
        if not self._under_way[edge]:
            del self._under_way[edge]

    @staticmethod
    def _tell(send: Tell, id: int, answer: bytes, failed: str) -> None:
        send(pb.Told(id=id, answer=answer, failed=failed))
