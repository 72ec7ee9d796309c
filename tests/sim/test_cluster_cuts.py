"""A cluster whose owners are cut off from one another only, or from its edges, or which has a pair of processes that do
not reach each other, while streams of its edges are reset (cluster_cuts.py, cluster_reach.py).

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them, STAMPEDE_SEED=5000 others.
"""

from __future__ import annotations

import pytest

from tests.sim.seeds import histories, parts, seeds

FIXED = [3, 46, 57, 72, 101, 108, 222, 232]
"""A repeated ACK was answered before its first try was replicated."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chosen", parts([*FIXED, *seeds(52)], 30), ids=lambda chosen: str(chosen[0]))
def test_a_cluster_keeps_its_promises_when_owners_are_cut_off_from_each_other(chosen):
    done = histories("cluster_cuts", *chosen, hashes=chosen[0])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chosen", parts(seeds(20), 10), ids=lambda chosen: str(chosen[0]))
def test_a_cluster_keeps_its_promises_when_edges_or_a_pair_do_not_reach_an_owner(chosen):
    done = histories("cluster_reach", *chosen, hashes=chosen[0])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
