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
OPEN = {
    89: "a settled message stays on the disks",
    123: "an ACK is refused although its consumer lives",
    254: "settled messages stay on the disks",
    259: "a settled message stays on the disks",
    281: "a message stays with a consumer that never got it",
}
"""Histories that are not mended yet (docs/reliability.md). They are run and may fail; none is added in silence.
A change of what is simulated deals all histories anew: then other seeds meet the same."""


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


@pytest.mark.xfail(reason="known, see OPEN", strict=False)
@pytest.mark.parametrize("seed", OPEN)
def test_an_open_history(seed):
    assert histories(seed).returncode == 0


def test_a_history_repeats_itself():
    first, second = histories("--tell", 5), histories("--tell", 5)
    assert first.returncode == 0
    assert first.stdout == second.stdout != ""
