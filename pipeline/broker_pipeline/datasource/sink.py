"""Writing to a broker from Spark, each row once: as transactions of rows that are the same on every attempt.

A task that is tried again, a speculative one and a batch that is replayed send the same transactions: 500 rows, in the
order of the partition. The first row for each destination bears `_AMQ_DUPL_ID` `<query>/<batch>/<partition>/<rows>`;
the broker drops a whole transaction of which it knows an id. So it remembers one id where it would remember 500, and
there is one receipt. Rows of a group (JMSXGroupID) may be kept elsewhere, so they bear ids of their own.

With `idColumn` an id is the row's, whatever else it is sent with: such rows are sent one by one.

Rule: a task has succeeded when every receipt has come. BEGIN says how many ids the task counts on: an address that
remembers fewer refuses it before it has a row that could come twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from broker.seams.entropy import token

from ..errors import PipelineError
from ..options import ca_file, lowered, stomp_url
from ..store.notes import KEY
from .sending import Sending, WriteOptions, packed, send, unpacked


@dataclass
class Sent(WriterCommitMessage):
    """What one task has had confirmed; or, for the driver to send, its rows. prefix: of ids."""

    rows: int
    prefix: str = ""
    held: bytes = field(default=b"", repr=False)


def write_options(given: Mapping[str, str], columns: list[str]) -> WriteOptions:
    """Raises PipelineError."""
    options = lowered(given)
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
    atomic = options.get("atomic", "none")
    if atomic not in ("none", "task", "batch"):
        raise PipelineError(f"option atomic: {atomic!r} is none of none, task, batch")
    if atomic != "none" and (id_column or rate):
        other = "idColumn" if id_column else "rate"
        raise PipelineError(
            f"option atomic={atomic} sends one transaction, which option {other} cannot divide: choose one"
        )
    return WriteOptions(
        stomp_url(options), destination, id_column, options.get("writeid", "") or token(8), window, rate,
        options.get("ledger", ""), options.get("bodies", ""), atomic, ca_file(options),
    )  # fmt: skip


def _write(options: WriteOptions, prefix: str, partition: int, batches: Iterator[Any]) -> Sent:
    if options.atomic == "batch":
        rows, held = packed(batches)
        return Sent(rows, prefix, held)
    return Sent(send(options, Sending(f"{prefix}/{partition}", options.atomic == "task"), batches))


def _commit(options: WriteOptions, messages: list[WriterCommitMessage | None]) -> None:
    """In the driver, when all tasks have succeeded."""
    held = [message for message in messages if isinstance(message, Sent) and message.held]
    if held:
        send(options, Sending(held[0].prefix, True), unpacked([message.held for message in held]))


class StampedeWriter(DataSourceArrowWriter):
    """One write. Ids hold an id of the job, which all attempts of its tasks share."""

    def __init__(self, options: WriteOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[Any]) -> Sent:
        context = TaskContext.get()
        options = replace(self.options, ledger_key=context.getLocalProperty(KEY) or "")
        return _write(options, options.write_id, context.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _commit(self.options, messages)


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
        return _write(self.options, f"{query}/{batch}", context.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        _commit(self.options, messages)
