"""The command line: every error is one line that says what to do, and nothing is half done."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from broker_pipeline import cli
from broker_pipeline.advice import cause, lost_worker
from broker_pipeline.cli import main
from broker_pipeline.errors import PipelineError
from broker_pipeline.jobs import archive, rebuild, replay, upkeep
from click.testing import CliRunner


def said(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(arguments))
    return done.exit_code, done.output


def manifest(folder: Path, number: int, **more: Any) -> None:
    path = folder / f"manifests/{number:012d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    made = {"number": number, "broker": "b", "made_ms": 1, "ends": {}, "scope": [], "adds": [], "removes": []} | more
    path.write_text(json.dumps(made))


IDLE = (
    "An error occurred while calling o496.count.\n: java.io.IOException: Stream closed\n"
    "\tat java.base/java.io.DataOutputStream.flush(DataOutputStream.java:128)\n"
    "\tat org.apache.spark.api.python.PythonWorkerFactory.stopWorker(PythonWorkerFactory.scala:523)"
)
BORN = (
    "An error occurred while calling o205.load.\n: org.apache.spark.SparkException: EOFException occurred while "
    "reading the port number from pyspark.daemon's stdout.\n"
    "\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:382)"
)
BUSY = (
    "An error occurred while calling o155.parquet.\n: org.apache.spark.SparkException: Job aborted\n"
    "Caused by: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)\n"
    "\tat org.apache.spark.api.python.BasePythonRunner\nCaused by: java.io.EOFException\n\tat java.base"
)


@pytest.mark.parametrize("said_by_spark", [IDLE, BORN, BUSY])
def test_where_the_system_ends_python_workers_an_archive_goes_on_in_another_session(
    monkeypatch: pytest.MonkeyPatch, said_by_spark: str
) -> None:
    assert "memory is short" in cause(said_by_spark) and "run it again" in cause(said_by_spark)
    assert not lost_worker(f"Error from python worker:\n  No module named x\n{said_by_spark}")
    assert "archive" in cause("PipelineError: this archive is of another broker\n" + said_by_spark)
    runs: list[Any] = [RuntimeError(said_by_spark), RuntimeError(said_by_spark), 5, RuntimeError(said_by_spark), 7, 0]
    sessions: list[Session] = []
    lines: list[str] = []

    class Session:
        stopped = False

        def __init__(self) -> None:
            sessions.append(self)

        def stop(self) -> None:
            self.stopped = True

    def run(spark: Session, *_: object) -> int:
        assert spark is sessions[-1] and not spark.stopped
        if isinstance(answer := runs.pop(0), Exception):
            raise answer
        return int(answer)

    monkeypatch.setattr(archive, "run", run)
    archive.run_on(Session, archive.Job("lake", {}), lambda: not runs, lines.append)
    assert len(sessions) == 4 and all(each.stopped for each in sessions)
    assert [line for line in lines if "rows" in line] == [f"{n} rows archived" for n in (5, 7, 0)]
    assert sum("goes on where the last manifest ends" in line for line in lines) == 3
    runs[:] = [RuntimeError(said_by_spark)] * 9
    with pytest.raises(RuntimeError):  # there is no room for them: it ends, and says so (cause)
        archive.run_on(Session, archive.Job("lake", {}), lambda: False, lines.append)
    assert len(runs) == 9 - archive.MOST_LOST and all(each.stopped for each in sessions)
    runs[:] = [ValueError("another")]
    with pytest.raises(ValueError, match="another"):
        archive.run_on(Session, archive.Job("lake", {}), lambda: False, lines.append)


def test_verify_names_what_is_missing_and_what_is_broken(tmp_path: Path) -> None:
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    files = []
    for name, rows in (("a", 3), ("b", 4), ("c", 5)):
        path = tmp_path / f"data/{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": list(range(rows))}), path)
        files.append({"path": f"data/{name}.parquet", "view": "messages", "address": "q", "date": "2026-11-24",
                      "hour": "13", "rows": rows, "nbytes": path.stat().st_size})  # fmt: skip
    manifest(tmp_path, 1, adds=files)
    assert said("verify", str(tmp_path)) == (
        0,
        f"1 manifests, 3 files, 12 rows, {sum(f['nbytes'] for f in files)} bytes\n",
    )
    assert said("files", str(tmp_path))[1].split() == [str(tmp_path / f"data/{name}.parquet") for name in "abc"]
    (tmp_path / "data/b.parquet").write_bytes(b"PAR1 no longer")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "data/c.parquet")
    code, text = said("verify", str(tmp_path))
    assert code == 1 and "2 files are damaged; restore" in text and "b.parquet" in text and "c.parquet" in text
    (tmp_path / "data/a.parquet").unlink()
    code, text = said("verify", str(tmp_path))
    assert code == 1 and "1 files are missing" in text and "a.parquet" in text


@pytest.mark.parametrize(
    ("package", "command"),
    [("pyspark", ("check",)), ("pyspark", ("archive", "lake")), ("pyspark", ("report", "lake")),
     ("pyspark", ("verify", "s3a://bucket/lake"))],
)  # fmt: skip
def test_without_the_extra_a_command_names_it(monkeypatch, package: str, command: tuple[str, ...]) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    code, text = said(*command)
    assert code == 2 and text.strip().endswith("is not installed: pip install 'stampede-broker[pipeline]'")


@pytest.mark.parametrize("command", [("archive", "lake"), ("report", "lake"), ("rebuild", "lake", "--id", "x")])
def test_with_an_older_spark_a_command_says_why_it_does_nothing_and_what_helps(
    monkeypatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    older = ModuleType("pyspark")
    older.__version__ = "4.1.1"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark", older)
    code, text = said(*command)
    assert code == 1 and "PySpark 4.1.1 is too old" in text and "pip install 'pyspark>=4.2,<5'" in text
    assert not list(tmp_path.iterdir()), "nothing has begun"


def test_without_arrow_verify_names_the_extra(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    manifest(tmp_path, 1, adds=[{"path": "a.parquet", "view": "messages", "address": "q", "date": "2026-11-24",
                                 "hour": "13", "rows": 1, "nbytes": 4}])  # fmt: skip
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, text = said("verify", str(tmp_path))
    assert (code, text) == (2, "Error: pyarrow is not installed: pip install 'stampede-broker[pipeline]'\n")


def test_a_manifest_that_is_none_or_is_gone(tmp_path: Path) -> None:
    manifest(tmp_path, 1)
    manifest(tmp_path, 3)
    code, text = said("verify", str(tmp_path))
    assert code == 1 and "manifest 2 is missing: restore it from a backup" in text
    (tmp_path / "manifests/000000000002.json").write_text("{")
    code, text = said("verify", str(tmp_path))
    assert code == 1 and "000000000002.json cannot be read as a manifest" in text


@pytest.mark.parametrize("command", [("verify",), ("files",), ("retain", "--before", "2026-11-24")])
def test_a_folder_that_is_misspelt_is_no_empty_archive(tmp_path: Path, command: tuple[str, ...]) -> None:
    code, text = said(command[0], str(tmp_path / "lkae"), *command[1:])
    assert code == 1 and "lkae holds no archive: check the spelling" in text
    assert not list(tmp_path.iterdir())


def test_a_replay_and_a_rebuild_of_no_archive_are_refused(tmp_path: Path) -> None:
    """What the log has by then would be sent, and what it has freed left out, in silence."""
    pytest.importorskip("pyspark")
    lake, url = str(tmp_path / "lkae"), "stomp://127.0.0.1:1"
    for send in (
        lambda: replay.replay(None, lake, {}, url, replay.Plan("x", "/queue/x", ("a",)), 0, print),
        lambda: rebuild.rebuild(None, lake, url, "x", "", 0, print),
    ):
        with pytest.raises(PipelineError, match="holds no archive"):
            send()
    assert not list(tmp_path.iterdir())


def test_what_is_to_be_deleted_and_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are gone by then; whoever deletes for somebody's privacy wants to know of a misspelt id."""
    stopped: list[bool] = []
    monkeypatch.setattr(cli, "_session", lambda *_: SimpleNamespace(stop=lambda: stopped.append(True)))
    absent = ["1-8", "1-9"]
    monkeypatch.setattr(upkeep, "delete", lambda *_: upkeep.Deleted(3, absent))
    code, text = said("delete", "lake", "1-7", "1-8", "1-9")
    assert code == 1 and text.startswith("3 rows deleted\n") and "nothing of 1-8, 1-9: check the spelling" in text
    absent.clear()
    assert said("delete", "lake", "1-7") == (0, "3 rows deleted\n") and len(stopped) == 2


def test_days_and_brokers_that_are_none(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    code, text = said("retain", str(tmp_path), "--before", "yesterday")
    assert code == 1 and "such as 2026-11-24" in text
    code, text = said("retain", str(tmp_path), "--before", "2026-11-24")
    assert code == 1 and "holds no archive" in text
    code, text = said("verify", str(tmp_path), "--conf", "fs.s3a.endpoint=x")
    assert code == 2 and "is not spark.KEY=VALUE" in text
    code, text = said("check", "--broker", "nobody")
    assert code == 1
    code, text = said("replay", str(tmp_path), "--id", "x")
    assert code == 2 and "--into" in text
