"""Says in one line why there are no tests of Spark, and that nobody has to have it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from broker_pipeline.cli import cause

from .conftest import WHY

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(bool(WHY), reason=f"no tests of the pipeline: {WHY}")
def test_spark_is_here():
    pass


def test_the_broker_does_not_need_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    heavy = ("spark", "arrow", "pandas", "duckdb")
    assert not [need for need in project["dependencies"] if any(word in need for word in heavy)]
    assert any("pyspark>=4.2" in need for need in project["optional-dependencies"]["pipeline"])


def test_neither_the_broker_nor_the_command_line_of_the_pipeline_imports_it():
    code = "import sys; import broker.app.cli, broker_pipeline.cli; print([m for m in sys.modules if m in %r])"
    done = subprocess.run(
        [sys.executable, "-c", code % (("pyspark", "pyarrow", "pandas"),)],
        cwd=ROOT, env={"PYTHONPATH": f"{ROOT}:{ROOT / 'pipeline'}"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_what_went_wrong_is_found_in_what_spark_says():
    worker = "An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: Job aborted\n" + (
        "Caused by: x\nbroker_pipeline.errors.PipelineError: h:1: 1801 gone: archive more often\n\n\tat java"
    )
    assert cause(worker) == "h:1: 1801 gone: archive more often"
    java = "An error\nCaused by: a.B: outer\n\tat x\nCaused by: java.io.IOException: No space left on device\n\tat y"
    assert cause(java) == "java.io.IOException: No space left on device"
    assert cause("only this\nat x") == "only this" and cause("")
