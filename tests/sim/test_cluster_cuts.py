"""A cluster whose owners are cut off from one another only, while streams of its edges are reset (cluster_cuts.py).

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FIXED = [3, 46, 57, 72, 101, 108, 222, 232]
"""A repeated ACK was answered before its first try was replicated."""


def histories(*seeds):
    return subprocess.run(
        [sys.executable, "-m", "tests.sim.cluster_cuts", *map(str, seeds)],
        env={**os.environ, "PYTHONHASHSEED": str(seeds[0])}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def per_test(seeds, most=30):
    return [seeds[at : at + most] for at in range(0, len(seeds), most)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seeds", per_test([*FIXED, *range(int(os.environ.get("STAMPEDE_CLUSTER_SEEDS", "52")))]))
def test_a_cluster_keeps_its_promises_when_owners_are_cut_off_from_each_other(seeds):
    done = histories(*seeds)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
