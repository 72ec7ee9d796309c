"""What edge processes of one broker speak keeps the promises of the link whatever breaks."""

from __future__ import annotations

import pytest

from tests.sim.seeds import histories, parts, seeds


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chosen", parts(seeds(20), 10), ids=lambda chosen: str(chosen[0]))
def test_a_cluster_that_speaks_flat_keeps_its_promises(chosen):
    done = histories("cluster_flat", *chosen, hashes=chosen[0])
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
