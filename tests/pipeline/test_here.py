"""Says in one line why there are no tests of Spark, and that nobody has to have it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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
