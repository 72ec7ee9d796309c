"""The data pipeline of Stampede on Spark: source, sink, archive, reports and replay (docs/pipeline.md).

    from broker_pipeline import register
    register(spark)
    spark.read.format("stampede").option("broker", "127.0.0.1:61690").option("addresses", "orders").load()

Rule: knows the broker's read API (gRPC) and its client (STOMP), never what is behind them. Spark is imported by the
functions that need it, so that what lists, verifies and describes archives works without Java.
"""

from __future__ import annotations

from typing import Any


def register(spark: Any) -> None:
    """Makes `format("stampede")` known to a Spark session."""
    from .datasource.source import StampedeSource

    spark.dataSource.register(StampedeSource)


__all__ = ["register"]
