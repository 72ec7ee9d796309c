"""Histories of a whole cluster: three owners, edges, the metadata store, and all that can happen to them.

STAMPEDE_CLUSTER_SEEDS=10000 runs more of them. A failure tells its seed and the end of the diary; run it alone with
PYTHONHASHSEED=0 to see it again: `ClusterHistory(seed).run()`.
"""

from __future__ import annotations

import logging
import os

import pytest

from tests.sim.cluster_full import ClusterHistory

OPEN = {
    55: "a dead letter that the model does not expect",
    89: "a settled message stays on one disk",
    259: "a settled message stays on one disk",
    218: "a message stays with a consumer that never got it",
    281: "a message stays with a consumer that never got it",
    273: "a message is missing at the end",
}
"""Histories whose cause is not found yet (docs/reliability.md). They are run and may fail; none is added in silence."""
SCHEDULES = int(os.environ.get("STAMPEDE_CLUSTER_SEEDS", "400"))
PER_TEST = 10


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1)


@pytest.mark.parametrize("start", range(0, SCHEDULES, PER_TEST))
def test_a_cluster_keeps_its_promises(start):
    for seed in range(start, start + PER_TEST):
        if seed in OPEN:
            continue
        try:
            ClusterHistory(seed).run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}\n{''.join(getattr(error, '__notes__', []))}") from error


@pytest.mark.xfail(reason="known, see OPEN", strict=False)
@pytest.mark.parametrize("seed", OPEN)
def test_an_open_history(seed):
    ClusterHistory(seed).run()


def test_a_history_repeats_itself():
    def told():
        history = ClusterHistory(5)
        history.run()
        return history.world.diary, history.loop.steps, history.model.deliveries

    assert told() == told()
