"""Writing to a broker from Spark: SEND with receipts, each row with an id that is the same on every attempt.

A task that is tried again, a speculative one and a batch that is replayed send the same ids (`_AMQ_DUPL_ID`), and the
broker takes each once. The id is `<query>/<batch>/<partition>/<row>`, or what the column named by `idColumn` holds.

Rule: a task has succeeded when every receipt has come. The broker remembers the last `id_cache_size` ids of an address
(20,000 unless set): a task that is repeated must come before so many others.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from broker.client import ClientError, connect
from broker.seams.entropy import token
from broker.seams.files import read_whole

from .errors import PipelineError
from .files import write_pieces
from .options import lowered

LEDGER_ROWS: Final = 5_000
"""Between two notes: far fewer than a broker remembers ids."""
_DROPPED: Final = frozenset((
    "destination", "receipt", "transaction", "content-length", "message-id", "subscription", "ack", "redelivered",
    "_AMQ_DUPL_ID", "persistent", "priority", "timestamp",
))  # fmt: skip
"""Headers of a MESSAGE that are not its sender's to say again, or that columns say."""


@dataclass(frozen=True)
class WriteOptions:
    """url: stomp://user:passcode@host:port. rate: rows a second and task, 0 = as fast as it goes.

    ledger, bodies  of replay.py: a file that says how far receipts have come, of one task; where body_ref leads."""

    url: str
    destination: str
    id_column: str
    write_id: str
    window: int
    rate: float
    ledger: str = ""
    bodies: str = ""


@dataclass
class Sent(WriterCommitMessage):
    """What one task has had confirmed."""

    rows: int


def write_options(given: Mapping[str, str], columns: list[str]) -> WriteOptions:
    """Raises PipelineError."""
    options = lowered(given)
    if not options.get("url"):
        raise PipelineError("option url is missing: stomp://user:passcode@host:61613")
    destination = options.get("destination", "")
    if not destination and "destination" not in columns:
        raise PipelineError("say where to: option destination, or a column destination")
    if not {"body", "value"} & set(columns):
        raise PipelineError(f"there is no column body (or value) among {', '.join(columns)}")
    id_column = options.get("idcolumn", "")
    if id_column and id_column not in columns:
        raise PipelineError(f"option idColumn: there is no column {id_column!r}")
    try:
        window, rate = int(options.get("window", "500")), float(options.get("rate", "0"))
    except ValueError:
        raise PipelineError("options window and rate are numbers") from None
    if window < 1 or rate < 0:
        raise PipelineError("option window is at least 1, option rate at least 0")
    return WriteOptions(
        options["url"], destination, id_column, options.get("writeid", "") or token(8), window, rate,
        options.get("ledger", ""), options.get("bodies", ""),
    )  # fmt: skip


def _send(options: WriteOptions, prefix: str, batches: Iterator[Any]) -> Sent:
    try:
        return asyncio.run(_sending(options, prefix, batches))
    except (ClientError, OSError) as error:
        raise PipelineError(f"the broker did not take everything: {error}; the task may be run again") from None


async def _sending(options: WriteOptions, prefix: str, batches: Iterator[Any]) -> Sent:
    count = 0
    loop = asyncio.get_running_loop()
    begun = loop.time()
    # Between two batches Spark may compute for as long as it likes, and this loop with it: no heart-beats.
    async with (
        connect(options.url, heartbeat=(0, 0), receipt_timeout=120) as client,
        client.pipeline(options.window) as pipeline,
    ):
        for batch in batches:
            for row in batch.to_pylist():
                destination, body, headers = _message(options, row)
                headers["_AMQ_DUPL_ID"] = str(row[options.id_column]) if options.id_column else f"{prefix}/{count}"
                if options.rate and (ahead := begun + count / options.rate - loop.time()) > 0:
                    await asyncio.sleep(ahead)
                await pipeline.send(destination, body, headers)
                count += 1
                if options.ledger and count % LEDGER_ROWS == 0:
                    await pipeline.drain()
                    _note(options.ledger, row)
        if options.ledger and count:
            await pipeline.drain()
            _note(options.ledger, row)
    return Sent(count)


def _note(ledger: str, row: Mapping[str, Any]) -> None:
    write_pieces(ledger, [json.dumps([row["slot"], row["offset"], row["index"]]).encode()])


def _message(options: WriteOptions, row: Mapping[str, Any]) -> tuple[str, bytes, dict[str, str]]:
    """Columns destination, body or value, headers (map), priority, persistent."""
    destination = row.get("destination") or options.destination
    if not destination:
        raise PipelineError("a row has no destination")
    body = row.get("body", row.get("value"))
    if body is None and row.get("body_ref") and options.bodies:
        body = read_whole(os.path.join(options.bodies, row["body_ref"]))
    if body is None and row.get("body_ref"):
        raise PipelineError(
            f"message {row.get('message_id')} has its body elsewhere: read it with option bodies=inline"
        )
    headers = {name: value for name, value in (row.get("headers") or ()) if name not in _DROPPED and value is not None}
    headers["persistent"] = "false" if row.get("persistent") is False else "true"
    if row.get("priority") is not None:
        headers["priority"] = str(row["priority"])
    return destination, body.encode() if isinstance(body, str) else body or b"", headers


class StampedeWriter(DataSourceArrowWriter):
    """One write. Ids hold an id of the job, which all attempts of its tasks share."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> Sent:
        return _send(self.options, f"{self.options.write_id}/{TaskContext.get().partitionId()}", iterator)


class StampedeStreamWriter(DataSourceStreamArrowWriter):
    """Of a streaming query: ids hold the query's id and the number of its batch, so that a replayed batch is known."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> Sent:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise PipelineError("this Spark does not say which batch it runs: PySpark 4.2 or later is needed")
        return _send(self.options, f"{query}/{batch}/{context.partitionId()}", iterator)
