"""Rows become SEND frames: transactions of rows, or single rows with ids of their own (sink.py says why).

What is sent depends on rows and options alone, so that another attempt sends the same: a transaction ends after
CHUNK_ROWS rows or CHUNK_BYTES of bodies, and a body that the broker would keep in a file of its own is sent alone.

Rule: knows the client and Arrow, not Spark. Raises PipelineError that says what to do.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from broker.client import Client, ClientError, ConnectionLost, Pipeline, ServerError, connect
from broker.seams.files import read_whole

from ..errors import PipelineError
from ..options import LOGIN_FAILED, NO_LOGIN, context
from ..store.notes import put

CHUNK_ROWS: Final = 500
CHUNK_BYTES: Final = 1 << 20
LARGE_BYTES: Final = 100 << 10
"""Bodies from here on cannot be part of a transaction (broker: wire.large_body_bytes)."""
OPEN_COMMITS: Final = 4
"""Transactions whose receipt is still to come."""
MOST_HELD: Final = 64 << 20
"""Bytes of an atomic batch: it is in the driver's memory, and in the broker's until COMMIT."""
LEDGER_ROWS: Final = 5_000
"""Between two notes: far fewer than a broker remembers ids."""
LEDGER_S: Final = 10.0
"""The same, of a slow one."""
_DROPPED: Final = frozenset((
    "destination", "receipt", "transaction", "content-length", "message-id", "subscription", "ack", "redelivered",
    "_AMQ_DUPL_ID", "persistent", "priority", "timestamp",
))  # fmt: skip
"""Headers of a MESSAGE that are not its sender's to say again, or that columns say."""
_TOO_FEW_IDS: Final = 1403
_TRANSACTION_LIMIT: Final = 1503


@dataclass(frozen=True)
class WriteOptions:
    """url: stomp://user:passcode@host:port. rate: rows a second and task, 0 = as fast as it goes.

    ledger, bodies  of replay.py: where it is noted how far receipts have come, of one task (notes.py); where
                    body_ref leads. ledger_key: what signs these notes; it comes with the task.
    atomic          none | task: each task's rows appear together or not at all | batch: those of all tasks."""

    url: str
    destination: str
    id_column: str
    write_id: str
    window: int
    rate: float
    ledger: str = ""
    bodies: str = ""
    atomic: str = "none"
    ca: bytes | None = None
    ledger_key: str = field(default="", repr=False)


@dataclass(frozen=True)
class Sending:
    """prefix: of ids. whole: one transaction, however long."""

    prefix: str
    whole: bool = False


@dataclass(slots=True)
class Row:
    """A SEND to come. place: of the ledger."""

    destination: str
    body: bytes
    headers: dict[str, str]
    id: str = ""
    place: tuple[int, int, int] | None = None


def send(options: WriteOptions, sending: Sending, batches: Iterator[Any]) -> int:
    """Returns how many rows were confirmed."""
    try:
        return asyncio.run(_sending(options, sending, batches))
    except ServerError as error:
        raise PipelineError(_refusal(options, error), error.code or 0) from None
    except (ClientError, OSError) as error:
        raise PipelineError(f"the broker did not take everything: {error}; the task may be run again") from None


def _refusal(options: WriteOptions, error: ServerError) -> str:
    if error.code == LOGIN_FAILED:
        return f"{error}: {NO_LOGIN}"
    if error.code == _TOO_FEW_IDS:
        return f"{error}; until then a task that is tried again would send rows twice"
    if error.code == _TRANSACTION_LIMIT and options.atomic != "none":
        fewer = "more partitions" if options.atomic == "task" else "fewer rows a batch (maxRowsPerTrigger)"
        return f"option atomic={options.atomic} is one transaction; nothing was sent: {error}: {fewer}, or raise it"
    return f"the broker did not take everything: {error}; the task may be run again"


async def _sending(options: WriteOptions, sending: Sending, batches: Iterator[Any]) -> int:
    # Between two batches Spark may compute for as long as it likes, and this loop with it: no heart-beats.
    async with connect(options.url, heartbeat=(0, 0), receipt_timeout=120, tls=context(options)) as client:
        chunks = Chunks(client, sending, options.rate)
        try:
            if options.id_column:
                return await _one_by_one(client, options, batches)
            for batch in batches:
                await chunks.add(rows(options, batch))
            await chunks.end()
            return chunks.count
        except ConnectionLost:
            raise client.error() from None  # what the broker said, if it did
        finally:
            await chunks.forget()


class Chunks:
    """Transactions of rows, one after the other, a few of them without their receipt."""

    def __init__(self, client: Client, sending: Sending, rate: float) -> None:
        self.count = 0
        self._client = client
        self._sending = sending
        self._rate = rate
        self._most = min(max(int(rate / 5), 1), CHUNK_ROWS) if rate else CHUNK_ROWS
        self._rows: list[Row] = []
        self._nbytes = 0
        self._ids: Counter[str] = Counter()
        self._open: deque[asyncio.Task[None]] = deque()
        self._number = 0
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()

    async def add(self, found: Iterable[Row]) -> None:
        if self._sending.whole:
            for row in found:
                self._hold(row)
            return
        for row in found:
            large = len(row.body) >= LARGE_BYTES
            if large:
                await self._flush()
            self._rows.append(row)
            self._nbytes += len(row.body)
            if large:
                await self._alone()
            elif len(self._rows) >= self._most or self._nbytes >= CHUNK_BYTES:
                await self._flush()

    def _hold(self, row: Row) -> None:
        """For the one transaction."""
        if len(row.body) >= LARGE_BYTES:
            raise PipelineError(
                f"a body of {len(row.body)} bytes cannot be part of a transaction ({LARGE_BYTES} and more): write "
                "such rows without option atomic; nothing was sent"
            )
        self._rows.append(row)
        self._nbytes += len(row.body)
        if self._nbytes > MOST_HELD:
            raise PipelineError(
                f"more than {MOST_HELD} bytes in one transaction: smaller tasks or batches, or no option atomic; "
                "nothing was sent"
            )

    async def end(self) -> None:
        await self._flush()
        while self._open:
            await self._open.popleft()

    async def forget(self) -> None:
        """Nobody waits for receipts any more."""
        for commit in self._open:
            commit.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _flush(self) -> None:
        """What has gathered becomes a transaction."""
        if not self._rows:
            return
        if self._rate and (ahead := self._begun + self.count / self._rate - self._loop.time()) > 0:
            await asyncio.sleep(ahead)
        while len(self._open) >= OPEN_COMMITS:
            await self._open.popleft()
        gathered, first = self._gathered()
        named: set[str] = set()
        name = f"{self._sending.prefix}/{first}+{len(gathered)}"
        for number, row in enumerate(gathered):
            if "JMSXGroupID" in row.headers:
                row.id = f"{name}/{number}"
            elif row.destination not in named:
                row.id = name
            if row.id:
                named.add(row.destination)
                self._ids[row.destination] += 1
        asked = list(dict.fromkeys(row.destination for row in gathered))
        for destination in asked[1:]:
            await check_ids(self._client, destination, self._ids[destination])
        transaction = self._transaction()
        needs = [("destination", asked[0]), ("id-cache-size", str(self._ids[asked[0]]))]
        await self._client.request("BEGIN", [("transaction", transaction), *needs])
        await self._client.send_runs(runs(gathered, transaction))
        commit = self._client.request("COMMIT", [("transaction", transaction)], receipt=True)
        self._open.append(self._loop.create_task(commit))
        await asyncio.sleep(0)  # it goes out before what follows

    async def _alone(self) -> None:
        (row,), first = self._gathered()
        self._ids[row.destination] += 1
        await check_ids(self._client, row.destination, self._ids[row.destination])
        headers = row.headers | {"_AMQ_DUPL_ID": f"{self._sending.prefix}/{first}+1"}
        await self._client.send(row.destination, row.body, headers, receipt=True)

    def _gathered(self) -> tuple[list[Row], int]:
        gathered, first = self._rows, self.count
        self._rows, self._nbytes = [], 0
        self.count += len(gathered)
        return gathered, first

    def _transaction(self) -> str:
        self._number += 1
        return f"t{self._number}"


def runs(gathered: Iterable[Row], transaction: str) -> Iterator[tuple[list[tuple[str, str]], list[bytes]]]:
    """Rows that follow each other with the same header lines are one run: (lines, bodies)."""
    same: tuple[str, dict[str, str], str] = ("", {}, "")
    lines: list[tuple[str, str]] = []
    bodies: list[bytes] = []
    for row in gathered:
        if bodies and row.headers is same[1] and row.destination == same[0] and row.id == same[2] == "":
            bodies.append(row.body)
            continue
        if bodies:
            yield lines, bodies
        same, bodies = (row.destination, row.headers, row.id), [row.body]
        lines = [("destination", row.destination), *row.headers.items(), ("transaction", transaction)]
        if row.id:
            lines.append(("_AMQ_DUPL_ID", row.id))
    if bodies:
        yield lines, bodies


async def check_ids(client: Client, destination: str, least: int) -> None:
    """The broker's ERROR, when it remembers fewer ids there: a transaction of nothing that needs them."""
    await client.request("BEGIN", [("transaction", "ids"), ("destination", destination), ("id-cache-size", str(least))])
    await client.request("ABORT", [("transaction", "ids")])


async def _one_by_one(client: Client, options: WriteOptions, batches: Iterator[Any]) -> int:
    """Rows whose id is their own: a receipt each."""
    count, loop = 0, asyncio.get_running_loop()
    begun = loop.time()
    ids: Counter[str] = Counter()
    row, noted = None, begun
    async with client.pipeline(options.window) as pipeline:
        for batch in batches:
            found = list(rows(options, batch))
            ids.update(row.destination for row in found)
            for destination in {row.destination for row in found}:
                least = min(ids[destination], LEDGER_ROWS + options.window) if options.ledger else ids[destination]
                await check_ids(client, destination, least)
            for row in found:
                if options.rate and (ahead := begun + count / options.rate - loop.time()) > 0:
                    await asyncio.sleep(ahead)
                await pipeline.send(row.destination, row.body, row.headers | {"_AMQ_DUPL_ID": row.id})
                count += 1
                if options.ledger and (count % LEDGER_ROWS == 0 or loop.time() - noted >= LEDGER_S):
                    await _note(options, pipeline, row, count)
                    noted = loop.time()
        if options.ledger and row is not None:
            await _note(options, pipeline, row, count)
    return count


async def _note(options: WriteOptions, pipeline: Pipeline, row: Row, sent: int) -> None:
    await pipeline.drain()
    await asyncio.to_thread(put, options.ledger, json.dumps(row.place).encode(), options.ledger_key, sent)


# ── rows ───────────────────────────────────────────────────────────────────────────────────────────


def rows(options: WriteOptions, batch: Any) -> Iterator[Row]:
    """Of an Arrow batch. Columns destination, body or value, headers (map), priority, persistent."""
    names = set(batch.schema.names)

    def column(name: str) -> list[Any]:
        return batch.column(name).to_pylist() if name in names else [None] * batch.num_rows

    bodies = column("body" if "body" in names else "value")
    references = column("body_ref") if "body_ref" in names else None
    message_ids = column("message_id") if references is not None else ()
    places = zip(column("slot"), column("offset"), column("index"), strict=True) if options.ledger else None
    ids = column(options.id_column) if options.id_column else None
    known: dict[Any, dict[str, str]] = {}
    for number, (body, destination, *said) in enumerate(
        zip(bodies, column("destination"), column("headers"), column("priority"), column("persistent"), strict=True)
    ):
        destination = destination or options.destination
        if not destination:
            raise PipelineError("a row has no destination: set the option destination, or fill the column")
        if body is None and references is not None and references[number]:
            body = _from_file(options, references[number], message_ids[number])
        key = (tuple(said[0] or ()), *said[1:])
        headers = known.get(key)
        if headers is None:
            headers = known[key] = _headers(*said)
        yield Row(
            destination, body.encode() if isinstance(body, str) else body or b"", headers,
            "" if ids is None else str(ids[number]), None if places is None else next(places),
        )  # fmt: skip


def _headers(headers: Iterable[tuple[str, str]] | None, priority: int | None, persistent: bool | None
             ) -> dict[str, str]:  # fmt: skip
    """Of a SEND; rows of a batch that say the same share them."""
    made = {name: value for name, value in headers or () if name not in _DROPPED and value is not None}
    made["persistent"] = "false" if persistent is False else "true"
    if priority is not None:
        made["priority"] = str(priority)
    return made


def _from_file(options: WriteOptions, reference: str, message: str) -> bytes:
    if not options.bodies:
        raise PipelineError(f"message {message} has its body elsewhere: read it with option bodies=inline")
    return read_whole(os.path.join(options.bodies, reference))


def packed(batches: Iterable[Any]) -> tuple[int, bytes]:
    """Rows of a task on their way to the driver: (how many, the rows)."""
    import pyarrow as pa

    sink, writer, count = pa.BufferOutputStream(), None, 0
    for batch in batches:
        if writer is None:
            writer = pa.ipc.new_stream(sink, batch.schema)
        writer.write_batch(batch)
        count += batch.num_rows
        if sink.tell() > MOST_HELD:
            raise PipelineError(
                f"option atomic=batch holds a whole batch in memory, and a task of it has more than {MOST_HELD} bytes: "
                "fewer rows a batch (maxRowsPerTrigger), or atomic=task; nothing was sent"
            )
    if writer is None:
        return 0, b""
    writer.close()
    return count, sink.getvalue().to_pybytes()


def unpacked(held: Iterable[bytes]) -> Iterator[Any]:
    """Those of all tasks, in the order of partitions."""
    import pyarrow as pa

    for each in held:
        with pa.ipc.open_stream(each) as stream:
            yield from stream
