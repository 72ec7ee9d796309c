"""What tests have Spark do: functions (spark, …) that run in the process of host.py."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any


def _reader(spark: Any, options: dict[str, str]) -> Any:
    return spark.read.format("stampede").options(**options)


def ids(spark: Any, options: dict[str, str], where: str = "true") -> list[str]:
    return [
        row.message_id
        for row in _reader(spark, options).load().where(where).orderBy("slot", "offset", "index").collect()
    ]


def rows(spark: Any, options: dict[str, str], where: str) -> list[dict[str, Any]]:
    return [
        row.asDict() for row in _reader(spark, options).load().where(where).orderBy("slot", "offset", "index").collect()
    ]


def stream(spark: Any, options: dict[str, str], folder: str) -> list[tuple[int, int]]:
    """Drains into Parquet; (batch, rows) of every batch."""
    query = (
        spark.readStream.format("stampede").options(**options).load()
        .writeStream.format("parquet").option("path", f"{folder}/out").option("checkpointLocation", f"{folder}/check")
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    if query.exception() is not None:
        raise query.exception()
    assert all(p["sources"][0]["endOffset"] for p in query.recentProgress if p["numInputRows"])
    return [(p["batchId"], p["numInputRows"]) for p in query.recentProgress if p["numInputRows"]]


def stream_until(spark: Any, options: dict[str, str], folder: str, rows: int) -> list[str | None]:
    """By a trigger of time, until there are so many rows; up to where the broker was, of each batch that had some."""
    query = (
        spark.readStream.format("stampede").options(**options).load()
        .writeStream.format("parquet").option("path", f"{folder}/out").option("checkpointLocation", f"{folder}/check")
        .trigger(processingTime="100 milliseconds").start()
    )  # fmt: skip
    end = time.monotonic() + 300
    try:
        while sum(p["numInputRows"] for p in query.recentProgress) < rows:
            assert query.isActive and time.monotonic() < end, query.exception()
            time.sleep(0.1)
        return [p["sources"][0]["latestOffset"] for p in query.recentProgress if p["numInputRows"]]
    finally:
        query.stop()


def parquet_ids(spark: Any, folder: str) -> list[str]:
    return [row.message_id for row in spark.read.parquet(f"{folder}/out").collect()]


def parquet_bodies(spark: Any, folder: str) -> list[bytes]:
    return [bytes(row.body) for row in spark.read.parquet(f"{folder}/out").collect()]


def write_stream(spark: Any, read: dict[str, str], write: dict[str, str], folder: str) -> None:
    query = (
        spark.readStream.format("stampede").options(**read).load()
        .writeStream.format("stampede").options(**write).option("checkpointLocation", f"{folder}/check")
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()


def write(spark: Any, rows: list[tuple[Any, ...]], schema: str, options: dict[str, str], parts: int = 1) -> None:
    frame = spark.createDataFrame(rows, schema)
    if parts > 1:
        frame = frame.repartitionByRange(parts, "n")
    frame.write.format("stampede").mode("append").options(**options).save()


def archive(spark: Any, folder: str, source: dict[str, str], round_items: int = 500_000) -> int:
    from broker_pipeline.jobs.archive import Job, run

    return run(spark, Job(folder, source, round_items=round_items), print)


def archive_on(spark: Any, folder: str, source: dict[str, str], round_items: int, enough: str) -> None:
    """As `--continuous` does, until the file `enough` is there. Ends the session."""
    from broker_pipeline.jobs.archive import Job, run_on
    from broker_pipeline.session import session

    made = {"spark.driver.port", "spark.app.id", "spark.app.startTime"}  # by a session, for itself
    conf = {name: value for name, value in spark.sparkContext.getConf().getAll() if name not in made}
    sessions = iter([spark])

    def begin() -> Any:
        return next(sessions, None) or session("local[1]", "512m", **conf)

    def rest() -> bool:
        time.sleep(0.2)
        return os.path.exists(enough)

    run_on(begin, Job(folder, source, round_items=round_items), rest, print)


def renew(spark: Any) -> None:
    """The session is a new one already (host.py)."""


def compact(spark: Any, folder: str, least: int) -> int:
    from broker_pipeline.jobs.upkeep import compact as merge

    return merge(spark, folder, print, least)


def delete(spark: Any, folder: str, ids: list[str]) -> tuple[int, list[str]]:
    from broker_pipeline.jobs.upkeep import delete as take_out

    return tuple(take_out(spark, folder, ids, print))


def replay(spark: Any, folder: str, source: dict[str, str], url: str, plan: dict[str, Any], dry: bool = False) -> Any:
    from broker_pipeline.jobs.replay import Plan, count
    from broker_pipeline.jobs.replay import replay as send

    if dry:
        return count(spark, folder, source, Plan(**plan), print)
    return send(spark, folder, source, url, Plan(**plan), 0, print)


def report(spark: Any, folder: str, out: str = "") -> dict[str, Any]:
    from broker_pipeline.jobs.report import report as gather

    found = gather(spark, folder, print)
    if out:
        found.write(out)
    return found.plain()


def rebuild(spark: Any, folder: str, url: str, at: str = "", dry: bool = False) -> Any:
    from broker_pipeline.jobs.rebuild import count
    from broker_pipeline.jobs.rebuild import rebuild as send

    return count(spark, folder, at, print) if dry else send(spark, folder, url, "one", at, 0, print)


def retain(spark: Any, folder: str, before: str) -> int:
    from broker_pipeline.jobs.upkeep import retain as take_out

    return take_out(folder, before, spark)


def live(spark: Any, folder: str, view: str) -> list[str]:
    from broker_pipeline.store.manifests import Archive, missing

    held = Archive(folder, spark)
    state = held.load()
    assert not missing(held, state)
    return held.live(view, state)


def settings(spark: Any, given: dict[str, str]) -> None:
    for name, value in given.items():
        spark.conf.set(name, value)


def read(spark: Any, folder: str, name: str) -> bytes:
    from broker_pipeline.store.stores import store

    return store(folder, spark).read(name)


def stored(spark: Any, folder: str, objects: bool) -> dict[str, Any]:
    """What a store of Spark's file systems does, step by step."""
    from broker_pipeline.errors import PipelineError
    from broker_pipeline.store import hadoop

    def said(what: Any) -> str:
        try:
            what()
        except (PipelineError, OSError) as error:
            return f"{type(error).__name__}: {error}"
        return "done"

    schemes = hadoop._OBJECTS
    if objects:
        hadoop._OBJECTS = schemes | {"viewfs"}  # type: ignore[misc]
    store = hadoop.HadoopStore(spark, folder)
    found: dict[str, Any] = {"none": store.names("manifests")}
    found["create"] = [said(partial(store.create, "manifests/1.json", each)) for each in (b"one", b"two")]
    found["read"] = store.read("manifests/1.json")
    store.write("bodies/a", [b"x" * 70_000, b"y"])
    found["body"] = len(store.read("bodies/a"))
    found["gone"] = said(lambda: store.read("bodies/b"))
    lock = store.lock()
    found["second"] = said(store.lock)
    lock.renew()
    lock.close()
    again = store.lock()
    hadoop.LEASE_MS = 0  # type: ignore[misc]
    try:
        other = store.lock()
    finally:
        hadoop.LEASE_MS = 900_000  # type: ignore[misc]
        hadoop._OBJECTS = schemes  # type: ignore[misc]
    found["lost"] = said(again.renew)
    again.close()
    found["kept"] = store.exists("_lease.json")
    other.close()
    store.remove("manifests")
    found["left"] = [name for name in store.names("") if not name.startswith("bodies")]
    found["scheme"] = said(lambda: hadoop.HadoopStore(spark, "gs://nowhere/lake"))
    return found


def notebook(spark: Any, path: str, env: dict[str, str]) -> list[dict[str, Any]]:
    """Runs the cells of a notebook, one after the other; what it calls `result`."""
    import json
    import os
    from pathlib import Path

    os.environ.update(env)
    names: dict[str, Any] = {}
    for cell in json.loads(Path(path).read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    spark.conf.set("spark.sql.shuffle.partitions", "1")  # the notebook's session is this one, with its settings
    found: list[dict[str, Any]] = names["result"].to_dict("records")
    return found
