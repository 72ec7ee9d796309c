"""A rebuild without Spark: what it refuses before it sends anything, and that one id is one rebuild."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.jobs import rebuild as module
from broker_pipeline.jobs.rebuild import rebuild, waiting


class FakeArchive:
    """Has some files of each view."""

    def __init__(self, **live: list[str]) -> None:
        self._live = {"messages": ["m"], "events": ["e"], **live}
        self.existing = lambda: "state"

    def path(self, relative: str) -> str:
        return f"/archive/{relative}"

    def live(self, view: str, state: object) -> list[str]:
        assert state == "state"
        return self._live[view]


class FakeSpark:
    """Remembers which views it was given, and gives back what it was asked."""

    def __init__(self) -> None:
        self.views: dict[str, tuple[str, ...]] = {}
        self.read = SimpleNamespace(parquet=self.parquet)
        self.sql = lambda text: text

    def parquet(self, *paths: str) -> Any:
        return SimpleNamespace(createOrReplaceTempView=lambda name: self.views.update({name: paths}))


@pytest.mark.parametrize(
    ("at", "moment"),
    [
        ("", "9999-01-01"), ("2026-11-24", "2026-11-24"), ("2026-11-24 13:00", "2026-11-24 13:00"),
        ("2026-11-24 13:00:01.5", "2026-11-24 13:00:01.5"),
    ],
)  # fmt: skip
def test_it_is_of_a_time_or_of_the_end(at, moment):
    spark = FakeSpark()
    text = waiting(spark, FakeArchive(), at)
    assert text.count(f"timestamp '{moment}'") == 3 and "{at}" not in text and "{now}" not in text
    assert spark.views == {"messages": ("m",), "events": ("e",)}


@pytest.mark.parametrize(
    "at", ["now", "24.11.2026", "2026-11-24T13:00", "2026-11-24 13", "2026-11-24'", "2026-11-24\n", "' or true --"]
)
def test_what_is_no_time_is_refused_and_goes_into_no_query(at):
    spark = FakeSpark()
    spark.sql = lambda text: pytest.fail("it was asked")
    with pytest.raises(PipelineError, match="--at is a time such as"):
        waiting(spark, FakeArchive(), at)


@pytest.mark.parametrize("view", ["messages", "events"])
def test_from_half_an_archive_nothing_is_made(view):
    with pytest.raises(PipelineError, match=rf"/archive/ holds no {view}: there is nothing to rebuild"):
        waiting(FakeSpark(), FakeArchive(**{view: []}))


@pytest.mark.parametrize("id", ["", "a/b", "../x", "a b", "x" * 101, "a\n"])
def test_an_id_that_could_be_a_path_is_refused_before_anything_is_read(id, tmp_path):
    pytest.importorskip("pyspark.sql")
    with pytest.raises(PipelineError, match="letters, digits, dots"):
        rebuild(FakeSpark(), str(tmp_path), "stomp://x", id, "", 0, print)
    assert list(tmp_path.iterdir()) == []


def test_one_id_is_of_one_time_and_one_state_and_the_lock_is_given_back(tmp_path: Path, monkeypatch):
    pytest.importorskip("pyspark.sql")
    folder = tmp_path / "manifests"
    folder.mkdir()
    manifest = {"number": 1, "broker": "b", "made_ms": 1, "ends": {}, "scope": [], "removes": [], "adds": []}
    (folder / "000000000001.json").write_text(json.dumps(manifest))

    def stop(*_: object) -> None:
        raise PipelineError("no more of it here")

    monkeypatch.setattr(module, "left", stop)
    monkeypatch.setattr(module, "waiting", lambda *_: None)
    for _ in range(2):
        with pytest.raises(PipelineError, match="no more of it"):
            rebuild(None, str(tmp_path), "stomp://x", "one", "2026-11-24", 0, print)
    assert json.loads((tmp_path / "rebuilds/one.json").read_text()) == {"at": "2026-11-24", "manifest": 1}
    with pytest.raises(PipelineError, match="rebuild one was of another time or state"):
        rebuild(None, str(tmp_path), "stomp://x", "one", "2026-11-25", 0, print)
    with pytest.raises(PipelineError, match="no more of it"):
        rebuild(None, str(tmp_path), "stomp://x", "two", "2026-11-25", 0, print)
