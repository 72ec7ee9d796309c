"""All owners of a cluster, asked by an edge over the links that it has anyway (ports.Owners).

Rule: an answer is partial rather than late: who has not answered in ANSWER_S is named as missing, and so are slots that
nobody leads. Must not know what is asked.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from broker.link.edge_side.cluster_port import ClusterPort

from .ports import Answer, Missing, Question

ANSWER_S: Final = 5.0


class Spread:
    """See the head of this file."""

    def __init__(self, port: ClusterPort) -> None:
        self._port = port

    async def ask(self, question: Question) -> tuple[list[Answer], list[Missing]]:
        answers: dict[str, Answer] = {}
        failed: dict[str, str] = {}
        complete = asyncio.Event()
        asked: list[str] = []

        def done(owner: str, answer: bytes | None, why: str) -> None:
            if answer is None:
                failed[owner] = why
            else:
                answers[owner] = msgspec.json.decode(answer)
            if asked and len(answers) + len(failed) == len(asked):
                complete.set()

        asked += self._port.ask(msgspec.json.encode(question), done)
        if len(answers) + len(failed) < len(asked):
            try:
                async with asyncio.timeout(ANSWER_S):
                    await complete.wait()
            except TimeoutError:
                pass
        why = f"no answer within {ANSWER_S:g} s (an earlier release, or it does not live)"
        missing = [Missing(owner, failed.get(owner, why)) for owner in asked if owner not in answers]
        if unled := self._port.unled():
            missing.append(Missing(f"{unled} slots", "nobody leads them now"))
        return [answers[owner] for owner in asked if owner in answers], missing
