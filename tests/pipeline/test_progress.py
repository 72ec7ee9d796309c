"""What takes long says how far it is."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from broker_pipeline import progress
from broker_pipeline.jobs import rebuild, replay

from tests.harness import until


def at_work(stages: dict[int, Any], **more: Any) -> Any:
    """A session that works on these stages."""
    tracker = SimpleNamespace(getActiveStageIds=lambda: list(stages), getStageInfo=stages.get)
    return SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker), **more)


def test_what_spark_works_on_for_long_is_told_by_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    said: list[str] = []
    spark = at_work({4: SimpleNamespace(numCompletedTasks=3, numTasks=8, numActiveTasks=1), 5: None})
    with progress.tasks(spark, said.append, "of it"):
        until(lambda: bool(said), "a line")
    count = len(said)
    assert set(said) == {"3 of 8 tasks of it"}
    time.sleep(0.1)
    assert len(said) == count, "nothing more once it is over"


def test_a_cluster_that_gives_no_executor_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    said: list[str] = []
    with progress.tasks(
        at_work({1: SimpleNamespace(numCompletedTasks=2, numTasks=8, numActiveTasks=0)}), said.append, "of it"
    ):
        until(lambda: bool(said), "a line")
    assert said[0].startswith("2 of 8 tasks of it: none is at work") and "workers" in said[0]


@pytest.mark.parametrize("which", ["replay", "rebuild"])
def test_a_dry_run_that_takes_long_says_how_far_it_is(
    which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    said: list[str] = []

    def collect() -> list[Any]:
        until(lambda: bool(said), "a line")
        return []

    view: Any = SimpleNamespace(createOrReplaceTempView=lambda _: None)
    stage = SimpleNamespace(numCompletedTasks=3, numTasks=8, numActiveTasks=1)
    spark = at_work({4: stage}, sql=lambda _: SimpleNamespace(collect=collect))
    for module, name in ((replay, "plan"), (replay, "rows"), (rebuild, "waiting")):
        monkeypatch.setattr(module, name, lambda *_: view)
    if which == "replay":
        replay.count(spark, str(tmp_path), {}, replay.Plan("x", "/queue/x"), said.append)
    else:
        rebuild.count(spark, str(tmp_path), "", said.append)
    assert said[0] == "3 of 8 tasks of what would be sent counted"
