"""Histories of a whole cluster: three owners, edges, the metadata store, and all that can happen to them.

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them. A failure tells its seed and the end of the diary; run it alone with
PYTHONHASHSEED=0 to see it again: `ClusterHistory(seed).run()`.
"""

from __future__ import annotations

import logging
import os

import pytest

from tests.sim.cluster_full import ClusterHistory

SCHEDULES = int(os.environ.get("STAMPEDE_CLUSTER_SEEDS", "400"))
PER_TEST = 10


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1)


@pytest.mark.parametrize("start", range(0, SCHEDULES, PER_TEST))
def test_a_cluster_keeps_its_promises(start):
    for seed in range(start, start + PER_TEST):
        try:
            ClusterHistory(seed).run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}\n{''.join(getattr(error, '__notes__', []))}") from error


def test_a_history_repeats_itself():
    def told():
        history = ClusterHistory(5)
        history.run()
        return history.world.diary, history.loop.steps, history.model.deliveries

    assert told() == told()
