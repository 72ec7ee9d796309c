"""Scan, the read API's way for archives: many slots in one pass, records as they stand in the log.

What a record means is worked out by who asked, in his own processor's time; here is looked at only whose it is.

Rule: a turn of the loop looks at `log_reads.turn_rows` records, then messages have theirs. Nobody gets a record of an
address that is not his, nor one of a transaction that is not decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from concurrent.futures import Executor
from struct import Struct
from typing import Final

from broker.core.errors import OffsetExpired
from broker.core.records import DELIVERED, Left, MetaRecord
from broker.journal.log import format as f
from broker.journal.reads.history import History
from broker.journal.reads.scanning import FoundRecord, SlotPart, remember, scan
from broker.rpc.v1 import log_reads_pb2 as pb
from broker.seams.read_turns import ReadTurns

from .log_rows import HIDDEN, QueueNames, Wanted

TURNS: Final = 512
"""Turns after which there is an answer, also an empty one."""
_HEAD: Final = f.RECORD.size
_RUN: Final = Struct("<24xQI4xII6x")
"""The bytes of format.RUN_FIXED, only: time, count, queues, bytes of address."""
assert _RUN.size == f.RUN_FIXED.size


class _ScanFilter:
    """What of the records is for this reader, and the names of their queues."""

    def __init__(self, wanted: Wanted, names: QueueNames) -> None:
        self._wanted = wanted
        self._names = names
        self._events = wanted.view in ("events", "log")
        self._addresses: dict[bytes, bool] = {}
        self._told: set[tuple[int, int]] = set()
        self.queues: list[pb.QueueName] = []
        """To be told with the next answer."""

    def keep(self, data: bytes, found: Iterable[FoundRecord]) -> list[bytes]:
        """The records that are for him; neighbours in one piece."""
        pieces: list[bytes] = []
        begin = end = -1
        for record in found:
            if not self._passes(data, record):
                continue
            if record.at != end:
                if begin >= 0:
                    pieces.append(data[begin:end])
                begin = record.at
            end = record.end
        if begin >= 0:
            pieces.append(data[begin:end])
        return pieces

    def _passes(self, data: bytes, record: FoundRecord) -> bool:
        if record.kind == f.RUN:
            return self._run(data, record)
        at = record.at + _HEAD
        if record.kind == f.META:
            meta = f.read_meta(data, at, record.end - at, record.slot)
            self._names.learn(meta)
            if not self._events or not record.lsn or not self._tells(meta):
                return False
            return self._queue(record.slot, meta.data["queue"])
        if not self._events:
            return False
        settled = f.read_settle(data, at, 16 if record.flags & f.TIMED else 8, record.slot, record.flags)
        if settled.why == Left.ENDED or not self._wanted.time(settled.at):
            return False
        return self._queue(record.slot, settled.queue)

    def _tells(self, meta: MetaRecord) -> bool:
        """Of a hand-out, or of deliveries in vain."""
        if meta.kind == DELIVERED:
            return self._wanted.time(meta.data["at"])
        return meta.kind == "count" and bool(meta.data["attempts"] > 0)

    def _run(self, data: bytes, record: FoundRecord) -> bool:
        at = record.at + _HEAD
        time, count, queues, length = _RUN.unpack_from(data, at)
        first = at + f.RUN_FIXED.size + (f.before_queues(record.flags) if record.flags else 0)
        begin = first + 8 * queues + (8 * count if record.flags & f.IDS else 0) + 4 * count
        name = data[begin : begin + length]
        passes = self._addresses.get(name)
        if passes is None:
            if len(self._addresses) > 4096:
                self._addresses.clear()
            address = name.decode()
            passes = self._addresses[name] = address != HIDDEN and self._wanted.address(address)
        if not passes or not self._wanted.time(time):
            return False
        for n in range(queues):
            key = record.slot, f.QUEUE.unpack_from(data, first + 8 * n)[0]
            if key not in self._told:
                self._tell(*key)
        return True

    def _queue(self, slot: int, queue: int) -> bool:
        _, address = self._names.of(slot, queue)
        if address == HIDDEN or not self._wanted.address(address):
            return False
        if (slot, queue) not in self._told:
            self._tell(slot, queue)
        return True

    def _tell(self, slot: int, queue: int) -> None:
        if len(self._told) > 100_000:
            self._told.clear()  # they are told once more
        self._told.add((slot, queue))
        name, address = self._names.of(slot, queue)
        self.queues.append(pb.QueueName(slot=slot, id=queue, name=name, address=address))


async def answers(
    history: History,
    parts: dict[int, SlotPart],
    wanted: Wanted,
    names: QueueNames,
    pool: Executor,
    turns: ReadTurns,
    most: int,
    budget: int,
) -> AsyncGenerator[pb.ScanBatch, None]:
    """`most` records in one turn of the loop, `budget` bytes in one answer, about."""
    under = scan(history, parts)
    wanted_rows = _ScanFilter(wanted, names)
    known = {slot: part.due for slot, part in parts.items()}
    pieces: list[bytes] = []
    nbytes = count = 0
    while under.left:
        before = under.place
        found = under.read(history.ahead_of(before.segment), most)
        new = wanted_rows.keep(under.data, found)
        pieces += new
        nbytes += sum(map(len, new))
        count += 1
        if nbytes >= budget or count % TURNS == 0:
            yield _answer(pieces, wanted_rows, parts, known, False)
            pieces, nbytes = [], 0
        if under.thirsty:
            await asyncio.get_running_loop().run_in_executor(pool, under.fill)
        elif not found and under.place == before:
            # What lies before the high-water mark is on the disk: something is missing.
            slot, part = next(pair for pair in parts.items() if pair[1].due < pair[1].until)
            raise OffsetExpired(slot, part.due, history.earliest(slot))
        for _ in names.meet():
            await turns.next()
        await turns.next()
    remember(history, under)
    yield _answer(pieces, wanted_rows, parts, known, True)


def _answer(
    pieces: list[bytes], wanted_rows: _ScanFilter, parts: dict[int, SlotPart], known: dict[int, int], done: bool
) -> pb.ScanBatch:
    answer = pb.ScanBatch(records=b"".join(pieces), queues=wanted_rows.queues, done=done)
    wanted_rows.queues = []
    for slot, part in parts.items():
        if part.due != known[slot] or done:
            known[slot] = part.due
            answer.next.append(pb.ScanPart(slot=slot, epoch=part.epoch, **{"from": part.due}))
    return answer
