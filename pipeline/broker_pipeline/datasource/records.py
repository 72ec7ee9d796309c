"""Records of the log taken apart, straight into Arrow columns (docs/adr/0002-journal-format.md, ADR 10).

A run of many messages is one entry of `_Runs`; what its messages share is repeated by NumPy when a batch is made, so
that a message costs its id, its body and a look for the end of its headers.

Rule: (slot, offset, index) of a view is the same however the log is cut into answers, because an index counts within
its item. A value that is not there is null. Bytes that are not UTF-8 are replaced in headers, never in `body`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterator
from itertools import accumulate
from struct import Struct
from typing import Any, Final

from broker.core.records import DELIVERED, Left
from broker.journal.log import format as f

from .rows import arrow_schema, columns

BATCH_ROWS: Final = 32_768
"""Rows of one Arrow batch, about."""
BATCH_BYTES: Final = 16 << 20
"""Bodies of one Arrow batch, about: what a task holds in memory."""
SPAN: Final = 16_384
"""Messages of one settlement that become rows at a time."""

_EVENTS: Final = {
    Left.UNSAID: ("ACKED", "unsaid"), Left.ACKED: ("ACKED", None), Left.EXPIRED: ("EXPIRED", None),
    Left.DEAD_LETTERED: ("DEAD_LETTERED", None), Left.PURGED: ("PURGED", "queue deleted"),
    Left.REPLACED: ("PURGED", "replaced"), Left.MOVED: ("PURGED", "moved"), Left.DISCARDED: ("NACKED", "discarded"),
}  # fmt: skip
_SEQUENCE: Final = re.compile(rb"\\(.)", re.DOTALL)
_MEANING: Final = {b"n": b"\n", b"c": b":", b"r": b"\r", b"\\": b"\\"}
_HEAD: Final = f.RECORD.size
_LENGTH: Final = Struct("<I")

Large = Callable[[int, int, str, str], tuple[bytes | None, str]]
"""(slot, offset, reference, message id) of a large body → (the body, or null; what `body_ref` is to say)."""


class Values:
    """What occurs often, once: value → its number."""

    def __init__(self) -> None:
        self.list: list[Any] = []
        self._known: dict[Any, int] = {}

    def of(self, value: Any) -> int:
        number = self._known.get(value)
        if number is None:
            number = self._known[value] = len(self.list)
            self.list.append(value)
        return number


class Header:
    """A block of header lines, read once. The first of a name counts."""

    __slots__ = ("group", "map", "reason")

    def __init__(self, lines: bytes) -> None:
        self.map: dict[str, str] = {}
        for line in lines.split(b"\n")[:-1]:
            name, _, value = line.partition(b":")
            if b"\\" in line:
                name, value = _unescaped(name), _unescaped(value)
            self.map.setdefault(name.decode(errors="replace"), value.decode(errors="replace"))
        self.group = self.map.get("JMSXGroupID") or None
        self.reason = self.map.get("dead-letter-reason") or None


def _unescaped(text: bytes) -> bytes:
    return _SEQUENCE.sub(lambda found: _MEANING.get(found[1], found[0]), text)


class Decoder:
    """`add` the records of an answer and take the Arrow batches it gives; at the end `rest`.

    Of the view `log` there are batches of messages and batches of events, told apart by a column `view`."""

    def __init__(self, view: str, bodies: bool, text: bool, large: Large) -> None:
        self.view = view
        self.bodies = bodies
        self._schema = arrow_schema(text, view == "log")
        self._large = large
        self._queues: dict[tuple[int, int], tuple[str | None, str | None]] = {}
        self._clear()

    def _clear(self) -> None:
        self._values = Values()
        """Addresses, queues, reasons, references."""
        self._headers = Values()
        self._blocks: dict[bytes, int] = {}
        self._runs: list[tuple[int, ...]] = []
        """slot, offset, epoch, time, expires, priority, attempts, first id, address, reference, blob's length, place of
        its messages in _head and _bodies, how many, place of its queues in _targets, how many."""
        self._ids: dict[int, list[int]] = {}
        """Run → its ids, where they are not consecutive."""
        self._targets: list[int] = []
        """Numbers of the queues' names, of one run after the other."""
        self._head: list[int] = []
        self._bodies: list[bytes | None] = []
        self._spans: list[tuple[int, ...]] = []
        """slot, offset, epoch, time, event, address, queue, reason, attempt, first id, first index, messages,
        consumer."""
        self._rows = self._nbytes = 0

    def learn(self, queues: Any) -> None:
        """QueueNames of an answer, before its records."""
        for queue in queues:
            self._queues[queue.slot, queue.id] = queue.name or None, queue.address or None

    def add(self, data: bytes) -> Iterator[Any]:
        """Arrow batches that are full."""
        events = self.view in ("events", "log")
        at, end = 0, len(data)
        unpack = f.RECORD.unpack_from
        while at < end:
            _, length, kind, flags, slot, epoch, lsn = unpack(data, at)
            at += _HEAD
            if kind == f.RUN:
                self._run(data, at, flags, slot, epoch, lsn)
            elif events and kind == f.SETTLE:
                yield from self._settled(data, at, length, flags, slot, epoch, lsn)
            elif events:
                yield from self._told(data, at, length, slot, epoch, lsn)
            at += length
            if self._rows >= BATCH_ROWS or self._nbytes >= BATCH_BYTES:
                yield from self.rest()

    def _run(self, data: bytes, at: int, flags: int, slot: int, epoch: int, lsn: int) -> None:
        first, _, expires, time, count, nlines, nqueues, naddress, attempts, priority, _ = f.RUN_FIXED.unpack_from(
            data, at
        )
        before = at + f.RUN_FIXED.size
        at = before + (f.before_queues(flags) if flags else 0)
        of = self._values.of
        targets, begin = len(self._targets), len(self._head)
        for n in range(nqueues):
            self._targets.append(of(self._queue(slot, f.QUEUE.unpack_from(data, at + 8 * n)[0])[0]))
        at += 8 * nqueues
        if flags & f.IDS:
            self._ids[len(self._runs)] = array("Q", data[at : at + 8 * count]).tolist()
            at += 8 * count
        lengths = at
        at += 4 * count
        address = of(data[at : at + naddress].decode())
        at += naddress
        reference, blob = -1, -1
        if flags & f.BLOB_REF:
            number, blob = f.PAIR.unpack_from(data, before + (16 if flags & f.DEDUP else 0))
            frame = data[at : at + nlines + _LENGTH.unpack_from(data, lengths)[0]]
            reference = self._blob(frame, slot, lsn, number, first)
        elif count == 1:
            self._message(data[at : at + nlines + _LENGTH.unpack_from(data, lengths)[0]])
        else:
            lines = data[at : at + nlines]
            at += nlines
            for stop in accumulate(array("I", data[lengths : lengths + 4 * count]), initial=at):
                if stop > at:
                    self._message(lines + data[at:stop])
                at = stop
        self._runs.append((
            slot, lsn, epoch, time, expires, priority, attempts, first, address, reference, blob, begin, count,
            targets, nqueues,
        ))  # fmt: skip
        self._rows += count

    def _message(self, frame: bytes) -> None:
        """Header lines, an empty line, the body, a NUL."""
        end = 0 if frame[:1] == b"\n" else frame.find(b"\n\n") + 1
        self._head.append(self._block(frame[:end]))
        body = frame[end + 1 : -1]
        self._bodies.append(body)
        self._nbytes += len(body)

    def _block(self, lines: bytes) -> int:
        number = self._blocks.get(lines)
        if number is None:
            number = self._blocks[lines] = len(self._headers.list)
            self._headers.list.append(Header(lines))
        return number

    def _blob(self, frame: bytes, slot: int, lsn: int, number: int, first: int) -> int:
        """A large body lies elsewhere: where."""
        end = 0 if frame[:1] == b"\n" else frame.find(b"\n\n") + 1
        self._head.append(self._block(frame[:end]))
        body, reference = None, f"{number:016x}"
        if self.bodies:
            body, reference = self._large(slot, lsn, reference, f"{slot}-{first}")
        self._bodies.append(body)
        self._nbytes += len(body or b"")
        return self._values.of(reference or None)

    def _queue(self, slot: int, number: int) -> tuple[str | None, str | None]:
        """(name, address)"""
        return self._queues.get((slot, number), (None, None))

    def _settled(self, data: bytes, at: int, length: int, flags: int, slot: int, epoch: int, lsn: int) -> Iterator[Any]:
        settled = f.read_settle(data, at, length, slot, flags)
        event, reason = _EVENTS.get(Left(settled.why), _EVENTS[Left.UNSAID])
        # A deleted queue's span covers all that was ever in it: one row says up to where.
        spans = [(last, last) for _, last in settled.spans] if settled.why == Left.PURGED else settled.spans
        yield from self._spread(slot, lsn, epoch, settled.at, event, settled.queue, spans, reason=reason)

    def _told(self, data: bytes, at: int, length: int, slot: int, epoch: int, lsn: int) -> Iterator[Any]:
        """Deliveries in vain, or what was handed out to whom."""
        meta = f.read_meta(data, at, length, slot)
        told = meta.data
        if meta.kind != DELIVERED:
            yield from self._spread(slot, lsn, epoch, 0, "NACKED", told["queue"], told["spans"], told["attempts"])
            return
        index = 0
        for consumer, attempt, spans in told["to"]:
            yield from self._spread(
                slot, lsn, epoch, told["at"], "DELIVERED", told["queue"], spans, attempt, str(consumer), index
            )
            index += sum([last - first + 1 for first, last in spans])

    def _spread(
        self, slot: int, lsn: int, epoch: int, time: int, event: str, queue: int, spans: Any, attempt: int = 0,
        consumer: str | None = None, index: int = 0, reason: str | None = None,
    ) -> Iterator[Any]:  # fmt: skip
        """A row for every message number in the spans, from this index on."""
        for first, last in spans:
            while first <= last:
                of = self._values.of
                name, address = self._queue(slot, queue)
                count = min(last - first + 1, SPAN)
                self._spans.append((
                    slot, lsn, epoch, time, of(event), of(address), of(name), of(reason), attempt, first, index, count,
                    of(consumer),
                ))  # fmt: skip
                first += count
                index += count
                self._rows += count
                if self._rows >= BATCH_ROWS:
                    yield from self.rest()

    def rest(self) -> Iterator[Any]:
        """What has gathered."""
        if self._runs and self.view != "events":
            yield from self._messages()
        if self._runs and self.view in ("events", "log"):
            yield self._enqueued()
        if self._spans:
            yield self._left()
        self._clear()

    # ── columns ────────────────────────────────────────────────────────────────────────────────────

    def _table(self) -> tuple[Any, Any, Any]:
        """(runs by columns, run of each message, number of each message in its run)"""
        import numpy as np

        runs = np.array(self._runs, dtype=np.int64).T
        counts = runs[12]
        return runs, np.repeat(np.arange(len(counts)), counts), np.arange(counts.sum()) - np.repeat(runs[11], counts)

    def _numbers(self, runs: Any, of: Any, at: Any) -> Any:
        """Message ids."""
        ids = runs[7][of] + at
        for run, listed in self._ids.items():
            begin = int(runs[11][run])
            ids[begin : begin + len(listed)] = listed
        return ids

    def _messages(self) -> Iterator[Any]:
        """One row per message; of the view `dlq`, those that say why they died."""
        import numpy as np
        import pyarrow as pa

        runs, of, at = self._table()
        only = np.where(runs[14] == 1, np.array([*self._targets, 0])[runs[13]], -1)
        whole = self._columns(runs, of, at, only[of], self._numbers(runs, of, at), "messages", self._frames(runs, of))
        if self.view == "dlq":
            whole = whole.filter(pa.compute.is_valid(whole["reason"]))
        if len(whole):
            yield whole

    def _enqueued(self) -> Any:
        """One row per message and queue. Beside rows of messages it does not say again what those say."""
        import numpy as np

        runs, of, at = self._table()
        ids, queues = self._numbers(runs, of, at), runs[14][of]
        frames = self._frames(runs, of) if self.view == "events" else {}
        index, which = at, np.zeros_like(at)
        if (queues != 1).any():
            which = np.arange(queues.sum()) - np.repeat(np.cumsum(queues) - queues, queues)
            every: Any = np.repeat(np.arange(len(of)), queues)
            of, ids, index = of[every], ids[every], at[every] * queues[every] + which
            frames = {name: _taken(column, every) for name, column in frames.items()}
        target = np.array([*self._targets, 0])[runs[13][of] + which]
        return self._columns(runs, of, index, target, ids, "events", frames)

    def _frames(self, runs: Any, of: Any) -> dict[str, Any]:
        """Headers, bodies and their sizes."""
        import numpy as np
        import pyarrow as pa

        body = pa.array(self._bodies, pa.binary())
        blob = runs[10][of]
        sizes = np.where(blob >= 0, blob, pa.compute.binary_length(body).fill_null(0).to_numpy(False))
        found = {"headers": np.array(self._head, dtype=np.int32), "size": sizes}
        return found | ({"body": body} if self.bodies else {})

    def _columns(self, runs: Any, of: Any, index: Any, queue: Any, ids: Any, view: str, frames: dict[str, Any]) -> Any:
        return columns(
            self._schema, self._values.list, self._headers.list,
            slot=runs[0][of], offset=runs[1][of], index=index, epoch=runs[2][of], ts=runs[3][of], event="ENQUEUED",
            address=runs[8][of], queue=queue, id=ids, priority=runs[5][of], expires=runs[4][of], attempt=runs[6][of],
            reference=runs[9][of], view=view, **frames,
        )  # fmt: skip

    def _left(self) -> Any:
        """Settlements, hand-outs and deliveries in vain."""
        import numpy as np

        spans = np.array(self._spans, dtype=np.int64).T
        counts = spans[11]
        of: Any = np.repeat(np.arange(len(counts)), counts)
        at = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return columns(
            self._schema, self._values.list, self._headers.list,
            slot=spans[0][of], offset=spans[1][of], index=spans[10][of] + at, epoch=spans[2][of], ts=spans[3][of],
            event=spans[4][of], address=spans[5][of], queue=spans[6][of], id=spans[9][of] + at, attempt=spans[8][of],
            reason=spans[7][of], consumer=spans[12][of], view="events",
        )  # fmt: skip


def _taken(column: Any, rows: Any) -> Any:
    return column[rows] if hasattr(column, "dtype") else column.take(rows)
