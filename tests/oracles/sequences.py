"""Random sequences of frames that make sense, as scripts (script.py): what two clients may do with two queues, a topic,
transactions and acknowledgements.

A small model knows who consumes what and what is on its way, so that each step knows how many frames it waits for, and
no queue has two consumers at a time (who gets what is then nobody's promise).

Rule: drawn from a seed. A sequence whose answers differ is a difference like that of any script, so what is known to
differ (one-frame differences that scripts have) is not drawn.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator

from .script import Script

STEPS = 9


class Model:
    """What there must be at a broker."""

    def __init__(self, chance: random.Random, number: int) -> None:
        self._chance = chance
        self._name = f"r.{number}"
        self._waiting: dict[str, list[str]] = defaultdict(list)
        """Queue → bodies nobody has."""
        self._subs: dict[str, dict[str, tuple[str, str]]] = {"a": {}, "b": {}}
        """Client → id → destination and mode."""
        self._held: dict[str, list[tuple[str, str]]] = {"a": [], "b": []}
        """Client → what its last MESSAGEs of a client mode were: queue, body."""
        self._open: dict[str, list[tuple[str, str]] | None] = {"a": None, "b": None}
        """Client → what its transaction will send: destination, body."""
        self._due = {"a": 0, "b": 0}
        self._last = 0

    def lines(self) -> Iterator[str]:
        yield "a open 1.2"
        yield "b open 1.2"
        for _ in range(STEPS):
            who = self._chance.choice("ab")
            steps = (self._send, self._send, self._subscribe, self._unsubscribe, self._begin, self._end, self._settle)
            yield from self._chance.choice(steps)(who)
            yield from self._read()
        for who in "ab":
            yield f"{who} > DISCONNECT receipt:end"
            self._due[who] += 1
        yield from self._read(closed=True)

    def _read(self, closed: bool = False) -> Iterator[str]:
        for who in "ab":
            if self._due[who]:
                yield f"{who} < {self._due[who] + closed}"
                self._due[who] = 0

    def _number(self) -> str:
        self._last += 1
        return str(self._last)

    def _queue(self) -> str:
        return f"/queue/{self._name}.{self._chance.choice('xy')}"

    def _topic(self) -> str:
        return f"/topic/{self._name}.t"

    def _came(self, destination: str, body: str) -> None:
        """A message to there is where it can be."""
        consumers = [(who, mode) for who in "ab" for place, mode in self._subs[who].values() if place == destination]
        for who, mode in consumers:
            self._due[who] += 1
            if mode != "auto" and destination.startswith("/queue/"):
                self._held[who].append((destination, body))
        if not consumers and destination.startswith("/queue/"):
            self._waiting[destination].append(body)

    def _send(self, who: str) -> Iterator[str]:
        place, body = self._chance.choice((self._queue(), self._queue(), self._topic())), f"body{self._number()}"
        if (later := self._open[who]) is not None and self._chance.random() < 0.6:
            later.append((place, body))
            yield f"{who} > SEND destination:{place} transaction:t{who} | {body}"
            return
        yield f"{who} > SEND destination:{place} receipt:{self._number()} | {body}"
        self._due[who] += 1
        self._came(place, body)

    def _subscribe(self, who: str) -> Iterator[str]:
        place = self._chance.choice((self._queue(), self._topic()))
        if any(place == other for subs in self._subs.values() for other, _ in subs.values()):
            return
        mode = self._chance.choice(("auto", "client-individual")) if place.startswith("/queue/") else "auto"
        id = f"s{self._number()}"
        self._subs[who][id] = place, mode
        yield f"{who} > SUBSCRIBE id:{id} destination:{place} ack:{mode} receipt:{self._number()}"
        self._due[who] += 1
        for body in self._waiting.pop(place, []):
            self._came(place, body)

    def _unsubscribe(self, who: str) -> Iterator[str]:
        ids = [id for id, (place, _) in self._subs[who].items() if not [of for of, _ in self._held[who] if of == place]]
        if ids:
            id = self._chance.choice(ids)
            del self._subs[who][id]
            yield f"{who} > UNSUBSCRIBE id:{id} receipt:{self._number()}"
            self._due[who] += 1

    def _begin(self, who: str) -> Iterator[str]:
        if self._open[who] is None:
            self._open[who] = []
            yield f"{who} > BEGIN transaction:t{who} receipt:{self._number()}"
            self._due[who] += 1

    def _end(self, who: str) -> Iterator[str]:
        later = self._open[who]
        if later is None:
            return
        self._open[who] = None
        word = self._chance.choice(("COMMIT", "COMMIT", "ABORT"))
        yield f"{who} > {word} transaction:t{who} receipt:{self._number()}"
        self._due[who] += 1
        for place, body in later if word == "COMMIT" else ():
            self._came(place, body)

    def _settle(self, who: str) -> Iterator[str]:
        """The last one that it has: `{ack}` knows no other."""
        if len(self._held[who]) == 1:
            self._held[who].clear()
            yield f"{who} > ACK id:{{ack}} receipt:{self._number()}"
            self._due[who] += 1


def drawn(seed: int, many: int) -> list[Script]:
    """Scripts with names that say how they are drawn again."""
    found = []
    for number in range(many):
        model = Model(random.Random(seed * 100_003 + number), number)
        found.append(Script(f"random {seed}.{number}", tuple(model.lines())))
    return found
