"""The read API: the log of slots for archives, reports and Spark (gRPC; docs/adr/0010-reading-the-log.md).

Rule: it never disturbs the path of messages. Files are read in threads of its own, rows are made a few at a time
between turns of the loop, and there are only so many streams. What a reader may not read is refused, or left out where
it asked for everything; what is not here any more is an error, never a gap. Knows rows and gRPC; who may what and where
slots are is asked of others.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, Final, NoReturn, Protocol

import grpc
import grpc.aio

from broker.config.settings import LogReadsSettings
from broker.core.errors import (
    Code,
    ConfigError,
    CorruptJournal,
    JournalError,
    OffsetDiverged,
    OffsetExpired,
    RefusedError,
)
from broker.core.ids import SLOTS
from broker.core.metrics import Metric
from broker.core.records import RunRecord
from broker.engine.address.address_settings import is_pattern
from broker.journal.journal import Journal
from broker.journal.reads.history import Cursor, Entry, epoch_at
from broker.journal.reads.scanning import SlotPart
from broker.rpc.v1 import log_reads_pb2 as pb
from broker.seams import grpc_ends
from broker.seams.clock import Clock
from broker.seams.files import read_whole
from broker.seams.read_turns import ReadTurns

from .log_keeping import LogRetention
from .log_rows import HIDDEN, VIEWS, Queue, QueueNames, Wanted, batch, rows
from .log_scan import answers

log = logging.getLogger("stampede.reads")

SERVICE: Final = "stampede.v1.LogReads"
MOST_BATCH_BYTES: Final = 2 << 20
"""A client's gRPC takes 4 MiB unless told otherwise, and one row may be larger than what was asked for."""
MOST_CUTS: Final = 256
DESCRIBED: Final = 16
"""Slots, or cuts through all slots, that are described in one turn of the loop."""
BODY_PIECE: Final = 256 * 1024
TURN_BYTES: Final = 16 * 1024
"""Of the log taken apart in one turn of the loop (one record at least)."""
TURNS: Final = 64
"""Turns after which there is an answer, also an empty one."""
THREADS: Final = 2

STATUS: Final = {
    Code.OFFSET_EXPIRED: grpc.StatusCode.OUT_OF_RANGE,
    Code.OFFSET_DIVERGED: grpc.StatusCode.FAILED_PRECONDITION,
    Code.READ_ELSEWHERE: grpc.StatusCode.UNAVAILABLE,
    Code.REPLICA_BEHIND: grpc.StatusCode.UNAVAILABLE,
    Code.UNKNOWN_SLOT: grpc.StatusCode.NOT_FOUND,
    Code.READER_LIMIT: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Code.BAD_READ: grpc.StatusCode.INVALID_ARGUMENT,
    Code.NOT_ALLOWED: grpc.StatusCode.PERMISSION_DENIED,
    Code.LOGIN_FAILED: grpc.StatusCode.UNAUTHENTICATED,
}


class LogUser(Protocol):
    """A user who has logged in."""

    def may(self, address: str) -> bool:
        """Read the log of this address, or of all that this pattern stands for."""
        ...


Login = Callable[[str | None, str | None, str], Awaitable[LogUser]]
"""login, passcode, peer → who it is; raises RefusedError."""


class SlotDirectory(Protocol):
    """Which slots are here."""

    def slots_of(self, address: str) -> Iterable[int]:
        """Of one address."""
        ...

    def records_deliveries(self, address: str) -> bool:
        """At this address, or at one that this pattern may stand for."""
        ...

    def knows(self, address: str) -> bool:
        """It is an address of a slot that is led here, or a setting names it: it may come to be."""
        ...

    def elsewhere(self, slot: int) -> str | None:
        """None: it is led here. Else its leader's endpoint, "" = nobody just now."""
        ...

    def behind(self, slot: int) -> str | None:
        """Of a slot that is led elsewhere: why what is followed here cannot be read; "" = it can, None = it is not
        followed here."""
        ...

    def end(self, slot: int) -> int:
        """The high-water mark: what was told to any edge lies before it. Of a slot followed here: as last heard."""
        ...

    def endpoint(self) -> str:
        """Our own, as others know it."""
        ...

    def endpoints(self) -> list[str]:
        """Of all owners; none: this process is alone."""
        ...

    def queue(self, slot: int, number: int) -> Queue | None:
        """What it is called; None: there is none of this number now."""
        ...

    def queue_numbers(self, slot: int) -> list[int]:
        """Of all that it has now."""
        ...


class LogReads:
    """The service; `handlers()` for a gRPC server, or `start()` for a port of its own."""

    def __init__(
        self,
        settings: LogReadsSettings,
        journal: Journal,
        place: SlotDirectory,
        login: Login,
        clock: Clock,
        delimiter: str,
        broker_id: str = "",
    ) -> None:
        """`broker_id`: of what is read, for ever; empty: this disk's."""
        self._settings = settings
        self._journal = journal
        self._history = journal.history
        self._place = place
        self._login = login
        self._clock = clock
        self._delimiter = delimiter
        self._broker_id = broker_id or journal.disk_id
        self._names = QueueNames(place)
        self._turns = ReadTurns(clock.monotonic)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="log-reads")
        self._keeper = LogRetention(journal, settings.keep_bytes, self._pool)
        self._keeper.begin()
        self._server: Any = None
        self._streams = 0
        self._rows = 0
        self._scanned = 0
        self._refused: dict[str, int] = {}
        self.port = -1

    # ── life ───────────────────────────────────────────────────────────────────────────────────────

    def handlers(self) -> grpc.GenericRpcHandler:
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        methods = {
            "Lookup": unary(self._unary(self.lookup), pb.LookupRequest.FromString, _bytes),
            "Watermark": unary(self._unary(self.watermark), pb.WatermarkRequest.FromString, _bytes),
            "Describe": unary(self._unary(self.describe), pb.DescribeRequest.FromString, _bytes),
            "Scan": stream(self._stream(self.scan), pb.ScanRequest.FromString, _bytes),
            "Read": stream(self._stream(self.read), pb.ReadRequest.FromString, None),
            "ReadBody": stream(self._stream(self.read_body), pb.ReadBodyRequest.FromString, _bytes),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def start(self, host: str) -> None:
        """Listens on the port of the settings, if there is one. Raises ConfigError."""
        settings = self._settings
        if settings.port < 0:
            return
        self._server = grpc_ends.server([("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers([self.handlers()])
        host = f"[{host}]" if ":" in host and host[0] != "[" else host or "[::]"
        address = f"{host}:{settings.port}"
        try:
            if settings.cert_file:
                pair = (read_whole(settings.key_file), read_whole(settings.cert_file))
                self.port = int(self._server.add_secure_port(address, grpc.ssl_server_credentials([pair])))
            else:
                self.port = int(self._server.add_insecure_port(address))
        except (RuntimeError, OSError) as error:
            raise ConfigError(
                f"Cannot listen for readers of the log on {address}: {error}; check log_reads.host, log_reads.port and "
                "its certificate."
            ) from None
        await self._server.start()

    async def stop(self) -> None:
        """Ends all streams."""
        if self._server is not None:
            await self._server.stop(None)
        self._keeper.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def metrics(self) -> Iterable[Metric]:
        yield from self._keeper.metrics()
        yield Metric("stomp_log_reads_streams", "gauge", "Reads of the log under way.", [({}, self._streams)])
        yield Metric("stomp_log_reads_rows_total", "counter", "Rows of the log given out.", [({}, self._rows)])
        yield Metric("stomp_log_scanned_bytes_total", "counter", "Bytes of the log given out.", [({}, self._scanned)])
        yield Metric(
            "stomp_log_reads_refused_total", "counter", "Requests to the read API that were refused, by why.",
            [({"error": name}, count) for name, count in self._refused.items()],
        )  # fmt: skip

    # ── calls ──────────────────────────────────────────────────────────────────────────────────────

    def _unary(self, call: Callable[[Any, LogUser], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        async def handle(request: Any, context: grpc.aio.ServicerContext) -> Any:
            try:
                return await call(request, await self._who(context))
            except (RefusedError, JournalError) as error:
                await self._abort(context, error)

        return handle

    def _stream(
        self, call: Callable[[Any, LogUser], AsyncGenerator[Any, None]]
    ) -> Callable[[Any, Any], AsyncGenerator[Any, None]]:
        async def handle(request: Any, context: grpc.aio.ServicerContext) -> AsyncGenerator[Any, None]:
            counted = False
            try:
                reader = await self._who(context)
                if self._streams >= self._settings.max_streams:
                    raise RefusedError(
                        Code.READER_LIMIT,
                        f"{self._streams} reads are under way; try again, or raise log_reads.max_streams",
                    )
                self._streams += 1
                counted = True
                async with aclosing(call(request, reader)) as answers:
                    async for answer in answers:
                        yield answer
            except (RefusedError, JournalError) as error:
                await self._abort(context, error, getattr(request, "slot", -1))
            finally:
                self._streams -= counted

        return handle

    async def _who(self, context: grpc.aio.ServicerContext) -> LogUser:
        login, passcode = _basic(context.invocation_metadata() or ())
        return await self._login(login, passcode, _peer(context))

    async def _abort(
        self, context: grpc.aio.ServicerContext, error: RefusedError | JournalError, slot: int = -1
    ) -> NoReturn:
        text, earliest, endpoint = str(error), 0, ""
        code = Code.INTERNAL
        status = grpc.StatusCode.INTERNAL
        if isinstance(error, OffsetExpired | OffsetDiverged) and self._place.elsewhere(error.slot) is not None:
            # Another replica may have it: that it is gone says only the leader.
            slot, error = error.slot, RefusedError(Code.REPLICA_BEHIND, str(error))
        if isinstance(error, RefusedError):
            code = error.code
        elif isinstance(error, OffsetExpired):
            code = Code.OFFSET_EXPIRED
            earliest = max(error.earliest, self._history.earliest(error.slot))
        elif isinstance(error, OffsetDiverged):
            code = Code.OFFSET_DIVERGED
        elif isinstance(error, CorruptJournal):
            status = grpc.StatusCode.DATA_LOSS
            log.error("a reader of the log: %s", error)
        if code in (Code.READ_ELSEWHERE, Code.REPLICA_BEHIND) and slot >= 0:
            endpoint = self._place.elsewhere(slot) or ""
        answer = pb.Error(text=text, code=code.number, earliest=earliest, endpoint=endpoint)
        self._refused[code.name.lower()] = self._refused.get(code.name.lower(), 0) + 1
        await context.abort(
            STATUS.get(code, status),
            f"{code.number} {error}",
            (("stampede-error-bin", answer.SerializeToString()),),
        )
        raise AssertionError("abort() raises")

    async def describe(self, request: pb.DescribeRequest, reader: LogUser) -> pb.Description:
        """What can be read, by slots."""
        _check_view(request.view, also="log")
        self._check_addresses(request.addresses, reader)
        told = await self._deliveries(request.addresses or ("#",))
        answer = pb.Description(
            broker_id=self._broker_id, now_ms=self._clock.wall_ms(), deliveries=told, endpoint=self._place.endpoint()
        )
        for number, name in enumerate(request.addresses, 1):
            if not (is_pattern(name, self._delimiter) or self._place.knows(name)):
                answer.unknown.append(name)
            if number % DESCRIBED == 0:
                await asyncio.sleep(0)
        answer.endpoints.extend(self._place.endpoints())
        for number, slot in enumerate(self._slots(request.addresses), 1):
            answer.slots.append(self._range(slot, request.followers))
            if number % DESCRIBED == 0:
                await asyncio.sleep(0)
        if request.cuts:
            here = [part.slot for part in answer.slots if not part.endpoint]
            cuts = self._history.begins(here, min(request.cuts, MOST_CUTS))
            for number, offsets in enumerate(cuts, 1):
                answer.cuts.add(offsets=offsets)
                if number % DESCRIBED == 0:
                    await asyncio.sleep(0)
        return answer

    async def _deliveries(self, addresses: Iterable[str]) -> bool:
        """Does any of these record hand-outs."""
        for number, name in enumerate(addresses, 1):
            if self._place.records_deliveries(name):
                return True
            if number % DESCRIBED == 0:
                await asyncio.sleep(0)
        return False

    def _slots(self, addresses: Iterable[str]) -> list[int]:
        """Of these; of patterns, and without any, all that have something."""
        found: set[int] = set()
        names = list(addresses)
        for name in names:
            if not is_pattern(name, self._delimiter):
                found.update(self._place.slots_of(name))
        if not names or any(is_pattern(name, self._delimiter) for name in names):
            found.update(s for s in range(SLOTS) if self._place.elsewhere(s) is not None or self._place.end(s) > 1)
        return sorted(found)

    def _range(self, slot: int, followers: bool) -> pb.SlotRange:
        endpoint = self._place.elsewhere(slot)
        if endpoint is not None and not (followers and self._place.behind(slot) == ""):
            return pb.SlotRange(slot=slot, endpoint=endpoint or "?")
        end = self._place.end(slot)
        lineage = self._history.lineage(slot)
        return pb.SlotRange(
            slot=slot, earliest=self._history.earliest(slot), end=end, epoch=epoch_at(lineage, end - 1),
            follower=endpoint is not None, leader="" if endpoint is None else endpoint or "?",
            lineage=[pb.Lineage(epoch=epoch, start=first) for epoch, first in lineage if first < end],
        )  # fmt: skip

    async def read(self, request: pb.ReadRequest, reader: LogUser) -> AsyncGenerator[bytes, None]:
        """Rows of one slot: a ReadBatch after the other, encoded."""
        _check_view(request.view)
        self._check_addresses(request.addresses, reader)
        start = getattr(request, "from")
        end = self._check_part(request.slot, request)
        until = min(request.until or end, end)
        wanted = Wanted(
            request.view or "messages", request.addresses, reader.may, self._delimiter, request.since_ms,
            request.before_ms, request.include_body,
        )  # fmt: skip
        cursor = self._history.cursor(request.slot, start)
        budget = min(request.max_bytes or self._settings.batch_bytes, MOST_BATCH_BYTES)
        epoch = request.epoch
        found: list[bytes] = []
        nbytes = made = 0
        turns = 0
        while cursor.due < until:
            for entry in await self._entries(cursor, until):
                for row in rows(entry, self._names, wanted):
                    made += 1
                    if made % self._settings.turn_rows == 0:
                        await self._turns.next()
                    if row is None:
                        continue
                    found.append(row)
                    nbytes += len(row)
                    if nbytes >= budget:
                        self._rows += len(found)
                        yield batch(found, entry.lsn or start, epoch, False)
                        found, nbytes = [], 0
                epoch = entry.epoch if entry.lsn else epoch
            start = cursor.due
            turns += 1
            # Where nothing is wanted, a reader is told from time to time how far it is.
            if start >= until or turns % TURNS == 0:
                self._history.remember(cursor)
                self._rows += len(found)
                yield batch(found, start, epoch, start >= (request.until or end))
                found, nbytes = [], 0
            for _ in self._names.meet():
                await self._turns.next()
            await self._turns.next()
        if getattr(request, "from") >= until:
            yield batch([], start, epoch, start >= (request.until or end))

    async def scan(self, request: pb.ScanRequest, reader: LogUser) -> AsyncGenerator[pb.ScanBatch, None]:
        """Records of many slots: a ScanBatch after the other."""
        _check_view(request.view, also="log")
        self._check_addresses(request.addresses, reader)
        parts: dict[int, SlotPart] = {}
        for asked in request.parts:
            end = self._check_part(asked.slot, asked)
            if asked.slot in parts:
                raise RefusedError(Code.BAD_READ, f"slot {asked.slot} is asked for twice")
            parts[asked.slot] = SlotPart(getattr(asked, "from"), min(asked.until or end, end), asked.epoch)
        wanted = Wanted(
            request.view or "messages", request.addresses, reader.may, self._delimiter, request.since_ms,
            request.before_ms,
        )  # fmt: skip
        budget = min(request.max_bytes or self._settings.batch_bytes, MOST_BATCH_BYTES)
        most = self._settings.turn_rows
        found = answers(self._history, parts, wanted, self._names, self._pool, self._turns, most, budget)
        async with aclosing(found) as batches:
            async for answer in batches:
                self._scanned += len(answer.records)
                yield answer

    async def _entries(self, cursor: Cursor, until: int) -> list[Entry]:
        """The next few items: their bytes are read in a thread, and taken apart here."""
        loop = asyncio.get_running_loop()
        cursor.pace()
        while True:
            before = cursor.place
            ahead = self._history.ahead(cursor)
            entries = cursor.read(ahead, until, TURN_BYTES)
            if entries or cursor.due >= until:
                return entries
            if cursor.thirsty:
                await loop.run_in_executor(self._pool, cursor.fill)
            elif cursor.place == before:
                # What lies before the high-water mark is on the disk: something is missing.
                raise OffsetExpired(cursor.slot, cursor.due, self._history.earliest(cursor.slot))
            await self._turns.next()

    async def lookup(self, request: pb.LookupRequest, reader: LogUser) -> pb.LookupAnswer:
        """The offsets of a time."""
        finder, ahead = self._history.finder(request.ts_ms)
        found = await asyncio.get_running_loop().run_in_executor(self._pool, finder.find, ahead)
        answer = pb.LookupAnswer()
        for slot in request.slots or range(SLOTS):
            self._check_slot(slot) if request.slots else None
            if self._place.elsewhere(slot) is None:
                answer.offsets[slot] = min(max(found[slot], self._history.earliest(slot)), self._place.end(slot))
        return answer

    async def watermark(self, request: pb.WatermarkRequest, reader: LogUser) -> pb.WatermarkAnswer:
        """What an archive has, and what is kept for it. It speaks of all addresses of its slots."""
        self._check_addresses(("#",), reader)
        if request.forget:
            await self._keeper.forget(request.name)
        else:
            for slot, offset in request.offsets.items():
                # What is only followed here may be a little behind.
                last = self._history.end(slot) if slot < SLOTS and self._place.elsewhere(slot) is None else offset
                if slot >= SLOTS or not 1 <= offset <= last:
                    raise RefusedError(Code.BAD_READ, f"slot {slot} has no offset {offset}")
            await self._keeper.advance(request.name, request.offsets)
        return pb.WatermarkAnswer(kept_bytes=self._keeper.kept, limit_bytes=self._settings.keep_bytes)

    async def read_body(self, request: pb.ReadBodyRequest, reader: LogUser) -> AsyncGenerator[pb.BodyChunk, None]:
        """A large body, of a message that the reader may see."""
        self._check_slot(request.slot)
        self._history.check(request.slot, request.offset, 0)
        end = self._place.end(request.slot)
        if request.offset >= end and self._place.elsewhere(request.slot) is not None:
            raise RefusedError(Code.REPLICA_BEHIND, f"slot {request.slot}: it is known here up to {end - 1}")
        cursor = self._history.cursor(request.slot, request.offset)
        blob = None
        while cursor.due < min(request.offset + 1, end):
            for entry in await self._entries(cursor, request.offset + 1):
                record = entry.record
                if not entry.lsn or not isinstance(record, RunRecord) or record.address == HIDDEN:
                    continue
                if reader.may(record.address):
                    blob = record.run.blob
        if blob is None or f"{blob.id:016x}" != request.body_ref:
            raise RefusedError(Code.BAD_READ, f"offset {request.offset} has no large body {request.body_ref[:32]!r}")
        loop = asyncio.get_running_loop()
        try:
            body = self._journal.blobs.open(blob.id, blob.length)
        except CorruptJournal:
            raise OffsetExpired(request.slot, request.offset, request.offset + 1) from None
        try:
            checked = 0
            for at in range(0, blob.length, BODY_PIECE):
                if checked <= at:
                    checked = await loop.run_in_executor(self._pool, body.check, checked)
                yield pb.BodyChunk(data=await loop.run_in_executor(self._pool, body.read, at, BODY_PIECE))
        finally:
            body.close()

    # ── what may be asked ──────────────────────────────────────────────────────────────────────────

    def _check_slot(self, slot: int) -> None:
        if slot >= SLOTS:
            raise RefusedError(Code.UNKNOWN_SLOT, f"{slot}; slots are 0 to {SLOTS - 1}")
        endpoint = self._place.elsewhere(slot)
        if endpoint is None:
            return
        ask = f"ask {endpoint or 'again, nobody leads it just now'}"
        why = self._place.behind(slot)
        if why is None:
            raise RefusedError(Code.READ_ELSEWHERE, f"slot {slot}: {ask}")
        if why:
            raise RefusedError(Code.REPLICA_BEHIND, f"slot {slot}: {why}; {ask}")

    def _check_part(self, slot: int, asked: pb.ReadRequest | pb.ScanPart) -> int:
        """May it be read here, from there, and is this the log that is meant? Its high-water mark."""
        self._check_slot(slot)
        start, until, end = getattr(asked, "from"), asked.until, self._place.end(slot)
        if self._place.elsewhere(slot) is not None and max(start, until) > end:
            # Whether its items are those that are meant cannot be told before it has the last of them.
            raise RefusedError(
                Code.REPLICA_BEHIND, f"slot {slot}: it is known here up to {end - 1}, not to {max(start, until) - 1}"
            )
        self._history.check(slot, start, asked.epoch)
        self._history.check_until(slot, until, asked.until_epoch)
        return end

    @staticmethod
    def _check_addresses(addresses: Iterable[str], reader: LogUser) -> None:
        for name in addresses:
            if not name:
                raise RefusedError(Code.BAD_READ, "an address is empty")
            if not reader.may(name):
                raise RefusedError(
                    Code.NOT_ALLOWED, f"you may not read the log of {name[:200]}: edge.permissions needs `read` there"
                )


def _check_view(view: str, also: str = "") -> None:
    if view and view not in VIEWS and view != also:
        raise RefusedError(Code.BAD_READ, f"there is no view {view[:40]!r}; there are {', '.join(VIEWS)}")


def _basic(metadata: Iterable[tuple[str, str | bytes]]) -> tuple[str | None, str | None]:
    """Login and passcode of `authorization: Basic …`; None: there are none. Raises RefusedError."""
    found: Mapping[str, str | bytes] = dict(metadata)
    value = found.get("authorization")
    if value is None:
        return None, None
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    scheme, _, token = text.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        login, colon, passcode = base64.b64decode(token, validate=True).decode().partition(":")
    except (ValueError, binascii.Error):
        colon = ""
    if not colon:
        raise RefusedError(Code.LOGIN_FAILED, "`authorization` must be `Basic` and base64 of login:passcode")
    return login, passcode


def _peer(context: grpc.aio.ServicerContext) -> str:
    peer: str = context.peer()
    return peer.partition(":")[2] if peer.startswith(("ipv4:", "ipv6:")) else peer


def _bytes(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
