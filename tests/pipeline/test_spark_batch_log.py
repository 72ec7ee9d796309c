"""The written-ahead batches of consume mode: what a restart finds, whatever was on the disk by then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from broker_pipeline.datasource import batch_log
from broker_pipeline.datasource.batch_log import BatchLog
from broker_pipeline.datasource.queue_consumer import Taken
from broker_pipeline.datasource.rows import taken_table
from broker_pipeline.errors import PipelineError


def table(*ids: int) -> object:
    return taken_table(
        [Taken(f"7-{n}", {"kind": "k", "expires": "1790000000000"}, b"body %d" % n, 6, None, 1, "a") for n in ids], True
    )


def opened(folder: Path, source: str = "/queue/a of b:1") -> BatchLog:
    batches = BatchLog(str(folder), source)
    batches.open()
    return batches


def test_a_batch_is_the_same_after_a_restart_until_it_is_committed_and_acknowledged(tmp_path: Path) -> None:
    batches = opened(tmp_path)
    assert (batches.write(table(1, 2)), batches.write(table(3))) == (1, 2)
    written = batch_log.read(batches.path(1))
    batches.close()

    again = opened(tmp_path)
    assert again.id == batches.id and again.newest == 2 and again.pending == {"7-1": 1, "7-2": 1, "7-3": 2}
    assert batch_log.read(again.path(1)).equals(written) and again.paths(0, 2) == [again.path(1), again.path(2)]
    again.commit(1)
    assert again.pending == {"7-3": 2} and again.owed == {"7-1": 1, "7-2": 1}
    again.acknowledged(["7-1"])
    again.tidy()
    assert not os.path.exists(again.path(1))
    again.close()

    third = opened(tmp_path)
    assert third.owed == {"7-2": 1} and third.done == 1 and third.pending == {"7-3": 2}
    with pytest.raises(PipelineError, match="older than the folder"):
        third.check(0)
    with pytest.raises(PipelineError, match="older than the folder"):
        third.paths(0, 1)
    third.acknowledged(["7-2"])
    third.tidy()
    third.close()
    last = opened(tmp_path)
    assert not last.owed and last.write(table(4)) == 3


def test_killed_between_the_commit_and_the_acknowledgement(tmp_path: Path) -> None:
    batches = opened(tmp_path)
    batches.write(table(1, 2))
    batches.commit(1)
    batches.close()
    again = opened(tmp_path)
    assert again.owed == {"7-1": 1, "7-2": 1} and not again.pending and again.newest == 1


def test_who_is_owed_for_ever_is_forgotten_at_a_bound_the_oldest_first(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(batch_log, "MOST_OWED", 3)
    batches = opened(tmp_path)
    for first in (1, 3, 5):
        batches.commit(batches.write(table(first, first + 1)))
    assert set(batches.owed) == {"7-5", "7-6"}
    batches.tidy()
    assert sorted(path.name for path in tmp_path.glob("*.owed")) == ["000000000003.owed"]


def test_parts_of_a_batch_are_all_of_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(batch_log, "PIECE_ROWS", 3)
    batches = opened(tmp_path)
    batches.write(table(*range(10)))
    count = batch_log.pieces(batches.path(1))
    found = [id for at in range(count) for part in batch_log.part(batches.path(1), at, at + 1)
             for id in part.column("message_id").to_pylist()]  # fmt: skip
    assert count == 4 and found == [f"7-{n}" for n in range(10)]


def test_what_does_not_belong_together_is_refused_with_what_to_do(tmp_path: Path) -> None:
    batches = opened(tmp_path / "one")
    with pytest.raises(PipelineError, match="in use"):
        opened(tmp_path / "one")
    batches.write(table(1))
    with pytest.raises(PipelineError, match="restore"):
        batches.check(2)
    with pytest.raises(PipelineError, match="belong together"):
        batches.number({"batch": 1, "folder": "other"})
    batches.close()
    with pytest.raises(PipelineError, match="use another folder"):
        opened(tmp_path / "one", "/queue/b of b:1")
    (tmp_path / "one/source.json").unlink()
    with pytest.raises(PipelineError, match=r"source\.json"):
        opened(tmp_path / "one")
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="option ahead"):
        opened(tmp_path / "file")
    (tmp_path / "one/000000000001.arrow").write_bytes(b"no batch")
    with pytest.raises(PipelineError, match="driver and all workers"):
        list(batch_log.part(str(tmp_path / "one/000000000001.arrow"), 0, 1))


def test_a_full_disk_names_the_folder_and_leaves_no_batch(tmp_path: Path, monkeypatch) -> None:
    batches = opened(tmp_path)

    def full(path: str, pieces: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(batch_log, "write_pieces", full)
    with pytest.raises(PipelineError, match="make room"):
        batches.write(table(1))
    assert batches.newest == 0 and not batches.pending


def test_columns_of_a_message_that_was_taken() -> None:
    (row,) = table(5).to_pylist()  # type: ignore[attr-defined]
    assert row["message_id"] == "7-5" and row["slot"] == 7 and row["body"] == b"body 5" and row["text"] == "body 5"
    assert row["expires"].timestamp() == 1_790_000_000 and row["ts"] is None and row["offset"] is None
    assert dict(row["headers"])["kind"] == "k" and row["priority"] == 4 and row["attempt"] == 1
