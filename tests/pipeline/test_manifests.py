"""The chain of manifests: a run happens once or not at all, also on a full disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.store import stores
from broker_pipeline.store.files import write_pieces
from broker_pipeline.store.manifests import Archive, DataFile, Manifest, missing, total


def run(archive: Archive, number: int, text: str = "rows", removes: tuple[str, ...] = ()) -> Manifest:
    """What a run publishes: one file."""
    staged = f"{archive.path(archive.begin(number))}/part.parquet"
    write_pieces(staged, [text.encode()])
    file = DataFile(f"data/{number}.parquet", "messages", "a", "2026-11-24", "13", 1, len(text))
    manifest = Manifest(number, "b", 1, {"messages": {"1": {"o": number, "e": 1}}}, ("a",), (file,), removes)
    archive.publish(manifest, {staged: file.path})
    return manifest


def test_what_was_published_is_read_again(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    assert archive.load().last is None and archive.load().number == 0
    first, second = run(archive, 1), run(archive, 2, removes=("data/1.parquet",))
    state = archive.load()
    assert state.last == second and state.files == {"data/2.parquet": second.adds[0]} and first.number == 1
    assert archive.live("messages") == [str(tmp_path / "data/2.parquet")] and archive.live("events") == []
    assert total(state.files.values()) == (1, 4)
    (tmp_path / "data/2.parquet").unlink()
    assert missing(archive, state) == ["data/2.parquet"]


def test_a_number_is_given_once(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    run(archive, 1)
    with pytest.raises(PipelineError, match="another run has written"):
        run(archive, 1, "other")
    assert archive.load().number == 1


@pytest.mark.parametrize("when", ["before the files are moved", "before the manifest", "at the manifest"])
def test_a_full_disk_leaves_neither_rows_nor_files(tmp_path: Path, monkeypatch, when: str) -> None:
    archive = Archive(str(tmp_path))
    run(archive, 1)
    with monkeypatch.context() as patch:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        if when == "before the files are moved":
            patch.setattr("broker_pipeline.store.manifests.move", full)
        elif when == "before the manifest":
            patch.setattr(stores, "write_pieces", full)
        else:
            patch.setattr(os, "link", full)
        with pytest.raises(OSError, match="No space"):
            run(archive, 2)
    lock = archive.lock()
    state = archive.load()
    assert state.number == 1
    archive.clean(state)
    lock.close()
    assert sorted(path.name for path in tmp_path.rglob("*.parquet")) == ["1.parquet"]
    run(archive, 2)
    assert archive.load().number == 2 and not missing(archive, archive.load())


def test_what_a_run_that_was_killed_had_still_to_take_away_the_next_one_does(tmp_path: Path) -> None:
    """A deletion that somebody asked for is none while the file is there."""
    archive = Archive(str(tmp_path))
    run(archive, 1)
    run(archive, 2, removes=("data/1.parquet",))
    assert (tmp_path / "data/1.parquet").exists(), "as after a kill behind the manifest"
    archive.clean(archive.load())
    assert [path.name for path in tmp_path.rglob("*.parquet")] == ["2.parquet"]


def test_one_run_writes_at_a_time(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    lock = archive.lock()
    with pytest.raises(PipelineError, match="another run is writing"):
        Archive(str(tmp_path)).lock()
    lock.close()
    Archive(str(tmp_path)).lock().close()
    (tmp_path / "file").write_text("")
    with pytest.raises((PipelineError, OSError)):
        Archive(str(tmp_path / "file")).lock()
