"""The audit log: one line of JSON for each change that was asked for, whether it was made or refused.

Rule: who, from where, what, on what, how it ended; never a passcode or the body of a message. Logger `stampede.audit`.
The last lines are kept for the API, which asks all edges for theirs; what is older is in the log only.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from broker.core.pages import ROWS
from broker.seams.clock import SystemClock

from .ports import ClientsPort, Question, Work

MOST = 16 * 1024
"""Characters of what was before, and of what is now: an entry of a config file may be as long as it likes."""
KEPT = 500
"""Lines that can still be asked for."""
SHORT = 1024
"""Characters of a value of a kept line: all of them together are a megabyte or two."""
_log = logging.getLogger("stampede.audit")


def note(who: str, peer: str, action: str, target: str, outcome: str, **more: Any) -> None:
    """outcome: done, or the name of the problem; given-up = who asked has gone before the end; a change of
    settings or users is made all the same, or refused in the log."""
    bounded = {name: _cut(value, MOST) for name, value in more.items()}
    entry = {"who": who, "from": peer, "action": action, "target": target, "outcome": outcome, **bounded}
    _log.info("%s", json.dumps(entry, ensure_ascii=False, default=str))
    told = {name: json.dumps(_cut(value, SHORT), ensure_ascii=False, default=str) for name, value in more.items()}
    _recent.append({
        "at": SystemClock().wall_ms(), "who": who, "from": peer, "action": action, "target": target,
        "outcome": outcome, "more": told,
    })  # fmt: skip


def recent() -> Iterator[dict[str, Any]]:
    """The kept lines, the last first; the values of `more` are JSON."""
    yield from reversed(_recent)


class ProcessAnswers:
    """What all edges are asked: their connections, and the lines that each keeps (ports.ClientsPort).

    Kind "audit" (`limit`, `q`): rows, the last first."""

    def __init__(self, clients: ClientsPort, name: str) -> None:
        """name: of this edge, where there are several."""
        self._clients = clients
        self._name = name

    def answer(self, question: Question) -> Work:
        return self._lines(question) if question["kind"] == "audit" else self._clients.answer(question)

    def _lines(self, question: Question) -> Work:
        part, limit = question.get("q") or "", question["limit"]
        lines = [*recent()]
        rows: list[dict[str, Any]] = []
        for start in range(0, len(lines), ROWS):
            found = (line for line in lines[start : start + ROWS] if part in _text(line))
            rows += [{**line, "edge": self._name} for line in islice(found, limit - len(rows))]
            yield
        return {"rows": rows}


def _text(line: dict[str, Any]) -> str:
    told = [str(line[name]) for name in ("who", "from", "action", "target", "outcome")]
    return " ".join([*told, *line["more"].values()])


def _cut(value: Any, most: int) -> Any:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


_recent: deque[dict[str, Any]] = deque(maxlen=KEPT)
