"""What a workload saw, in a form that can be judged: one event per fact, each with the broker's life it belongs to.

Rule: events only, no judgement (checker.py) and no sockets (workload.py). A *life* is one run of the broker
process; a connection belongs to one life. Bytes that were in a dead broker's socket may be read after the next
broker has started, so order is by (life, position), never by position alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """What happened to message `key`."""

    SENT = "sent"
    """SEND left, a receipt was asked for. With `tx`: inside that transaction (its COMMIT asks)."""
    RECEIPTED = "receipted"
    """The SEND's receipt came: from here on the broker answers for the message."""
    DELIVERED = "delivered"
    """A MESSAGE came; `redelivered` and `who` (consumer) say how and to whom."""
    CORRUPT = "corrupt"
    """A MESSAGE came whose body is not what was sent under this key."""
    ACK_SENT = "ack sent"
    """Its ACK left (or the COMMIT that holds its ACK). Without a receipt it may count or not."""
    SETTLED = "settled"
    """The receipt of its ACK (or of the COMMIT that held its ACK, then with `tx`) came: it must never come back."""
    COMMIT_SENT = "commit_sent"
    """COMMIT of transaction `key` left."""
    COMMITTED = "committed"
    """The receipt of COMMIT of transaction `key` came."""
    ABORTED = "aborted"
    """ABORT of transaction `key` left; none of it may ever be seen."""


@dataclass(frozen=True, slots=True)
class Event:
    """One fact. `key`: message key `queue/number…`, or transaction id."""

    kind: Kind
    key: str
    life: int
    redelivered: bool = False
    who: str = ""
    tx: str = ""


@dataclass(slots=True)
class History:
    """Grows while the workload runs; `in_order()` is what the checker reads."""

    events: list[Event] = field(default_factory=list)

    def add(self, kind: Kind, key: str, life: int, *, redelivered: bool = False, who: str = "", tx: str = "") -> None:
        self.events.append(Event(kind, key, life, redelivered, who, tx))

    def in_order(self) -> list[Event]:
        """By life, then by position (sorted() is stable)."""
        return sorted(self.events, key=lambda event: event.life)

    def keys(self, kind: Kind) -> set[str]:
        return {event.key for event in self.events if event.kind is kind}
