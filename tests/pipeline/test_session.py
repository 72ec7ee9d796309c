"""What is asked of Java and PySpark before Spark is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from broker_pipeline import session
from broker_pipeline.errors import PipelineError


@pytest.mark.parametrize(("version", "good"), [("4.1.1", False), ("3.5.7", False), ("4.2.0", True), ("5.0.0", True)])
def test_an_older_spark_is_refused_with_the_reason_and_the_command(monkeypatch, version: str, good: bool) -> None:
    module = ModuleType("pyspark")
    module.__version__ = version  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", module)
    if good:
        session.check_spark()
        return
    with pytest.raises(PipelineError, match=rf"{version} is too old.*ends silently.*pip install"):
        session.check_spark()


def test_without_pyspark_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(PipelineError, match=r"pip install 'stampede-broker\[pipeline\]'"):
        session.check_spark()


def java(home: Path, version: str) -> str:
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    return str(home)


def test_java_from_17_on_is_found_or_asked_for(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(session, "_JAVAS", str(tmp_path / "jvm"))
    monkeypatch.setattr(session.shutil, "which", lambda name: None)
    monkeypatch.setenv("JAVA_HOME", java(tmp_path / "old", "11.0.2"))
    with pytest.raises(PipelineError, match="apt install default-jre-headless"):
        session.java_home()
    found = java(tmp_path / "jvm/java-21-openjdk", "21.0.1")
    assert session.java_home() == found
    monkeypatch.setenv("JAVA_HOME", java(tmp_path / "newer", "17.0.9"))
    assert session.java_home() == str(tmp_path / "newer")


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="of Linux")
def test_in_the_background_all_that_a_command_starts_is_idle(tmp_path: Path) -> None:
    says = "import os; print(os.sched_getscheduler(0) == os.SCHED_IDLE)"
    work = (
        "import subprocess, sys\n"
        "from broker_pipeline.cli import main\n"
        f"try:\n    main(['files', {str(tmp_path)!r}, '--background'])\nexcept SystemExit:\n    pass\n"
        f"subprocess.run([sys.executable, '-c', {says!r}])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", work],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.splitlines()[-1:] == ["True"], done.stderr


def test_where_there_is_no_background_it_is_said(monkeypatch) -> None:
    monkeypatch.delattr(os, "SCHED_IDLE", raising=False)
    with pytest.raises(PipelineError, match=r"--background needs Linux.*nice"):
        session.give_way()


def test_settings_beside_the_package_go_on_counting(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert not session.has_settings(tmp_path)
    (tmp_path / "conf").mkdir()  # with a spark-defaults.conf, say: SPARK_CONF_DIR of ours would hide it
    assert session.has_settings(tmp_path)
    (tmp_path / "conf").rmdir()
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert session.has_settings(tmp_path)
