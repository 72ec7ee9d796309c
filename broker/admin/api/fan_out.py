"""All owners of a cluster, asked by an edge over the links that it has anyway (ports.Owners); and all other edges, by
one of these owners (ports.ElsewherePort).

Rule: an answer is partial rather than late: who has not answered in ANSWER_S (SILENT_S the next time) is named as
missing, and so are slots that nobody serves. Must not know what is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping
from typing import Final

import msgspec

from broker.link.edge_relay import RelayedAnswers
from broker.link.edge_side.cluster_port import ClusterPort
from broker.link.questions import View

from .ports import Answer, Missing, Question
from .problems import unknown

ANSWER_S: Final = 5.0
SILENT_S: Final = 0.5
"""For an owner that has not answered the last question either: one that hangs is waited for once, not by each page that
an operator looks at meanwhile."""


class Spread:
    """See the head of this file."""

    def __init__(self, port: ClusterPort) -> None:
        self._port = port
        self._silent: set[str] = set()
        """Owners that have not answered yet when they were given up, and not since."""

    async def ask(self, question: Question) -> tuple[list[Answer], list[Missing]]:
        answers: dict[str, Answer] = {}
        failed: dict[str, str] = {}
        arrived = asyncio.Event()
        asked: list[str] = []

        def done(owner: str, answer: bytes | None, why: str) -> None:
            if answer is None:
                failed[owner] = why
            else:
                self._silent.discard(owner)  # also when it comes too late
                answers[owner] = msgspec.json.decode(answer)
            arrived.set()

        unserved = self._port.unserved()  # taken over while we wait, its owner may have answered without it before
        asked += self._port.ask(msgspec.json.encode(question), done)
        known, begun = frozenset(self._silent), asyncio.get_running_loop().time()
        while left := [owner for owner in asked if owner not in answers and owner not in failed]:
            patience = SILENT_S if known.issuperset(left) else ANSWER_S
            arrived.clear()
            try:
                async with asyncio.timeout_at(begun + patience):
                    await arrived.wait()
            except TimeoutError:
                break
        self._silent.update(left)
        return [answers[owner] for owner in asked if owner in answers], self._missing(asked, answers, failed, unserved)

    def _missing(
        self, asked: list[str], answers: Container[str], failed: Mapping[str, str], unserved: int
    ) -> list[Missing]:
        """unserved: slots that nobody served when they were asked."""
        why = f"no answer within {ANSWER_S:g} s, nor since (an earlier release, or it does not live)"
        missing = [Missing(owner, failed.get(owner, why)) for owner in asked if owner not in answers]
        if unserved := max(unserved, self._port.unserved()):
            missing.append(Missing(f"{unserved} slots", "nobody serves them now"))
        return missing


class OtherEdges:
    """All other edges (ports.ElsewherePort).    names   of those that there are."""

    def __init__(self, port: ClusterPort, own: str, names: Callable[[], list[str]]) -> None:
        self.own_name = own
        self._port = port
        self._names = names

    def answered_by(self, view: View) -> None:
        self._port.answers.open(view)

    async def ask(self, question: Question) -> tuple[list[Answer], list[Missing]]:
        """Raises Problem for an edge that is not there."""
        names = self._names()
        if edge := question.get("edge"):
            names = [name for name in names if name == edge]
            if not names:
                raise unknown("edge", edge, "GET nodes lists those that there are")
        if not names:
            return [], []
        told: asyncio.Future[RelayedAnswers] = asyncio.get_running_loop().create_future()

        def done(answer: bytes | None, why: str) -> None:
            if told.done():
                return
            said = RelayedAnswers() if answer is None else msgspec.json.decode(answer, type=RelayedAnswers)
            if answer is None:
                said.failed.update(dict.fromkeys(names, why))
            told.set_result(said)

        self._port.ask_edges(msgspec.json.encode(question), done, question.get("edge") or "")
        try:
            async with asyncio.timeout(ANSWER_S):
                said = await told
        except TimeoutError:
            said = RelayedAnswers(failed=dict.fromkeys(names, f"no answer within {ANSWER_S:g} s"))
        why = "the owner that was asked has no connection to it"
        missing = [Missing(name, said.failed.get(name, why)) for name in names if name not in said.answers]
        return [msgspec.json.decode(said.answers[name]) for name in names if name in said.answers], missing
