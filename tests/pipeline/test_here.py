"""Says in one line why there are no tests of Spark, and that nobody has to have it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from broker_pipeline.advice import cause
from broker_pipeline.cli import main
from packaging.requirements import Requirement

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
    assert cause(java).startswith("java.io.IOException: No space left on device: make room")
    assert cause("only this\nat x") == "only this" and cause("")


def test_images_are_given_what_they_copy_and_the_broker_nothing_of_spark():
    """What .dockerignore keeps back is not there to be copied, and the classic builder does not say so."""
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for file in ("Dockerfile", "pipeline/Dockerfile"):
        steps = [line.split() for line in (ROOT / file).read_text().splitlines() if line.startswith("COPY")]
        for source in [name for _, *names, _ in steps for name in names if not name.startswith("--")]:
            if source.startswith("/opt/"):
                continue  # of an earlier stage
            assert any(source == name or f"{name}/".startswith(f"{source}/") for name in allowed), (file, source)
    assert "rm /opt/stampede/bin/stampede-pipeline" in (ROOT / "Dockerfile").read_text(), "a script without its package"
    pinned = (ROOT / "deploy/image/libraries.txt").read_text().lower()  # all that the image installs: test_supply.py
    assert "pyspark" not in pinned and "pyarrow" not in pinned


def needed(extras: frozenset[str]) -> set[str]:
    """Names of all that `pip install stampede-broker[extras]` brings, as far as they are installed here."""
    found: set[str] = set()
    left = [("stampede-broker", extras)]
    while left:
        name, wanted = left.pop()
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for line in requires:
            need = Requirement(line)
            counts = need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in (wanted or {""}))
            if counts and need.name.lower() not in found:
                found.add(need.name.lower())
                left.append((need.name, frozenset(need.extras)))
    return found


def test_nothing_that_the_broker_needs_needs_spark():
    assert "grpcio" in needed(frozenset())
    for extras in (frozenset(), frozenset({"operator", "redis", "xpath"})):
        assert not needed(extras) & {"pyspark", "pyarrow", "pandas", "numpy", "duckdb"}


@pytest.mark.parametrize(("values", "folder"), [("archive", "/archive"), ("archive-in-a-store", "s3a://bucket/lake")])
def test_the_chart_starts_the_archive_with_options_that_there_are(values: str, folder: str):
    golden = (ROOT / f"tests/helm/golden/{values}.yaml").read_text()
    (job,) = [each for each in yaml.safe_load_all(golden) if each and each["kind"] == "CronJob"]
    (container,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    name, *arguments = container["args"]
    context = main.commands[name].make_context(name, list(arguments))
    assert context.params["folder"] == folder and context.params["once"] and context.params["tls"]
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    assert "/tmp" in mounted and ("/archive" in mounted) == (folder == "/archive")
