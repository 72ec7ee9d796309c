"""`format("stampede")`: the log of a broker as a table and as a stream; and a place to write to (sink.py).

Rule: exactly once by offsets: what a batch reads is said by its start and end alone, so that it reads the same when it
is run again. `commit` comes after the batch is safe, and only it moves the archive's watermark.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from broker.core.strict_numbers import natural

from ..errors import PipelineError
from ..log.ranges import Offsets, Range, SlotInfo, Split, at, between, capped, earliest, latest, parse
from ..log.reads import LogReads
from ..log.replicas import Described
from ..options import ReadOptions, consume_options, consumes, read_options
from .consume import StampedeConsumer
from .records import Decoder
from .rows import SCHEMA, TEXT, VIEW
from .sink import StampedeStreamWriter, StampedeWriter, write_options


class Task(InputPartition):
    """One task's share."""

    def __init__(self, split: Split) -> None:
        super().__init__(split)


class StampedeSource(DataSource):
    """See docs/pipeline.md for options and columns."""

    @classmethod
    def name(cls) -> str:
        return "stampede"

    def schema(self) -> str:
        text = TEXT if self.options.get("text", "false").lower() == "true" else ""
        return SCHEMA + text + (VIEW if self.options.get("view") == "log" else "")

    def reader(self, schema: Any) -> DataSourceReader:
        if consumes(self.options):
            raise PipelineError(
                "mode=consume takes messages away when Spark has committed them, and a batch read commits nothing: use "
                "spark.readStream (with trigger(availableNow=True) it ends), or read the log without mode=consume"
            )
        return StampedeReader(read_options(self.options))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        if consumes(self.options):
            return StampedeConsumer(consume_options(self.options))
        return StampedeStreamReader(read_options(self.options))

    def writer(self, schema: Any, overwrite: bool) -> StampedeWriter:
        if overwrite:
            raise PipelineError("a broker cannot be overwritten: use mode('append')")
        return StampedeWriter(write_options(self.options, schema.fieldNames()))

    def streamWriter(self, schema: Any, overwrite: bool) -> StampedeStreamWriter:
        return StampedeStreamWriter(write_options(self.options, schema.fieldNames()))


def _resolve(reads: LogReads, text: str, infos: Mapping[int, SlotInfo]) -> Offsets:
    """earliest | latest | @ms | JSON → offsets."""
    if text == "earliest":
        return earliest(infos.values())
    if text == "latest":
        return latest(infos.values())
    if text.startswith("@") and (then := natural(text[1:])) is not None:
        found = reads.lookup(then, infos)
        return {
            str(slot): at(info, min(max(found.get(slot, info.end), info.earliest), info.end))
            for slot, info in infos.items()
        }
    return parse(text)


def _read(options: ReadOptions, split: Split) -> Iterator[Any]:
    """In a worker. Where there is nothing to read Spark makes a partition of its own, of None: an empty split."""
    with LogReads(options.access, split.endpoints) as reads:
        parts = {part.slot: part for part in split.ranges}

        def large(slot: int, offset: int, reference: str, message: str) -> tuple[bytes | None, str]:
            return _large(reads, parts[slot], offset, reference, message, options.bodies)

        decoder = Decoder(options.view, options.include_body, options.text, large)
        for batch in reads.scan(
            split.ranges, addresses=options.addresses, view=options.view, since_ms=options.since_ms,
            before_ms=options.before_ms,
        ):  # fmt: skip
            decoder.learn(batch.queues)
            yield from decoder.add(batch.records)
        yield from decoder.rest()


def _large(
    reads: LogReads, part: Range, offset: int, reference: str, message: str, where: str
) -> tuple[bytes | None, str]:
    """A large body stays where it is, comes into the row, or into a file that appears whole or not at all."""
    if where == "ref":
        return None, reference
    if where == "inline":
        return b"".join(reads.body(part, offset, reference)), ""
    name = f"{message}.body"
    path = os.path.join(where, name)
    if not os.path.exists(path):
        from ..store.files import write_pieces

        write_pieces(path, reads.body(part, offset, reference))
    return None, f"bodies/{name}"


EVENTS: Final = ("ENQUEUED", "DELIVERED", "ACKED", "NACKED", "EXPIRED", "DEAD_LETTERED", "PURGED")


NOT_RECORDED: Final = (
    "no address of those asked for records when messages are handed out, so there is no event DELIVERED: set "
    "`record_deliveries: true` for it (docs/pipeline.md). What a consumer settled is ACKED, and a delivery in vain is "
    "NACKED with its `attempt`, everywhere"
)


def _check_event(name: Any) -> None:
    """Who asks for an event that there is none of would get an empty answer and believe it. Raises PipelineError."""
    if isinstance(name, str) and name not in EVENTS:
        raise PipelineError(f"there is no event {name[:40]!r}; there are {', '.join(EVENTS)}")


def _milliseconds(value: Any) -> int:
    return int(value.timestamp() * 1000)


class StampedeReader(DataSourceReader):
    """A batch: from `startingOffsets` to `endingOffsets`, as they are when it is planned."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.addresses: tuple[str, ...] = options.addresses
        self.since, self.before = options.since_ms, options.before_ms
        self.deliveries = False
        """Rows of event DELIVERED are asked for by name."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Address and time go to the broker; Spark looks again at times, whose fractions the broker does not know."""
        for each in filters:
            match each:
                case EqualTo(attribute=("address",), value=str(name)) if not self.addresses and name:
                    self.addresses = (name,)
                    continue
                case EqualTo(attribute=("event",), value=name):
                    self._event(name)
                case In(attribute=("event",), value=names):
                    for name in names:
                        self._event(name)
                case GreaterThanOrEqual(attribute=("ts",), value=value) if hasattr(value, "timestamp"):
                    self.since = max(self.since, _milliseconds(value))
                case LessThan(attribute=("ts",), value=value) if hasattr(value, "timestamp"):
                    bound = _milliseconds(value) + 1
                    self.before = min(self.before or bound, bound)
                case _:
                    pass
            yield each

    def _event(self, name: Any) -> None:
        _check_event(name)
        self.deliveries = self.deliveries or name == "DELIVERED"

    def partitions(self) -> Sequence[InputPartition]:
        options = self.options
        with LogReads(options.access) as reads:
            described = reads.plan(self.addresses, options.view)
            if not options.start.startswith("{"):  # who gives offsets has read them before
                reads.require(described, options.addresses)
            if self.deliveries and not described.deliveries:
                raise PipelineError(NOT_RECORDED)
            infos = described.infos
            start, end = _resolve(reads, options.start, infos), _resolve(reads, options.end, infos)
        ranges = between(start, {slot: place for slot, place in end.items() if int(slot) in infos}, infos)
        return [Task(split) for split in described.tasks(ranges, options.split_rows)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from dataclasses import replace

        options = replace(self.options, addresses=self.addresses, since_ms=self.since, before_ms=self.before)
        return _read(options, partition.value or Split())


class StampedeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. Spark's checkpoint holds the offsets; slots that come into use later begin at their first one."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._reads: LogReads | None = None
        self._target: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_reads": None, "_target": None}

    def _plan(self) -> Described:
        if self._reads is None:
            self._reads = LogReads(self.options.access)
        return self._reads.plan(self.options.addresses, self.options.view)

    def _describe(self) -> dict[int, SlotInfo]:
        return self._plan().infos

    def initialOffset(self) -> Offsets:
        described = self._plan()
        assert self._reads is not None
        self._reads.require(described, self.options.addresses)
        return _resolve(self._reads, self.options.start, described.infos)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self.options.max_rows) if self.options.max_rows else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = latest(self._describe().values())

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        from dataclasses import replace

        infos = self._describe()
        if self._target is not None:
            infos = {
                slot: replace(info, end=min(info.end, self._target[str(slot)]["o"]))
                for slot, info in infos.items()
                if str(slot) in self._target
            }
        return capped(start, infos.values(), limit.max_rows if isinstance(limit, ReadMaxRows) else 0)

    def reportLatestOffset(self) -> Offsets:
        return latest(self._describe().values())

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        described = self._plan()
        ranges = between(start, end, described.infos)
        return [Task(split) for split in described.tasks(ranges, self.options.split_rows)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _read(self.options, partition.value or Split())

    def commit(self, end: Offsets) -> None:
        if self.options.archive:
            if self._reads is None:
                self._reads = LogReads(self.options.access)
            self._reads.watermark(self.options.archive, {int(slot): place["o"] for slot, place in end.items()})

    def stop(self) -> None:
        if self._reads is not None:
            self._reads.close()
            self._reads = None
