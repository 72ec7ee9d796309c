"""Random selectors, asked of a real broker and of ours over the same messages: which of these each of them chooses.

Rule: drawn from a seed, so that what differs can be asked for again. What may differ is said in sentences (REASONS),
and held as narrow as it is: docs/compatibility-activemq.md and docs/compatibility.md have the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Final

from tests.harness import Client

PREFIX: Final[Mapping[str, str]] = {"activemq": "", "artemis": "convert_string_expressions:"}
"""Both of these brokers keep headers as texts, and compare them with numbers only when a selector begins so: Classic
puts it in front of every one of STOMP."""
EACH: Final = 50
"""Subscriptions at a time."""
MESSAGES: Final[Sequence[Mapping[str, str]]] = (
    {"n": "1", "m": "2", "s": "red", "t": "a_b"},
    {"n": "2", "m": "2", "s": "blue", "t": "a%b"},
    {"n": "-3", "m": "0", "s": "Red", "t": "axb"},
    {"n": "1.5", "m": "10", "s": "r", "t": ""},
    {"n": "10", "m": "-1", "s": "it's", "t": "red"},
    {"n": "0", "m": "1", "s": "reed", "t": "r"},
    {"n": "7", "s": "red", "t": "blue"},
    {"m": "7", "s": "x.y"},
    {"n": "4"},
    {"s": "green"},
    {},
)
TEXTS: Final = ("red", "blue", "r", "it's", "", "a_b")
PATTERNS: Final = ("r%", "%d", "r_d", "_", "%", "a!_b", "a!%b", "re%d", "%.%", "it''s")


MISSING: Final = "a comparison with a header that is missing is unknown; there `=` and `<>` take it for a value"
FRACTION: Final = "`1.5` in a header is a number, also beside a whole one; Classic takes it for none there"
REASONS: Final[Mapping[str, tuple[str, ...]]] = {"activemq": (MISSING, FRACTION), "artemis": (MISSING,)}
ARITHMETIC: Final = ("artemis",)
"""Whose selectors are drawn with it. One of Classic that cannot be worked out for a message (`1 / m`, `n * m` without
n) keeps this message from the subscriptions behind it, whatever theirs say."""


class Maker:
    """Selectors of a seed."""

    def __init__(self, seed: int, arithmetic: bool) -> None:
        self._chance = random.Random(seed)
        self._arithmetic = arithmetic

    def one(self, depth: int = 3) -> str:
        chance = self._chance
        kind = chance.randrange(10)
        if depth and kind < 3:
            return f"({self.one(depth - 1)}) {chance.choice(('AND', 'OR'))} ({self.one(depth - 1)})"
        if depth and kind == 3:
            return f"NOT ({self.one(depth - 1)})"
        return chance.choice(
            (self._numbers, self._numbers, self._texts, self._list, self._like, self._null, self._span)
        )()

    def _number(self, depth: int = 2) -> str:
        chance = self._chance
        if depth and self._arithmetic and chance.random() < 0.3:
            return f"({self._number(depth - 1)} {chance.choice('+-*')} {self._number(depth - 1)})"
        return chance.choice(("n", "m", "n", "m", "0", "1", "2", "1.5", "10", "-3"))

    def _numbers(self) -> str:
        return f"{self._number()} {self._chance.choice(('=', '<>', '<', '<=', '>', '>='))} {self._number()}"

    def _text(self) -> str:
        return "'" + self._chance.choice(TEXTS).replace("'", "''") + "'"

    def _texts(self) -> str:
        chance = self._chance
        return f"{chance.choice('st')} {chance.choice(('=', '<>'))} {chance.choice((self._text(), 's', 't'))}"

    def _list(self) -> str:
        words = ", ".join([self._text() for _ in range(self._chance.randrange(1, 4))])
        return f"{self._chance.choice('st')} {self._chance.choice(('IN', 'NOT IN'))} ({words})"

    def _like(self) -> str:
        pattern = self._chance.choice(PATTERNS)
        escape = " ESCAPE '!'" if "!" in pattern else ""
        return f"{self._chance.choice('st')} {self._chance.choice(('LIKE', 'NOT LIKE'))} '{pattern}'{escape}"

    def _null(self) -> str:
        return f"{self._chance.choice('nmst')} IS {self._chance.choice(('', 'NOT '))}NULL"

    def _span(self) -> str:
        chance = self._chance
        return f"{chance.choice('nm')} {chance.choice(('', 'NOT '))}BETWEEN {self._number(1)} AND {self._number(1)}"


def drawn(seed: int, many: int, arithmetic: bool) -> list[str]:
    """So many different ones."""
    maker, found = Maker(seed, arithmetic), dict[str, None]()
    while len(found) < many:
        found.setdefault(maker.one())
    return list(found)


def chosen(port: int, selectors: Sequence[str], prefix: str) -> list[list[int]]:
    """Which of MESSAGES each selector chooses, by the broker at this port."""
    found: list[list[int]] = []
    for at in range(0, len(selectors), EACH):
        found += _some(port, f"/topic/selectors.{at}", [prefix + text for text in selectors[at : at + EACH]])
    return found


def _some(port: int, topic: str, selectors: Sequence[str]) -> list[list[int]]:
    """A selector that is refused chooses -1; its connection has ended, so that the others are asked anew without it."""
    refused: list[int] = []
    while True:
        left = [number for number in range(len(selectors)) if number not in refused]
        came = _asked(port, f"{topic}.{len(refused)}", {number: selectors[number] for number in left})
        if isinstance(came, dict):
            return [sorted(came.get(number, [-1])) for number in range(len(selectors))]
        refused.append(came)


def _asked(port: int, topic: str, selectors: Mapping[int, str]) -> dict[int, list[int]] | int:
    """What each chooses, or the first one that is refused."""
    with Client(port, "1.2", timeout=20) as client:
        client.connect({"login": "guest", "passcode": "guest", "host": "/"})
        for number, text in selectors.items():
            head = {
                "destination": topic,
                "id": str(number),
                "selector": text.replace(":", "\\c"),
                "receipt": f"s{number}",
            }
            client.send("SUBSCRIBE", head)
            if client.read().command == "ERROR":
                return number
        client.send("SUBSCRIBE", {"destination": topic, "id": "end", "selector": "last = 'yes'", "receipt": "all"})
        client.expect("RECEIPT")
        for number, headers in enumerate(MESSAGES):
            client.send("SEND", {"destination": topic, "number": str(number), **headers}, b"x")
        client.send("SEND", {"destination": topic, "last": "yes"}, b"x")
        came: dict[int, list[int]] = {number: [] for number in selectors}
        ended = False
        while True:
            try:
                frame = client.read(0.7 if ended else 10)
            except TimeoutError:
                return came
            ended = ended or frame.get("subscription") == "end"
            if "number" in frame.headers and "subscription" in frame.headers:
                came[int(frame["subscription"])].append(int(frame["number"]))


def explained(broker: str, selector: str, theirs: Sequence[int], ours: Sequence[int]) -> bool:
    """May it choose otherwise: what only one of them has chosen lacks a header that it compares, or has a fraction."""
    named = set(re.findall(r"\b[nmst]\b", re.sub(r"'[^']*'", "", selector)))
    compares = re.search(r"=|<>", selector) is not None
    for number in {*theirs} ^ {*ours}:
        message = MESSAGES[number] if number >= 0 else {}
        lacks = compares and not named <= message.keys()
        fraction = FRACTION in REASONS[broker] and any("." in message.get(each, "") for each in named & {"n", "m"})
        if number < 0 or not (lacks or fraction):
            return False
    return True
