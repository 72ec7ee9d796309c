"""What keeps archives in order, without Spark."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.jobs.upkeep import retain
from broker_pipeline.store.manifests import Archive, DataFile


def file(date: str, nbytes: int, name: str = "x") -> DataFile:
    return DataFile(f"data/{date}-{name}.parquet", "messages", "q", date, "13", 2, nbytes)


def archive_of(folder: Path, files: list[DataFile]) -> None:
    made = {"number": 1, "broker": "b", "made_ms": 1, "ends": {}, "scope": [], "removes": []}
    (folder / "manifests").mkdir(parents=True)
    (folder / "manifests/000000000001.json").write_text(json.dumps(made | {"adds": [asdict(each) for each in files]}))
    for each in files:
        path = folder / each.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_whole_days_go_and_all_others_stay(tmp_path: Path) -> None:
    files = [file("2026-11-22", 5), file("2026-11-23", 5), file("2026-11-24", 5)]
    archive_of(tmp_path, files)
    assert retain(str(tmp_path), "2026-11-24") == 4
    assert [path.name for path in (tmp_path / "data").rglob("*.parquet")] == ["2026-11-24-x.parquet"]
    state = Archive(str(tmp_path)).load()
    assert state.number == 2 and list(state.files) == [files[2].path]
    assert retain(str(tmp_path), "2026-11-24") == 0 and Archive(str(tmp_path)).load().number == 2
    with pytest.raises(PipelineError, match="holds no archive"):
        retain(str(tmp_path / "empty"), "2026-11-24")


@pytest.mark.parametrize("killed", [False, True])
def test_with_a_day_its_large_bodies_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool) -> None:
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    days = ("2026-11-22", "2026-11-23", "2026-11-24")
    files = [replace(file(day, 5), path=f"data/messages/address=q/date={day}/x.parquet") for day in days]
    (tmp_path / "bodies").mkdir()
    archive_of(tmp_path, files)
    for day, each in zip(days, files, strict=True):
        (tmp_path / f"bodies/{day}.body").write_bytes(b"L")
        pq.write_table(pa.table({"body_ref": [None, f"bodies/{day}.body"]}), tmp_path / each.path)
    (tmp_path / files[1].path).write_bytes(b"damaged")
    if killed:
        with monkeypatch.context() as patch:
            patch.setattr(Archive, "take_away", lambda *_: 1 / 0)
            patch.setattr(Archive, "clean", lambda archive, state: archive.take_away(state) if state.number > 1 else 0)
            with pytest.raises(ZeroDivisionError):
                retain(str(tmp_path), "2026-11-24")
        assert len(list((tmp_path / "bodies").iterdir())) == 3
    retain(str(tmp_path), "2026-11-24")
    assert sorted(path.name for path in (tmp_path / "bodies").iterdir()) == ["2026-11-23.body", "2026-11-24.body"]
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
