"""Machines whose clocks are off by hours and step, and owners that stand still for minutes (cluster_clocks.py).

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them, STAMPEDE_SEED=5000 others.
"""

from __future__ import annotations

import pytest

from tests.sim.seeds import histories, parts, seeds


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chosen", parts(seeds(20), 10), ids=lambda chosen: str(chosen[0]))
def test_a_cluster_keeps_its_promises_whatever_the_clocks_of_its_edges_say(chosen):
    done = histories("cluster_clocks", *chosen, hashes=chosen[0])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
