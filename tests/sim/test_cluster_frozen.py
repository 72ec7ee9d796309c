"""Edges that come back after owners have given them up (cluster_frozen.py).

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them, STAMPEDE_SEED=5000 others.
"""

from __future__ import annotations

import pytest

from tests.sim.seeds import histories, parts, seeds

FIXED = [730]
"""One stood still before its owner's first answer, and handed on what had been sent to it before it was given up."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chosen", parts([*FIXED, *seeds(60)], 20), ids=lambda chosen: str(chosen[0]))
def test_a_cluster_keeps_its_promises_when_edges_come_back_that_were_given_up(chosen):
    done = histories("cluster_frozen", *chosen, hashes=chosen[0])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
