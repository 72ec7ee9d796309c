"""Histories of a whole cluster: three owners, edges, the metadata store, and all that can happen to them.

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them. They run in processes of their own, so that sets of texts are walked in
the same order each time: a failure tells its seed, and `PYTHONHASHSEED=0 python -m tests.sim.cluster_full SEED` shows
it again.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCHEDULES = int(os.environ.get("STAMPEDE_CLUSTER_SEEDS", "400"))
PER_TEST = 50
OPEN = {55, 89, 259, 273, 281, 304}
"""Found and not mended yet: these seeds fail for reasons that are known (see the issue of the cluster)."""


def histories(*seeds):
    return subprocess.run(
        [sys.executable, "-m", "tests.sim.cluster_full", *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("start", range(0, SCHEDULES, PER_TEST))
def test_a_cluster_keeps_its_promises(start):
    done = histories(*[seed for seed in range(start, start + PER_TEST) if seed not in OPEN])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_a_history_repeats_itself():
    first, second = histories("--tell", 5), histories("--tell", 5)
    assert first.returncode == 0
    assert first.stdout == second.stdout != ""
