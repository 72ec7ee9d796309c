"""Histories of a whole cluster: three owners, edges, the metadata store, and all that can happen to them.

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them. A failure tells its seed, and `python -m tests.sim.cluster_full SEED`
shows it again. They run in processes of their own, under different PYTHONHASHSEED, so that nobody begins to rely on the
order of a set.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCHEDULES = int(os.environ.get("STAMPEDE_CLUSTER_SEEDS", "1000"))
PER_TEST = 50


def histories(*seeds, hash_seed=0):
    return subprocess.run(
        [sys.executable, "-m", "tests.sim.cluster_full", *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("start", range(0, SCHEDULES, PER_TEST))
def test_a_cluster_keeps_its_promises(start):
    done = histories(*range(start, start + PER_TEST), hash_seed=start)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.parametrize("seed", [5, 218])
def test_a_history_repeats_itself(seed):
    """Whatever the order of sets, and wherever objects lie in memory."""
    first, second = histories("--tell", seed, hash_seed=1), histories("--tell", seed, hash_seed=2)
    assert first.returncode == 0, first.stdout[-2000:] + first.stderr[-2000:]
    assert first.stdout == second.stdout != ""
