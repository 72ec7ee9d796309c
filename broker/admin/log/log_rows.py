"""Items of a slot's log as rows: messages, the events of their lives, dead letters.

view       a row is                                              of which items
messages   a message, whichever queues got it                    runs
dlq        the same, of messages that died or expired            runs with a dead-letter-reason header
events     ENQUEUED (per message and queue), DELIVERED, NACKED,   runs, hand-outs, delivery counts, settlements
           and how it left: ACKED, EXPIRED, DEAD_LETTERED, PURGED

Rule: the same item gives the same rows with the same `index`, whatever is filtered: an index counts all rows of the
view. What belongs to a transaction that is not decided (hidden queues) is no row. Pure; must not know gRPC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from broker.core.message import DEATH
from broker.core.records import DELIVERED, Left, MetaRecord, RunRecord, SettleRecord
from broker.engine.address.address_settings import is_pattern, matches
from broker.journal.reads.history import Entry
from broker.rpc.v1 import log_reads_pb2 as pb

VIEWS: Final = ("messages", "events", "dlq")
HIDDEN: Final = "$tx"
"""Address of hidden queues (engine/publishing/prepared.py)."""
MAX_NAMES: Final = 100_000
"""Queues that are remembered."""
MET: Final = 256
"""Queues whose names are learned in one step: 0.1 ms."""

EVENTS: Final[dict[int, tuple[str, str]]] = {
    Left.UNSAID: ("ACKED", "unsaid"),
    Left.ACKED: ("ACKED", ""),
    Left.EXPIRED: ("EXPIRED", ""),
    Left.DEAD_LETTERED: ("DEAD_LETTERED", ""),
    Left.PURGED: ("PURGED", "queue deleted"),
    Left.REPLACED: ("PURGED", "replaced"),
    Left.MOVED: ("PURGED", "moved"),
    Left.DISCARDED: ("NACKED", "discarded"),
}
"""How a message left its queue: event and reason."""
_SEQUENCE: Final = re.compile(rb"\\(.)", re.DOTALL)
_MEANING: Final = {b"n": b"\n", b"c": b":", b"r": b"\r", b"\\": b"\\"}

Queue = tuple[str, str]
"""(name, address)"""


class LiveQueues(Protocol):
    """The queues that there are now."""

    def queue(self, slot: int, number: int) -> Queue | None: ...
    def queue_numbers(self, slot: int) -> list[int]: ...


class QueueNames:
    """What queues are called: those that live, and those that the log told of.

    strange   slots with a queue that the log had not told of: their others are to be met before they are deleted."""

    __slots__ = ("_known", "_live", "strange")

    def __init__(self, live: LiveQueues) -> None:
        self._live = live
        self._known: dict[tuple[int, int], Queue] = {}
        self.strange: dict[int, None] = {}

    def learn(self, record: MetaRecord) -> None:
        """A MetaRecord of the log."""
        if record.kind in ("queue", "estate"):
            self._put((record.slot, record.data["id"]), (record.data["name"], record.data["address"]))

    def of(self, slot: int, queue: int) -> Queue:
        """("", "") = nothing tells any more."""
        key = slot, queue
        known = self._known.get(key)
        if known is None and (known := self._live.queue(slot, queue)) is not None:
            # Where no more fit, those that are met would only drive each other out.
            if len(self._known) < MAX_NAMES:
                self.strange[slot] = None
            self._put(key, known)
        return known or ("", "")

    def meet(self) -> Iterator[None]:
        """Learns the names of all queues of strange slots, MET in a step."""
        while self.strange:
            slot, _ = self.strange.popitem()
            numbers = self._live.queue_numbers(slot)
            for start in range(0, len(numbers), MET):
                for number in numbers[start : start + MET]:
                    if (found := self._live.queue(slot, number)) is not None:
                        self._put((slot, number), found)
                yield

    def _put(self, key: tuple[int, int], queue: Queue) -> None:
        if len(self._known) >= MAX_NAMES and key not in self._known:
            del self._known[next(iter(self._known))]
        self._known[key] = queue


class Wanted:
    """What a reader asks for, and may see. `may`: address → is it his."""

    def __init__(
        self,
        view: str,
        addresses: Sequence[str],
        may: Callable[[str], bool],
        delimiter: str = ".",
        since_ms: int = 0,
        before_ms: int = 0,
        body: bool = True,
    ) -> None:
        self.view = view
        self.body = body
        self._since = since_ms
        self._before = before_ms
        self._may = may
        self._delimiter = delimiter
        self._exact = frozenset(name for name in addresses if not is_pattern(name, delimiter))
        self._patterns = [name.split(delimiter) for name in addresses if is_pattern(name, delimiter)]
        self._all = not addresses
        self._known: dict[str, bool] = {}

    def address(self, address: str) -> bool:
        """Are rows of this address wanted, and allowed? One that is not known any more ("") is of nobody's."""
        found = self._known.get(address)
        if found is None:
            if len(self._known) > 4096:
                self._known.clear()
            found = self._known[address] = self._matches(address) and self._may(address)
        return found

    def _matches(self, address: str) -> bool:
        if self._all or address in self._exact:
            return True
        return any(matches(pattern, address.split(self._delimiter)) for pattern in self._patterns)

    def time(self, at: int) -> bool:
        return at >= self._since and (not self._before or at < self._before)


def rows(entry: Entry, names: QueueNames, wanted: Wanted) -> Iterator[bytes | None]:
    """The rows of one item, encoded, in their order; None for one that is not wanted, so that who counts can count."""
    record = entry.record
    if isinstance(record, MetaRecord):
        names.learn(record)
        if wanted.view != "events" or not entry.lsn:
            return
        if record.kind == DELIVERED:
            yield from _delivered(entry, record, names, wanted)
        elif record.kind == "count" and record.data["attempts"] > 0:
            yield from _nacked(entry, record, names, wanted)
    elif isinstance(record, RunRecord):
        if record.address == HIDDEN or not wanted.address(record.address) or not wanted.time(record.run.time):
            return
        if wanted.view == "events":
            yield from _enqueued(entry, record, names, wanted)
        else:
            yield from _messages(entry, record, names, wanted)
    elif wanted.view == "events":
        yield from _settled(entry, record, names, wanted)


def _messages(entry: Entry, record: RunRecord, names: QueueNames, wanted: Wanted) -> Iterator[bytes | None]:
    queue = names.of(record.slot, record.queues[0])[0] if len(record.queues) == 1 else ""
    run = record.run
    made = _Messages(entry, record, wanted.body, queue)
    every = wanted.view == "messages"
    for index, data in enumerate(run.records):
        if every or DEATH in run.lines or DEATH in data:
            row = made.row(index, index)
            yield row if every or made.dead else None
        else:
            yield None


def _enqueued(entry: Entry, record: RunRecord, names: QueueNames, wanted: Wanted) -> Iterator[bytes | None]:
    made = [_Messages(entry, record, wanted.body, names.of(record.slot, number)[0]) for number in record.queues]
    for index in range(len(record.run.records)):
        for at, queue in enumerate(made):
            yield queue.row(index, index * len(made) + at)


class _Messages:
    """Rows of the messages of one run. What they share is encoded once: fields of a message may come in any order, and
    in several places.

    dead   the last row has a dead-letter-reason."""

    def __init__(self, entry: Entry, record: RunRecord, body: bool, queue: str) -> None:
        run = record.run
        self._run = run
        self._slot = record.slot
        self._body = body
        shared = pb.Row(
            offset=entry.lsn, epoch=entry.epoch, ts_ms=run.time, event="ENQUEUED", address=record.address,
            queue=queue, priority=run.priority, expires_ms=run.expires, attempt=run.attempts,
        )  # fmt: skip
        if run.blob is not None:
            shared.body_ref = f"{run.blob.id:016x}"
        lines = run.lines
        end = lines.find(b"\n\n")
        self._before = b""
        """Of `lines`, what is to be read with each record."""
        self._open = True
        """The headers go on in the records."""
        if lines[:1] == b"\n" or end >= 0:
            self._open = False
            self._before = lines[1:] if lines[:1] == b"\n" else lines[end + 2 :]
            lines = lines[: end + 1] if lines[:1] != b"\n" else b""
        elif lines and lines[-1:] != b"\n":
            lines, self._before = b"", lines
        _add_headers(shared, lines)
        self._group, self._reason = shared.group_id, shared.reason
        self.dead = False
        self._shared = shared.SerializeToString()
        self._own = b"", b"", False

    def row(self, at: int, index: int) -> bytes:
        """Of the message at this place of the run."""
        run = self._run
        data = self._before + run.records[at]
        own = b""
        self.dead = bool(self._reason)
        if self._open:
            end = 0 if data[:1] == b"\n" else data.find(b"\n\n") + 1
            if end:
                own = self._headers(data[:end])
            data = data[end + 1 :]
        body, size = data[:-1], len(data) - 1
        if run.blob is not None:
            body, size = b"", run.blob.length
        return b"".join((
            self._shared, own, _identity(self._slot, run.ids[at], index), b"\x50", _varint(size),
            *((b"\x4a", _varint(size), body) if self._body and body else ()),
        ))  # fmt: skip

    def _headers(self, lines: bytes) -> bytes:
        """Of one message, encoded; like neighbours have like ones."""
        if self._own[0] != lines:
            row = pb.Row(group_id=self._group, reason=self._reason)
            _add_headers(row, lines)
            self._own = lines, row.SerializeToString(), bool(row.reason)
        self.dead = self._own[2]
        return self._own[1]


def _add_headers(row: pb.Row, lines: bytes) -> None:
    """Of repeated names all; the first counts."""
    for line in lines.split(b"\n")[:-1]:
        name, _, value = line.partition(b":")
        if b"\\" in line:
            name, value = _unescaped(name), _unescaped(value)
        row.headers.add(name=name, value=value)
        if name == b"JMSXGroupID" and not row.group_id:
            row.group_id = value.decode(errors="replace")
        elif name == b"dead-letter-reason" and not row.reason:
            row.reason = value.decode(errors="replace")


def _unescaped(text: bytes) -> bytes:
    return _SEQUENCE.sub(lambda found: _MEANING.get(found[1], found[0]), text)


def _delivered(entry: Entry, record: MetaRecord, names: QueueNames, wanted: Wanted) -> Iterator[bytes | None]:
    data = record.data
    queue, address = names.of(record.slot, data["queue"])
    if not wanted.address(address) or not wanted.time(data["at"]):
        return
    index = 0
    for consumer, attempt, spans in data["to"]:
        shared = pb.Row(
            offset=entry.lsn, epoch=entry.epoch, ts_ms=data["at"], event="DELIVERED", address=address, queue=queue,
            consumer=str(consumer), attempt=attempt,
        ).SerializeToString()  # fmt: skip
        yield from _each(record.slot, spans, shared, index)
        index += sum([last - first + 1 for first, last in spans])


def _nacked(entry: Entry, record: MetaRecord, names: QueueNames, wanted: Wanted) -> Iterator[bytes | None]:
    data = record.data
    queue, address = names.of(record.slot, data["queue"])
    if wanted.address(address):
        shared = pb.Row(
            offset=entry.lsn, epoch=entry.epoch, event="NACKED", address=address, queue=queue,
            attempt=data["attempts"],
        )  # fmt: skip
        yield from _each(record.slot, data["spans"], shared.SerializeToString())


def _settled(entry: Entry, record: SettleRecord, names: QueueNames, wanted: Wanted) -> Iterator[bytes | None]:
    queue, address = names.of(record.slot, record.queue)
    if address == HIDDEN or record.why == Left.ENDED or not wanted.address(address) or not wanted.time(record.at):
        return
    event, reason = EVENTS.get(record.why, EVENTS[Left.UNSAID])
    # A deleted queue's span covers all that was ever in it: one row says up to where.
    spans = [(last, last) for _, last in record.spans] if record.why == Left.PURGED else record.spans
    shared = pb.Row(
        offset=entry.lsn, epoch=entry.epoch, ts_ms=record.at, event=event, address=address, queue=queue, reason=reason
    )
    yield from _each(record.slot, spans, shared.SerializeToString())


def _each(slot: int, spans: Iterable[Sequence[int]], shared: bytes, index: int = 0) -> Iterator[bytes]:
    """A row for every message number in the spans, the first of this index."""
    for first, last in spans:
        for message in range(first, last + 1):
            yield shared + _identity(slot, message, index)
            index += 1


def _identity(slot: int, message: int, index: int) -> bytes:
    """Fields message_id (7) and index (18)."""
    name = b"%d-%d" % (slot, message)
    return b"\x3a%c%b\x90\x01%b" % (len(name), name, _varint(index))


def _varint(number: int) -> bytes:
    if number < 0x80:
        return b"%c" % number
    if number < 0x4000:
        return b"%c%c" % (number & 0x7F | 0x80, number >> 7)
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def batch(rows: list[bytes], next: int, epoch: int, done: bool) -> bytes:
    """A ReadBatch."""
    parts: list[bytes] = []
    for row in rows:
        parts += (b"\x0a", _varint(len(row)), row)
    parts.append(pb.ReadBatch(next=next, epoch=epoch, done=done).SerializeToString())
    return b"".join(parts)
