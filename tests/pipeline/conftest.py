"""The pipeline on a real Spark, in a process of its own: what Spark leaves open is none of pytest's.

Without Java or PySpark the tests that need them are not collected, and test_here.py says so in one line."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.session import check_spark, java_home

from tests.harness import scratch

from .host import Host, Hosts


def missing() -> str:
    """What is not here."""
    try:
        check_spark()
        java_home()
    except PipelineError as error:
        return str(error)
    return "" if importlib.util.find_spec("duckdb") else "duckdb is not installed: make pipeline-extra"


WHY = missing()
if WHY:
    collect_ignore_glob = ["test_spark_*.py"]


@pytest.fixture(scope="session")
def sparks(request: pytest.FixtureRequest) -> Iterator[Hosts]:
    with scratch(request, "spark") as folder:
        hosts = Hosts(folder)
        try:
            yield hosts
        finally:
            hosts.close()


@pytest.fixture
def spark(sparks: Hosts) -> Host:
    """Shared with other tests, and alive: who kills it need not start another."""
    return sparks.host()
