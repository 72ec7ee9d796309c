"""Runs: how messages travel and rest. There is no object per message.

Rule: a run is immutable once published, except for `position` (set by the journal) and the render
caches (`parts`, which belong to the edge). Must not know who sends, stores or renders it.

A *run* is a list of messages that share everything but their bytes: address, durability, priority,
expiry. The bytes of message i are `lines + records[i]`; together they are exactly what stands in a
STOMP 1.2 MESSAGE frame behind the server's own headers: header lines (each ended by LF, escaped as in
STOMP 1.2, reserved names removed), one empty line, the body, NUL. Where the cut between `lines` and
`records[i]` lies is the producer's affair: `lines` may hold the whole header block including the empty
line (all messages of the run have the same headers), a part of it, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

DURABLE: Final = 1
"""Survives a restart: journalled and synced before anybody hears of it."""
ESCAPED: Final = 2
"""Some header line holds a backslash: 1.0 and 1.1 subscribers need it rewritten."""
TEXT: Final = 4
"""Some message's sender gave no content-length (Artemis maps such a 1.0 message to text): is_text()."""
REDELIVERED: Final = 8
"""Was out before, or may have been (a crash hides whether it was); whose fault that was, `attempts` says."""
TRANSIENT: Final = 16
"""In the journal only because memory was short: forgotten at restart."""
BLOB: Final = 32
"""The body lies in a file (`blob`); the run has one message and records[0] ends with the empty line."""
WAS_DURABLE: Final = 64
"""Sent as durable and paged out (TRANSIENT) for a queue that is not: durable again where it is moved to."""
GROUPED: Final = 128
"""Some message has a JMSXGroupID header."""
UNIQUE: Final = 256
"""Some message has a _AMQ_DUPL_ID header; looked at when it is published, never stored."""
PART: Final = 512
"""Not all messages of the record at `position`: who reads that back gets others too. Never stored."""
TRACED: Final = 1024
"""Some message has a traceparent header (W3C), of a trace that may be wanted. Never stored."""
HELD: Final = 2048
"""Its consumer's client has these: told for the attempts that are counted, and not handed on. Never stored."""
STORED: Final = 255
"""The flags that the journal keeps."""

DEFAULT_PRIORITY: Final = 4


ORIGINS: Final = (b"_AMQ_ORIG_ADDRESS:", b"_AMQ_ORIG_QUEUE:")
"""Header lines with names: where a message was before it was carried on."""
DEATH: Final = b"dead-letter-reason:"
ORIGINAL_ID: Final = b"_AMQ_ORIG_MESSAGE_ID:"
LABELS: Final = (*ORIGINS, b"_AMQ_ACTUAL_EXPIRY:", DEATH, ORIGINAL_ID)
"""What dead letters begin with (engine/routing/redelivery.py)."""


def is_text(message: bytes) -> bool:
    """Of messages of which some are texts: is it one. A content-length that its sender gave does not stand behind all
    other header lines; that of a text, if it has one, does. message: header lines, the empty line, what is behind it.
    """
    end = message.find(b"\n\n")
    # By whole names: header lines may begin with x-content-length: as well.
    at = 0 if message.startswith(b"content-length:") else message.find(b"\ncontent-length:", 0, max(end, 0)) + 1
    return not (at or message.startswith(b"content-length:")) or message.find(b"\n", at) == end


class Blob:
    """A body kept in a file of its own. `length` in bytes, without NUL."""

    __slots__ = ("id", "length")

    def __init__(self, id: int, length: int) -> None:
        self.id = id
        self.length = length

    def __repr__(self) -> str:
        return f"Blob({self.id}, {self.length})"


class Run:
    """Messages with consecutive places in one queue (see the head of this file).

    ids       message ids, ascending, same length as records: a `range` for fresh runs (consecutive), a list
              for messages that came back. Empty (`NO_IDS`) until the engine has numbered them.
    nbytes    sum(len(records[i])) + len(records) * len(lines)  (+ the blob's length)
    expires   epoch milliseconds, 0 = never.    time   epoch milliseconds when the broker took it.
    due       epoch milliseconds before which it is not delivered, 0 = at once.
    attempts  how often each of these messages was delivered in vain: a consumer failed, and did not just end.
    position  where the journal holds it; 0 = nowhere.
    parts     render cache of the edge: b"<id>\\n" + lines + records[i] for each i, or None.
    """

    __slots__ = (
        "attempts", "blob", "due", "expires", "flags", "ids", "lines", "nbytes",
        "parts", "position", "priority", "records", "time",
    )  # fmt: skip

    def __init__(
        self,
        ids: Sequence[int],
        lines: bytes,
        records: list[bytes],
        nbytes: int,
        flags: int = 0,
        priority: int = DEFAULT_PRIORITY,
        expires: int = 0,
        time: int = 0,
        attempts: int = 0,
        position: int = 0,
        blob: Blob | None = None,
        due: int = 0,
    ) -> None:
        self.ids = ids
        self.lines = lines
        self.records = records
        self.nbytes = nbytes
        self.flags = flags
        self.priority = priority
        self.expires = expires
        self.time = time
        self.attempts = attempts
        self.position = position
        self.blob = blob
        self.due = due
        self.parts: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"Run(ids={self.ids!r}, n={len(self.records)}, nbytes={self.nbytes}, flags={self.flags})"

    def size_of(self, index: int) -> int:
        """Bytes of message `index`: headers, empty line, body and NUL."""
        blob = self.blob.length + 1 if self.blob else 0
        return len(self.lines) + len(self.records[index]) + blob

    def join(self, lines: bytes, records: list[bytes], nbytes: int, flags: int) -> None:
        """More messages of the same kind, whatever their header lines."""
        if self.lines is lines or self.lines == lines:
            self.records += records
        else:
            if self.lines:
                own, self.lines = self.lines, b""
                self.records = [own + record for record in self.records]
            self.records += [lines + record for record in records]
        self.nbytes += nbytes
        self.flags |= flags

    # ── what happens to it ─────────────────────────────────────────────────────────────────────────

    def placed(self, position: int) -> None:
        """The journal has it there."""
        self.position = position

    def share(self, lines: bytes, records: list[bytes]) -> None:
        """The same bytes are in memory already: it has those."""
        self.lines, self.records = lines, records

    def accepted_at(self, now: int) -> None:
        """The broker accepts it at that time."""
        self.time = now

    def due_at(self, due: int) -> None:
        """Not to be delivered before; 0: at once."""
        self.due = due

    def expires_at(self, expires: int) -> None:
        """Not to be delivered from then on; 0: for ever."""
        self.expires = expires

    def in_front(self, lines: bytes) -> None:
        """Header lines come before those of every message: first of repeated names wins. The journal has it without."""
        self.lines = lines + self.lines
        self.nbytes += len(lines) * len(self.records)
        self.position = 0
        self.parts = None
        if b"\\" in lines:
            self.flags |= ESCAPED

    def came_again(self, attempts: int | None = None) -> None:
        """Was out before, or may have been.    attempts   so often in vain; None: what is known of that stays."""
        self.flags |= REDELIVERED
        if attempts is not None:
            self.attempts = attempts

    def came_back(self, failed: bool) -> None:
        """A consumer had it.    failed   and could not deal with it."""
        self.flags |= REDELIVERED
        self.attempts += failed

    def in_part(self) -> None:
        """The record at its position has more messages."""
        self.flags |= PART

    def note_held(self) -> None:
        """Whoever it is told has it."""
        self.flags |= HELD

    def spilled(self) -> None:
        """It goes to the journal only because memory is short, or for a queue that does not last."""
        was = WAS_DURABLE if self.flags & DURABLE else 0
        self.flags = self.flags & ~DURABLE | TRANSIENT | was

    def lasts(self) -> None:
        """Whatever it was sent as, it survives a restart."""
        self.flags = self.flags & ~TRANSIENT | DURABLE

    def look_for_twins(self) -> None:
        """Some message has a duplicate id."""
        self.flags |= UNIQUE

    def traced(self) -> None:
        """Some message is of a trace that is wanted."""
        self.flags |= TRACED

    def without(self, flags: int) -> None:
        """These were of the place it came from, or do not matter any more."""
        self.flags &= ~flags

    def anew(self, flags: int = 0) -> None:
        """To be published as if nobody had had it: without number, place and what is known of its deliveries, nor these
        flags."""
        self.ids = NO_IDS
        self.position = self.attempts = 0
        self.flags &= ~(REDELIVERED | flags)

    def pick(self, at: Sequence[int]) -> Run:
        """The messages at these ascending places as a run of their own; without ids if they have none yet."""
        ids, records = self.ids, self.records
        return self._some([ids[i] for i in at] if ids else NO_IDS, [records[i] for i in at])

    def cut(self, index: slice) -> Run:
        """The messages at `index` as a run of their own. Bytes are shared, never copied."""
        return self._some(self.ids[index], self.records[index])

    def _some(self, ids: Sequence[int], records: list[bytes]) -> Run:
        """A run of these messages of it."""
        blob = self.blob.length + 1 if self.blob and records else 0
        return Run(
            ids,
            self.lines,
            records,
            sum(map(len, records)) + len(records) * len(self.lines) + blob,
            self.flags | PART if self.position and len(records) < len(self.records) else self.flags,
            self.priority,
            self.expires,
            self.time,
            self.attempts,
            self.position,
            self.blob,
            self.due,
        )

    def stored_in(self, blob: Blob) -> None:
        """Its body lies in that file now."""
        self.blob = blob


NO_IDS: Final[range] = range(0)
