"""Traces that begin here: a share of the messages that come without a traceparent is given one.

Rule: it stands in front of the sender's own header lines, and consumers see it. All other messages stay as they are;
what is between two that are chosen is counted, not looked at.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.core.message import TRACED
from broker.core.traceparent import header
from broker.edge.requests.inbound import Inbound
from broker.edge.session.session import Session
from broker.seams.entropy import number, token
from broker.wire.events import Event, Head, Sends


class Starts:
    """ratio   of all messages; above 0."""

    def __init__(self, ratio: float, chance: Callable[[int], int] = number) -> None:
        self._mean = 1 / ratio
        self._chance = chance
        self._left = self._gap()

    def _gap(self) -> int:
        """Messages to the next one, 1: it is that. By chance, as what is sent may have a rhythm of its own."""
        return max(int(self._chance(32) / (1 << 32) * (2 * self._mean - 1)) + 1, 1)

    def begin(self, events: list[Event]) -> list[Event]:
        """The same frames."""
        count = 0
        for event in events:
            if type(event) is Sends and not event.head.flags & TRACED:
                count += len(event.records)
        if count < self._left:
            self._left -= count
            return events
        found: list[Event] = []
        for event in events:
            if type(event) is Sends and not event.head.flags & TRACED:
                self._cut(event, found)
            else:
                found.append(event)
        return found

    def _cut(self, event: Sends, found: list[Event]) -> None:
        """Chosen ones stand alone."""
        rest: Sends | None = event
        while rest is not None and self._left <= len(rest.records):
            if self._left > 1:
                before, rest = rest.cut(self._left - 1)
                found.append(before)
            one = rest
            rest = None
            if len(one.records) > 1:
                one, rest = one.cut(1)
            found.append(_begun(one))
            self._left = self._gap()
        if rest is not None:
            self._left -= len(rest.records)
            found.append(rest)


def _begun(event: Sends) -> Sends:
    """Its only message begins a trace."""
    line, head = header(token(16), token(8)), event.head
    own = Head(line + head.lines, head.headers, head.flags | TRACED, head.whole)
    return Sends(own, event.records, event.receipts, event.nbytes + len(line))


class StartingInbound(Inbound):
    """The reading half of a session whose messages may begin traces."""

    __slots__ = ("_starts",)

    def __init__(self, starts: Starts, session: Session) -> None:
        super().__init__(session)
        self._starts = starts

    def handle(self, events: list[Event], fresh: bool = True) -> None:
        super().handle(self._starts.begin(events) if fresh else events, fresh)
