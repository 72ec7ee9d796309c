"""Histories of a whole shard on a simulated disk; STAMPEDE_SIM_SEEDS=20000 runs more of them."""

from __future__ import annotations

import logging
import os

import pytest

from tests.sim.shard_history import History

SCHEDULES = int(os.environ.get("STAMPEDE_SIM_SEEDS", "1000"))
PER_TEST = 50


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1)


@pytest.mark.parametrize("start", range(0, SCHEDULES, PER_TEST))
def test_clients_get_what_they_were_promised(start):
    for seed in range(start, start + PER_TEST):
        try:
            History(seed).run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
