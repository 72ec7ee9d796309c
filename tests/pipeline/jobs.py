"""What tests have Spark do: functions (spark, …) that run in the process of host.py."""

from __future__ import annotations

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
    return [(p["batchId"], p["numInputRows"]) for p in query.recentProgress if p["numInputRows"]]


def parquet_ids(spark: Any, folder: str) -> list[str]:
    return [row.message_id for row in spark.read.parquet(f"{folder}/out").collect()]


def write_stream(spark: Any, read: dict[str, str], write: dict[str, str], folder: str) -> None:
    query = (
        spark.readStream.format("stampede").options(**read).load()
        .writeStream.format("stampede").options(**write).option("checkpointLocation", f"{folder}/check")
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()


def write(spark: Any, rows: list[tuple[Any, ...]], schema: str, options: dict[str, str]) -> None:
    spark.createDataFrame(rows, schema).write.format("stampede").mode("append").options(**options).save()
