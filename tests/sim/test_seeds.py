"""`make test` runs the same histories each time, `make torture` others, which can be run again."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.sim import seeds

ROOT = Path(__file__).parents[2]


def bases(*args: str) -> set[str]:
    """Where the histories of a `make torture` begin: what it prints, and what its commands say."""
    done = subprocess.run(["make", "-n", "torture", *args], cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.findall(r"STAMPEDE_SEED=(\d+)", done.stdout)
    assert len(found) == 4 and re.search(r"^echo .*STAMPEDE_SEED=", done.stdout, re.MULTILINE)
    for kind in ("crashes", "cuts", "frozen", "wild", "squeezed", "clocks"):
        assert f"tests/sim/test_cluster_{kind}.py" in done.stdout
    return set(found)


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
def test_each_torture_draws_others_and_repeats_what_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAMPEDE_SEED", raising=False)
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    one, other = bases(), bases()
    assert len(one) == len(other) == 1 and one != other
    assert bases("STAMPEDE_SEED=77") == {"77"}
    monkeypatch.setenv("STAMPEDE_SEED", "88")
    assert bases() == {"88"}


def test_histories_begin_where_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STAMPEDE_CLUSTER_SEEDS", raising=False)
    monkeypatch.setattr(seeds, "BASE", 0)
    assert seeds.seeds(3) == range(3)
    monkeypatch.setattr(seeds, "BASE", 4294967290)
    monkeypatch.setenv("STAMPEDE_CLUSTER_SEEDS", "10")
    assert seeds.parts(seeds.seeds(3), 4)[-1] == [4294967298, 4294967299]
