"""What the clients of a chaos run saw: one event per fact, in the order in which this one process saw them.

Rule: a fact is written down before a frame leaves and after one has come, so that the history never claims more than
was so. Times of two sockets cannot be compared (a frozen edge's bytes may be read long after they left it): the checker
uses the order of events only where one connection, or what begins after an answer, makes it certain.

Keys: `queue/producer.connection/number`; of topics `subscriber:topic/producer.connection/number`, one for each durable
subscription; of moves `target/attempt/number of the source`; of expired messages `expired:` and the key they had.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path


class Kind(Enum):
    """What happened to `key`."""

    CONNECTED = "connected"
    """Connection `key` has begun: what comes over it left the broker later than this."""
    ENDED = "ended"
    """… is over. `why`: what ended it; empty: its own client did."""
    SUBSCRIBED = "subscribed"
    """Connection `key`, which has a subscription to a topic without a durable name from now on."""
    SENT = "sent"
    """SEND left with a receipt asked for; with `tx`, its COMMIT asks. `due`: epoch seconds; it may not come before.
    `expires`: epoch seconds; it may not come much later."""
    RECEIPTED = "receipted"
    DELIVERED = "delivered"
    """A MESSAGE came to connection `who`; `at` is the wall clock then."""
    CORRUPT = "corrupt"
    """One came whose body is not what was sent under this key."""
    SETTLED = "settled"
    """The receipt of its ACK, or of the COMMIT that holds it, came to `who`: it must not leave the broker again."""
    PARTED = "parted"
    """The broker has closed a connection that had acknowledged or sent it, without a receipt, before a DISCONNECT."""
    COMMIT_SENT = "commit_sent"
    COMMITTED = "committed"
    ABORTED = "aborted"
    """ABORT of transaction `key` left: none of it may ever be seen."""
    LOOKS = "looks"
    """SUBSCRIBE of a browser left: look `who` at queue `key`."""
    SEEN = "seen"
    """It was shown to look `who`."""
    LOOKED = "looked"
    """Look `who` at queue `key` has seen everything, as the broker says."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: Kind
    key: str
    at: float = 0.0
    who: str = ""
    tx: str = ""
    redelivered: bool = False
    due: float = 0.0
    expires: float = 0.0
    why: str = ""
    came: float = 0.0
    """Of a delivery: when the socket brought it, if its client took it later; 0: then."""


@dataclass(frozen=True, slots=True)
class Span:
    """Faults that came together. Times: epoch seconds; `over`: everything was as before."""

    names: tuple[str, ...]
    begun: float
    over: float


@dataclass(slots=True)
class History:
    """Grows while the run goes on."""

    events: list[Event] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    """(when it began, epoch seconds; how long) of each wait for a receipt."""
    slow: list[tuple[float, float, str]] = field(default_factory=list)
    """The long ones of them once more, and for what."""
    faults: list[Span] = field(default_factory=list)

    def add(self, kind: Kind, key: str, **more: object) -> None:
        self.events.append(Event(kind, key, time.time(), **more))  # type: ignore[arg-type]

    def keys(self, kind: Kind) -> set[str]:
        return {event.key for event in self.events if event.kind is kind}

    def during(self, begun: float, end: float) -> list[Span]:
        """Faults that were there in this time."""
        return [span for span in self.faults if span.begun <= end and begun <= span.over]

    def save(self, file: Path) -> None:
        """One JSON line an event; the faults and long waits before them."""
        with file.open("w") as out:
            for span in self.faults:
                out.write(json.dumps({"kind": "fault", **asdict(span)}) + "\n")
            for at, seconds, what in self.slow:
                out.write(json.dumps({"kind": "wait", "at": at, "seconds": seconds, "what": what}) + "\n")
            for event in self.events:
                out.write(json.dumps({**asdict(event), "kind": event.kind.value}) + "\n")


def load(file: Path) -> History:
    """What save() wrote, but for the short waits."""
    history = History()
    for line in file.read_text().splitlines():
        values = json.loads(line)
        if (kind := values.pop("kind")) == "fault":
            history.faults.append(Span(tuple(values.pop("names")), **values))
        elif kind == "wait":
            history.slow.append((values["at"], values["seconds"], values["what"]))
        else:
            history.events.append(Event(Kind(kind), **values))
    return history
