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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from broker.seams.clock import SystemClock

from ..advice import LOST_WORKER, lost_worker
from ..errors import PipelineError
from ..log.ranges import Offsets, Range, SlotInfo, capped_at, earliest
from ..log.reads import LogReads
from ..options import access, lowered
from ..progress import Progress, Say, tasks
from ..store.hadoop import HadoopStore
from ..store.manifests import Archive, DataFile, Manifest, State

VIEWS: Final = ("messages", "events")
ROUND_ITEMS: Final = 2_000_000
"""Log items of one manifest: what is read again when a run is killed."""

TASKS_PER_CORE: Final = 2
LEAST_ITEMS: Final = 1_000
"""Of a task: fewer are not worth their files."""
MOST_ITEMS: Final = 200_000
MOST_LOST: Final = 3
"""Sessions in a row that lose their Python processes: then there is no room for them."""


@dataclass(frozen=True)
class Job:
    """source: options of format("stampede"), broker and credentials among them. name: of the watermark."""

    folder: str
    source: dict[str, str]
    name: str = "archive"
    round_items: int = ROUND_ITEMS


def run(spark: Any, job: Job, say: Say) -> int:
    """Everything there is now. Returns the number of rows. Raises PipelineError."""
    archive = Archive(job.folder, spark)
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
                reads.require(plan, scope)
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
                manifest = _round(spark, archive, state, job, broker, infos, end, reads, say)
                lock.renew()
                rows += sum(file.rows for file in manifest.adds)
                state = archive.load()
                archive.clean(state)
                _mark(reads, job.name, end, say)
                left = sum(max(info.end - end[str(slot)]["o"], 0) for slot, info in infos.items())
                say(f"archived {rows} rows; {left} log items to go")
        return rows
    finally:
        lock.close()


def run_on(begin: Callable[[], Any], job: Job, rest: Callable[[], bool], say: Say) -> None:
    """Run after run, until rest() says that it is enough. begin: makes a session.

    Where Spark's Python processes were ended (by the system, when memory is short), the session fails as often as there
    were some: another one goes on, unless that happens to it as well."""
    spark, lost = begin(), 0
    try:
        while True:
            try:
                say(f"{run(spark, job, say)} rows archived")
                lost = 0
            except Exception as error:
                lost += 1
                if not lost_worker(str(error)) or lost == MOST_LOST:
                    raise
                say(f"{LOST_WORKER.partition(':')[0]}; another session goes on where the last manifest ends")
                spark.stop()
                spark = begin()
                continue
            if rest():
                return
    finally:
        spark.stop()


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
    spark: Any,
    archive: Archive,
    state: State,
    job: Job,
    broker: str,
    infos: dict[int, SlotInfo],
    end: Offsets,
    reads: LogReads,
    say: Say,
) -> Manifest:
    """One manifest: from where the last one ended to `end`."""
    number = state.number + 1
    start = _start(state, infos)
    now_ms = SystemClock().wall_ms()
    adds: list[DataFile] = []
    moves: dict[str, str] = {}
    options = job.source | {"view": "log", "startingOffsets": json.dumps(start), "endingOffsets": json.dumps(end)}
    if not archive.store.remote:
        os.makedirs(archive.path("bodies"), exist_ok=True)
        options["bodies"] = archive.path("bodies")
    options.setdefault("rowsPerSplit", str(_items_of_a_task(start, end, spark.sparkContext.defaultParallelism)))
    rows = spark.read.format("stampede").options(**options).load()
    large = None
    if archive.store.remote:
        rows, large = named_bodies(rows)
    with tasks(spark, say, "of this round archived"):
        staged_files = stage(spark, archive, rows, number, now_ms)
    for file, staged in staged_files:
        adds.append(file)
        if staged:
            moves[staged] = file.path
    if large is not None:
        _fetch(archive, reads, large.get["refs"], infos, say)
    ends = dict.fromkeys(VIEWS, end)
    manifest = Manifest(number, broker, now_ms, ends, _scope(job), tuple(adds))
    archive.publish(manifest, moves)
    return manifest


def _items_of_a_task(start: Offsets, end: Offsets, cores: int) -> int:
    """An item may be hundreds of messages that were sent at once, so their number says little of the work: every core
    has a few tasks, if there is anything to divide."""
    items = sum(place["o"] - start.get(slot, place)["o"] for slot, place in end.items())
    return min(max(-(-items // (cores * TASKS_PER_CORE)), LEAST_ITEMS), MOST_ITEMS)


def stage(spark: Any, archive: Archive, rows: Any, number: int, now_ms: int) -> list[tuple[DataFile, str]]:
    """Writes rows, which have a column `view`; (what each file will be, where it waits, "": it is in its place)."""
    from pyspark.sql import functions as f

    # An event may have no time: it is filed under the hour in which it was archived, and its time stays null.
    when = f.coalesce(f.col("ts"), f.timestamp_millis(f.lit(now_ms)))
    name = archive.begin(number)
    (
        rows.withColumnRenamed("view", "_view")
        .withColumn("_address", f.hex(f.encode("address", "UTF-8")))
        .withColumn("_date", f.date_format(when, "yyyy-MM-dd"))
        .withColumn("_hour", f.date_format(when, "HH"))
        .write.partitionBy("_view", "_address", "_date", "_hour")
        .option("compression", "zstd")
        .parquet(archive.path(name))
    )
    if isinstance(archive.store, HadoopStore):
        return _in_place(spark, archive.store, name)
    found = sorted(Path(archive.path(name)).rglob("*.parquet"))
    return [_file(staged, f"{number:012d}-{n}") for n, staged in enumerate(found)]


def named_bodies(rows: Any) -> tuple[Any, Any]:
    """Rows whose `body_ref` says where their large bodies will be; and what tells of those once rows are written."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    large = f.col("body_ref").isNotNull()
    seen = Observation("large bodies")
    refs = f.collect_list(f.when(large, f.struct("slot", "offset", "body_ref", "message_id"))).alias("refs")
    name = f.concat(f.lit("bodies/"), f.col("message_id"), f.lit(".body"))
    return rows.observe(seen, refs).withColumn("body_ref", f.when(large, name)), seen


def _fetch(archive: Archive, reads: LogReads, large: list[Any], infos: dict[int, SlotInfo], say: Say) -> None:
    """Large bodies into the store, by the driver: workers do not reach it."""
    progress = Progress(say, len(large), "large bodies archived")
    for done, row in enumerate(large):
        progress.at(done)
        name = f"bodies/{row['message_id']}.body"
        part = Range(row["slot"], row["offset"], row["offset"] + 1, 0, infos[row["slot"]].endpoint)
        if not archive.store.exists(name):
            archive.store.write(name, reads.body(part, row["offset"], row["body_ref"]))


def _in_place(spark: Any, store: HadoopStore, folder: str) -> list[tuple[DataFile, str]]:
    """Files that stay where Spark has written them."""
    sizes = {path: size for path, size in store.files(folder) if path.endswith(".parquet")}
    if not sizes:
        return []
    # By path: files of one task have the same name in every folder.
    counted = spark.read.parquet(store.path(folder)).groupBy("_metadata.file_path").count().collect()
    rows = {row["file_path"].partition(f"/{folder}/")[2]: row["count"] for row in counted}
    return [(_described(path, f"{folder}/{path}", rows.get(path, 0), size), "") for path, size in sorted(sizes.items())]


def _described(staged: str, path: str, rows: int, nbytes: int) -> DataFile:
    parts = dict(part.partition("=")[::2] for part in staged.split("/") if part.startswith("_") and "=" in part)
    encoded = parts["_address"]
    address = "" if encoded.startswith("__HIVE") else bytes.fromhex(encoded).decode()
    return DataFile(path, parts["_view"], address, parts["_date"], parts["_hour"], rows, nbytes)


def _file(staged: Path, name: str) -> tuple[DataFile, str]:
    import pyarrow.parquet as pq

    file = _described(str(staged), "", pq.read_metadata(staged).num_rows, staged.stat().st_size)
    folder = f"{file.view}/address={quote(file.address, safe='') or '_'}/date={file.date}/hour={file.hour}"
    return replace(file, path=f"data/{folder}/{name}.parquet"), str(staged)
