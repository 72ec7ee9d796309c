"""Subscribers to wildcards miss nothing, whoever leads the slots (cluster_wild.py).

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from broker.engine.wildcards import Wildcards
from tests.sim.checker import Violation
from tests.sim.cluster_wild import WildHistory

SEEDS = range(int(os.environ.get("STAMPEDE_CLUSTER_SEEDS", "40")))


def histories(*seeds):
    return subprocess.run(
        [sys.executable, "-m", "tests.sim.cluster_wild", *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": str(seeds[0])}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("start", SEEDS[::20])
def test_who_subscribes_to_a_wildcard_gets_what_is_sent_behind_the_receipt(start):
    done = histories(*SEEDS[start : start + 20])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.timeout(300)
def test_a_slot_that_forgets_its_sleepers_is_found(monkeypatch):
    due = Wildcards.due
    monkeypatch.setattr(Wildcards, "due", lambda self, slot, *more: [] if slot == 2 else due(self, slot, *more))
    with pytest.raises(Violation, match="missed"):
        WildHistory(2).run()
