"""Edges that come back after owners have given them up (cluster_frozen.py).

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def histories(*seeds):
    return subprocess.run(
        [sys.executable, "-m", "tests.sim.cluster_frozen", *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": str(seeds[0])}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def per_test(seeds, most=20):
    return [seeds[at : at + most] for at in range(0, len(seeds), most)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", per_test(range(int(os.environ.get("STAMPEDE_CLUSTER_SEEDS", "60")))))
def test_a_cluster_keeps_its_promises_when_edges_come_back_that_were_given_up(seeds):
    done = histories(*seeds)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
