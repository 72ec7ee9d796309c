"""The archive: the log of a broker as Parquet by address, date and hour, each row once.

A run asks what there is, reads from where the last manifest ended, and publishes one manifest; then it moves the
broker's watermark, which therefore never is ahead of what is safe. Messages and events end at the same offsets.

Rule: only a manifest makes anything true (manifests.py). A run that dies leaves files that nobody reads and the next
run removes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from broker.seams.clock import SystemClock

from .errors import PipelineError
from .manifests import Archive, DataFile, Manifest, State
from .options import access, lowered
from .ranges import Offsets, SlotInfo, capped_at, earliest
from .reads import LogReads

VIEWS: Final = ("messages", "events")
ROUND_ITEMS: Final = 2_000_000
"""Log items of one manifest: what is read again when a run is killed."""

Say = Callable[[str], object]


@dataclass(frozen=True)
class Job:
    """source: options of format("stampede"), broker and credentials among them. name: of the watermark."""

    folder: str
    source: dict[str, str]
    name: str = "archive"
    round_items: int = ROUND_ITEMS


def run(spark: Any, job: Job, say: Say) -> int:
    """Everything there is now. Returns the number of rows. Raises PipelineError."""
    archive = Archive(job.folder)
    lock = archive.lock()
    try:
        state = archive.load()
        archive.clean(state)
        scope = _scope(job)
        with LogReads(access(lowered(job.source))) as reads:
            plan = reads.plan(scope, "log")
            broker, infos = plan.broker, plan.infos
            _check(state, broker, scope, job.folder)
            if state.last is None:
                # Else what there is now may be freed before the first manifest is written.
                _mark(reads, job.name, _start(state, infos), say)
                plan = reads.plan(scope, "log")
                infos = plan.infos
            rows = 0
            while True:
                start = _start(state, infos)
                end = capped_at(start, infos, plan.cuts, job.round_items)
                if end == start:
                    break
                manifest = _round(spark, archive, state, job, broker, infos, end)
                rows += sum(file.rows for file in manifest.adds)
                state = archive.load()
                archive.clean(state)
                _mark(reads, job.name, end, say)
                left = sum(max(info.end - end[str(slot)]["o"], 0) for slot, info in infos.items())
                say(f"archived {rows} rows; {left} log items to go")
        return rows
    finally:
        lock.close()


def _scope(job: Job) -> tuple[str, ...]:
    return tuple(part.strip() for part in job.source.get("addresses", "").split(",") if part.strip())


def _check(state: State, broker: str, scope: tuple[str, ...], folder: str) -> None:
    if state.last is None:
        return
    if state.last.broker != broker:
        raise PipelineError(
            f"{folder} is the archive of broker {state.last.broker}, and this is {broker}: their offsets have nothing "
            "to do with each other; use another folder"
        )
    if state.last.scope != scope:
        raise PipelineError(
            f"{folder} is the archive of the addresses {', '.join(state.last.scope) or 'all'}: others would begin in "
            "the middle; use another folder"
        )


def _start(state: State, infos: dict[int, SlotInfo]) -> Offsets:
    start = earliest(infos.values())
    return start | dict(state.last.ends["messages"]) if state.last is not None else start


def _mark(reads: LogReads, name: str, end: Offsets, say: Say) -> None:
    try:
        reads.watermark(name, {int(slot): place["o"] for slot, place in end.items()})
    except PipelineError as error:
        say(f"the watermark could not be moved, what is archived is safe: {error}")


def _round(
    spark: Any, archive: Archive, state: State, job: Job, broker: str, infos: dict[int, SlotInfo], end: Offsets
) -> Manifest:
    """One manifest: from where the last one ended to `end`."""
    number = state.number + 1
    start = _start(state, infos)
    now_ms = SystemClock().wall_ms()
    adds: list[DataFile] = []
    moves: dict[str, str] = {}
    os.makedirs(archive.path("bodies"), exist_ok=True)
    options = job.source | {
        "view": "log", "startingOffsets": json.dumps(start), "endingOffsets": json.dumps(end),
        "bodies": archive.path("bodies"),
    }  # fmt: skip
    rows = spark.read.format("stampede").options(**options).load()
    for file, staged in stage(spark, archive, rows, number, now_ms):
        adds.append(file)
        moves[staged] = file.path
    ends = dict.fromkeys(VIEWS, end)
    manifest = Manifest(number, broker, now_ms, ends, _scope(job), tuple(adds))
    archive.publish(manifest, moves)
    return manifest


def stage(spark: Any, archive: Archive, rows: Any, number: int, now_ms: int) -> list[tuple[DataFile, str]]:
    """Writes rows, which have a column `view`, into the staging folder; (what each file will be, where it is)."""
    from pyspark.sql import functions as f

    # An event may have no time: it is filed under the hour in which it was archived, and its time stays null.
    when = f.coalesce(f.col("ts"), f.timestamp_millis(f.lit(now_ms)))
    folder = f"{archive.staging(number)}/data"
    (
        rows.withColumnRenamed("view", "_view")
        .withColumn("_address", f.hex(f.encode("address", "UTF-8")))
        .withColumn("_date", f.date_format(when, "yyyy-MM-dd"))
        .withColumn("_hour", f.date_format(when, "HH"))
        .write.partitionBy("_view", "_address", "_date", "_hour")
        .option("compression", "zstd")
        .parquet(folder)
    )
    return [_file(staged, f"{number:012d}-{n}") for n, staged in enumerate(sorted(Path(folder).rglob("*.parquet")))]


def _file(staged: Path, name: str) -> tuple[DataFile, str]:
    import pyarrow.parquet as pq

    parts = dict(part.partition("=")[::2] for part in staged.parts if part.startswith("_") and "=" in part)
    encoded = parts["_address"]
    address = "" if encoded.startswith("__HIVE") else bytes.fromhex(encoded).decode()
    view, date, hour = parts["_view"], parts["_date"], parts["_hour"]
    folder = f"data/{view}/address={quote(address, safe='') or '_'}/date={date}/hour={hour}"
    rows = pq.read_metadata(staged).num_rows
    file = DataFile(f"{folder}/{name}.parquet", view, address, date, hour, rows, staged.stat().st_size)
    return file, str(staged)
