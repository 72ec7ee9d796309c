"""Histories of a whole cluster: three owners, edges, the metadata store, and all that can happen to them.

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them, STAMPEDE_SEED=5000 others. A failure tells its seed, and
`python -m tests.sim.cluster_full SEED` shows it again. They run in processes of their own, under different
PYTHONHASHSEED, so that nobody begins to rely on the order of a set.
"""

from __future__ import annotations

import pytest

from tests.sim.seeds import histories, parts, seeds

PER_TEST = 50


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chosen", parts(seeds(1000), PER_TEST), ids=lambda chosen: str(chosen[0]))
def test_a_cluster_keeps_its_promises(chosen):
    done = histories("cluster_full", *chosen, hashes=chosen[0])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.parametrize("seed", [5, 218])
def test_a_history_repeats_itself(seed):
    """Whatever the order of sets, and wherever objects lie in memory."""
    first, second = [histories("cluster_full", "--tell", seed, hashes=hashes) for hashes in (1, 2)]
    assert first.returncode == 0, first.stdout[-2000:] + first.stderr[-2000:]
    assert first.stdout == second.stdout != ""
