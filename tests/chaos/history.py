"""What the clients of a chaos run saw: one event per fact, in the order in which this one process saw them.

Rule: a fact is written down before a frame leaves and after one has come, so that the history never claims more than
was so. Times of two sockets cannot be compared (a frozen edge's bytes may be read long after they left it): the checker
uses the order of events only where one connection, or what begins after an answer, makes it certain.

Keys: `queue/producer.connection/number`; of topics `subscriber:topic/producer.connection/number`, one for each durable
subscription; of moves `target/attempt/number of the source`.
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
    SENT = "sent"
    """SEND left with a receipt asked for; with `tx`, its COMMIT asks. `due`: epoch seconds; it may not come before."""
    RECEIPTED = "receipted"
    DELIVERED = "delivered"
    """A MESSAGE came to connection `who`; `at` is the wall clock then."""
    CORRUPT = "corrupt"
    """One came whose body is not what was sent under this key."""
    SETTLED = "settled"
    """The receipt of its ACK, or of the COMMIT that holds it, came: it must not leave the broker again."""
    COMMIT_SENT = "commit_sent"
    COMMITTED = "committed"
    ABORTED = "aborted"
    """ABORT of transaction `key` left: none of it may ever be seen."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: Kind
    key: str
    at: float = 0.0
    who: str = ""
    tx: str = ""
    redelivered: bool = False
    due: float = 0.0


@dataclass(slots=True)
class History:
    """Grows while the run goes on."""

    events: list[Event] = field(default_factory=list)
    waits: list[tuple[float, float]] = field(default_factory=list)
    """(when it began, seconds) of each wait for a receipt, by the monotonic clock."""

    def add(self, kind: Kind, key: str, **more: object) -> None:
        self.events.append(Event(kind, key, time.time(), **more))  # type: ignore[arg-type]

    def keys(self, kind: Kind) -> set[str]:
        return {event.key for event in self.events if event.kind is kind}

    def save(self, file: Path) -> None:
        """One JSON line an event."""
        with file.open("w") as out:
            for event in self.events:
                out.write(json.dumps({**asdict(event), "kind": event.kind.value}) + "\n")
