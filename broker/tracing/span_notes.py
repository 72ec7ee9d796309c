"""What is to become spans: notes are made where messages pass, and taken by the thread that sends them.

Rule: a note is a tuple; bounded in number and in how many a second, however much is sampled. What is left out is
counted. Must not know OpenTelemetry.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from broker.core.metrics import Metric
from broker.core.traceparent import Context

WAITING: Final = 4096
"""Notes until the thread has taken them, every second or sooner."""
EACH: Final = 10
"""Notes for each message that may be traced: sent, stored, and some deliveries and their ends."""


class SpanNote(NamedTuple):
    """A span to be: of all these messages, which did the same at the same time.

    operation   send, store, deliver, ack, …    began, ended   seconds since the epoch.    contexts   of the messages.
    id   of the first message in its slot, 0: not numbered yet.    waited   ms since it was taken, or delivered; -1: not
    known.    error   why it was refused; empty: it was not."""

    operation: str
    address: str
    slot: int
    began: float
    ended: float
    contexts: list[Context]
    id: int = 0
    nbytes: int = 0
    waited: int = -1
    redelivered: bool = False
    error: str = ""


class Bucket:
    """So many a second, and a second's worth at once."""

    __slots__ = ("_each", "_left", "_now", "_seen")

    def __init__(self, each: float, now: Callable[[], float]) -> None:
        self._each = self._left = each
        self._now = now
        self._seen = now()

    def spend(self, wanted: int) -> int:
        """How many of them."""
        now = self._now()
        self._left = min(self._each, self._left + (now - self._seen) * self._each)
        self._seen = now
        taken = min(wanted, int(self._left))
        self._left -= taken
        return taken


class Notes:
    """wall, now   the clock's: seconds since the epoch, and seconds.    per_s   messages that are traced."""

    def __init__(self, per_s: int, wall: Callable[[], float], now: Callable[[], float]) -> None:
        self.wall = wall
        self._messages, self._spans = Bucket(per_s, now), Bucket(per_s * EACH, now)
        self._waiting: deque[SpanNote] = deque()
        self._told = self._dropped = self._skipped = 0

    def admit(self, messages: int) -> int:
        """How many messages that have just come are traced; the rest are not, from here on."""
        taken = self._messages.spend(messages)
        self._skipped += messages - taken
        return taken

    def room(self) -> bool:
        """May there be another note? Ask before it is made."""
        if len(self._waiting) < WAITING and self._spans.spend(1):
            return True
        self._dropped += 1
        return False

    def add(self, note: SpanNote) -> None:
        self._waiting.append(note)

    def drain(self) -> list[SpanNote]:
        """All there are; from any thread."""
        taken: list[SpanNote] = []
        while self._waiting and len(taken) < WAITING:
            taken.append(self._waiting.popleft())
        return taken

    def told(self, spans: int) -> None:
        """So many have arrived."""
        self._told += spans

    def lost(self, spans: int) -> None:
        """So many have not."""
        self._dropped += spans

    def metrics(self) -> Iterator[Metric]:
        yield Metric("stomp_trace_spans_total", "counter", "Spans that the collector has taken.", [({}, self._told)])
        yield Metric("stomp_trace_spans_dropped_total", "counter", "Spans left out: more than tracing.most_per_s "
                     "allows for, or the collector does not take them.", [({}, self._dropped)])  # fmt: skip
        yield Metric("stomp_trace_messages_skipped_total", "counter", "Sampled messages that were not traced, "
                     "as there were more than tracing.most_per_s.", [({}, self._skipped)])  # fmt: skip
