"""Archives kept in order: compaction, retention, deletion of named messages.

Rule: as every change of an archive, each is one manifest, and the files it takes away go behind it. A reader that holds
an older list may find a file gone and asks for the list again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from broker.seams.clock import SystemClock

from ..progress import Progress, Say, tasks
from ..store.manifests import Archive, DataFile, Manifest, State
from ..store.stores import Lock
from .archive import stage


def _next(state: State, kind: str, adds: Iterable[DataFile], removes: Iterable[str]) -> Manifest:
    assert state.last is not None
    now = SystemClock().wall_ms()
    return replace(
        state.last, number=state.number + 1, made_ms=now, adds=tuple(adds), removes=tuple(sorted(removes)), kind=kind
    )


def _locked(folder: str, spark: Any = None) -> tuple[Archive, Lock, State]:
    archive = Archive(folder, spark)
    archive.existing()  # before a lock makes its folder
    lock = archive.lock()
    state = archive.load()
    archive.clean(state)
    return archive, lock, state


def _finish(archive: Archive, manifest: Manifest, moves: dict[str, str]) -> None:
    archive.publish(manifest, moves)
    archive.clean(archive.load())


def retain(folder: str, before: str, spark: Any = None) -> int:
    """Takes away everything of days before `before` (YYYY-MM-DD), large bodies as well. Returns the number of rows."""
    archive, lock, state = _locked(folder, spark)
    try:
        old = [file for file in state.files.values() if file.date < before]
        if old:
            _finish(archive, _next(state, "retain", (), [file.path for file in old]), {})
        return sum(file.rows for file in old)
    finally:
        lock.close()


def compact(spark: Any, folder: str, say: Say, least: int = 4) -> int:
    """Where an hour of an address has `least` files or more they become one, sorted. Returns how many hours."""
    archive, lock, state = _locked(folder, spark)
    try:
        groups: dict[tuple[str, str, str, str], list[DataFile]] = defaultdict(list)
        for file in state.files.values():
            groups[file.view, file.address, file.date, file.hour].append(file)
        small = [files for files in groups.values() if len(files) >= least]
        for done, files in enumerate(small, 1):
            rows = spark.read.parquet(*(archive.path(file.path) for file in files))
            with tasks(spark, say, "of an hour compacted"):
                _rewrite(spark, archive, state, files, rows, "compact")
            state = archive.load()
            lock.renew()
            say(f"compacted {done} of {len(small)} hours")
        return len(small)
    finally:
        lock.close()


class Deleted(NamedTuple):
    rows: int
    absent: list[str]
    """Ids of whom the archive has no message and no event."""


def delete(spark: Any, folder: str, ids: Iterable[str], say: Say) -> Deleted:
    """Takes messages out of the archive, with their events and large bodies."""
    from pyspark.sql import functions as f

    wanted = list(dict.fromkeys(ids))
    archive, lock, state = _locked(folder, spark)
    gone, met = 0, set()
    try:
        held = list(state.files.values())
        progress = Progress(say, len(held), "files looked at")
        for done, file in enumerate(held):
            progress.at(done)
            rows = spark.read.parquet(archive.path(file.path))
            hits = rows.where(f.col("message_id").isin(wanted)).groupBy("message_id").count().collect()
            if hits:
                _rewrite(spark, archive, state, [file], rows.where(~f.col("message_id").isin(wanted)), "delete")
                state = archive.load()
                gone += sum(hit["count"] for hit in hits)
                met |= {hit["message_id"] for hit in hits}
        for each in wanted:
            if "/" not in each:
                archive.store.remove(f"bodies/{each}.body")
        return Deleted(gone, [each for each in wanted if each not in met])
    finally:
        lock.close()


def _rewrite(spark: Any, archive: Archive, state: State, files: list[DataFile], rows: Any, kind: str) -> None:
    """Other files of the same hour in the place of these."""
    from pyspark.sql import functions as f

    first = files[0]
    # The hour a row is filed under must not change, also when it has no time.
    filed = f.to_timestamp(f.lit(f"{first.date} {first.hour}:00:00"))
    rows = rows.coalesce(1).sortWithinPartitions("slot", "offset", "index")
    number = state.number + 1
    ms = int(spark.range(1).select(f.unix_millis(filed).alias("ms")).collect()[0]["ms"])
    staged = stage(spark, archive, rows.withColumn("view", f.lit(first.view)), number, ms)
    manifest = _next(state, kind, [file for file, _ in staged], [file.path for file in files])
    _finish(archive, manifest, {path: file.path for file, path in staged if path})
