"""The report without Spark: each form holds all rows, and disks are judged by days that are over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from broker_pipeline.jobs import report as module
from broker_pipeline.jobs.report import GROWTH, Report, growth
from broker_pipeline.store.manifests import DataFile, State

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def state(**days: int) -> State:
    files = [DataFile(f"data/{day}.parquet", "messages", "q", day, "13", 2, nbytes) for day, nbytes in days.items()]
    return State(None, {file.path: file for file in files})


def days(*nbytes: int) -> State:
    return state(**{f"2026-11-{at:02}": each for at, each in enumerate(nbytes, 1)})


@pytest.mark.parametrize(
    ("nbytes", "daily"),
    [
        ((), 0), ((10,), 10), ((10, 99), 10), ((10, 20, 99), 15), ((1000, 7, 7, 7, 7, 7, 7, 7, 99), 7), ((0, 5), 0),
    ],
)  # fmt: skip
def test_of_seven_days_the_newest_is_not_over_yet(nbytes, daily):
    found = growth(days(*nbytes), 100)
    assert (found["days"], found["bytes"], found["bytes_per_day"]) == (len(nbytes), sum(nbytes), daily)
    assert found["days_until_full"] == (100 // daily if daily else None)
    assert tuple(found) == GROWTH


def test_of_a_disk_that_nobody_knows_nothing_is_told():
    found = growth(days(10, 10), None)
    assert found["free_bytes"] is None and found["days_until_full"] is None


def made() -> Report:
    tables = {
        "fates": pa.table({"address": ["a"], "acked": [3]}),
        "groups": pa.table({"address": pa.array([], pa.string())}),
    }
    return Report("/archive", 1, 4, tables)


def test_rows_are_what_the_tables_say():
    assert made().plain() == {
        "folder": "/archive", "made_ms": 1, "manifests": 4, "fates": [{"address": "a", "acked": 3}], "groups": [],
    }  # fmt: skip


def test_each_form_holds_the_same_and_the_page_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wrote, write = [], module.write_pieces
    monkeypatch.setattr(module, "page", lambda found: f"<p>{found['manifests']}</p>")
    monkeypatch.setattr(
        module, "write_pieces", lambda path, pieces: (wrote.append(Path(path).name), write(path, pieces))
    )
    made().write(str(tmp_path / "r"))
    assert wrote == ["fates.parquet", "groups.parquet", "r.json", "r.html"]
    assert json.loads((tmp_path / "r.json").read_text()) == made().plain()
    assert pq.read_table(tmp_path / "r.parquet/fates.parquet").to_pylist() == [{"address": "a", "acked": 3}]
    assert pq.read_table(tmp_path / "r.parquet/groups.parquet").schema.names == ["address"], "columns without rows, too"
    assert (tmp_path / "r.html").read_text() == "<p>4</p>"
