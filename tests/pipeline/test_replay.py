"""A replay: what its id stands for, what it has noted, and which addresses an archive has."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from broker_pipeline.errors import PipelineError
from broker_pipeline.jobs.replay import Plan, archives, left, plan
from broker_pipeline.store.manifests import Archive


def test_an_id_of_a_replay_stands_for_one_thing(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    wanted = Plan("monday", "/queue/again", ("a",), ends={"1": 7})
    archive.store.write("replays/monday.json", [json.dumps(asdict(wanted)).encode()])
    again = plan(archive, {}, Plan("monday", "/queue/again", ("a",)))
    assert again == wanted, "with the ends that it had"
    with pytest.raises(PipelineError, match="was something else before"):
        plan(archive, {}, Plan("monday", "/queue/elsewhere", ("a",)))
    with pytest.raises(PipelineError, match="letters, digits"):
        plan(archive, {}, Plan("../monday", "/queue/again", ("a",)))


def test_what_has_been_noted_is_not_sent_again(tmp_path: Path) -> None:
    class Rows:
        condition = ""

        def where(self, condition: str) -> Any:
            self.condition = condition
            return self

    archive, found = Archive(str(tmp_path)), Rows()
    assert left(archive, "replays/x.done", found) is found and not found.condition
    archive.store.write("replays/x.done", [b"[3, 40, 2]"])
    condition = left(archive, "replays/x.done", found).condition.replace(" = ", " == ")
    sent = [
        place for place in [(2, 99, 9), (3, 40, 1), (3, 40, 2), (3, 40, 3), (3, 41, 0), (4, 0, 0)]
        if not eval(condition, dict(zip(("slot", "offset", "index"), place, strict=True)))
    ]  # fmt: skip
    assert sent == [(2, 99, 9), (3, 40, 1), (3, 40, 2)]


@pytest.mark.parametrize(
    ("scope", "name", "in_it"),
    [((), "a", True), (("a",), "a", True), (("a",), "a.b", False), (("a.*",), "a.b", True), (("a.*",), "a.b.c", False),
     (("x", "a.#"), "a.b.c", True), (("a.#",), "a", True), (("#.c",), "a.b.c", True), (("a.#.c",), "a.c.b", False)],
)  # fmt: skip
def test_an_archive_of_patterns_has_what_they_stand_for(scope: tuple[str, ...], name: str, in_it: bool):
    assert archives(scope, name) is in_it
