"""Consume mode: `spark.readStream.format("stampede").option("mode", "consume")` takes messages out of a queue.

A batch is written (batch_log.py) before Spark hears of it; its messages are acknowledged when Spark says that it has
committed it. Whatever is killed meanwhile: Spark plays the batch again from the same file, or the broker gives the
messages again and they are known.

Rule: nothing is acknowledged before Spark has committed it, nor because of anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ..options import ConsumeOptions
from . import batch_log
from .queue_consumer import QueueConsumer
from .rows import taken_table

WAIT_S = 0.5
"""For a first message, while the stream has nothing to do."""


class Piece(InputPartition):
    """Parts `first` to `last` of a batch's file."""

    def __init__(self, path: str, first: int, last: int) -> None:
        super().__init__((path, first, last))


class StampedeConsumer(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are numbers of batches. One consumer, in the driver; rows reach the workers by the batch's file."""

    def __init__(self, options: ConsumeOptions) -> None:
        self.options = options
        self._ahead: batch_log.BatchLog | None = None
        self._queue_consumer: QueueConsumer | None = None
        self._wait_s = WAIT_S

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_ahead": None, "_queue_consumer": None, "_wait_s": WAIT_S}

    def _batches(self) -> batch_log.BatchLog:
        if self._ahead is None:
            made = batch_log.BatchLog(self.options.ahead, self.options.place)
            made.open()
            self._ahead = made
        return self._ahead

    def _consumer(self) -> QueueConsumer:
        if self._queue_consumer is None:
            self._queue_consumer = QueueConsumer(self.options, self._batches())
        return self._queue_consumer

    def initialOffset(self) -> dict[str, Any]:
        return self._batches().offset(0)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._wait_s = self.options.quiet_s

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        batches = self._batches()
        number = batches.number(start)
        batches.check(number)
        self._committed(number)
        if number < batches.newest:
            return batches.offset(number + 1)
        most = self.options.max_rows
        if isinstance(limit, ReadMaxRows) and not isinstance(limit, ReadAllAvailable):
            most = min(most, limit.max_rows)
        taken = self._consumer().take(most, self._wait_s)
        return batches.offset(batches.write(taken_table(taken, self.options.text)) if taken else number)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        batches = self._batches()
        found: list[InputPartition] = []
        step = max(self.options.split_rows // batch_log.PIECE_ROWS, 1)
        for path in batches.paths(batches.number(start), batches.number(end)):
            count = batch_log.pieces(path)
            found += [Piece(path, at, min(at + step, count)) for at in range(0, count, step)]
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition.value is None:
            return iter(())
        return batch_log.part(*partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        self._committed(self._batches().number(end))

    def _committed(self, number: int) -> None:
        """Everything up to this batch is in Spark's commit log. It says so by `commit`, but of a last batch only when
        there is another one; and it asks what comes behind a batch when that is committed, never before."""
        batches = self._batches()
        if number > batches.done:
            batches.commit(number)
            self._consumer().settle()
            batches.tidy()

    def stop(self) -> None:
        if self._queue_consumer is not None:
            self._queue_consumer.close()
            self._queue_consumer = None
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None
