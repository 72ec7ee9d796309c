"""Crash schedules: whatever the disk loses, what was told is there and what was settled is gone."""

from __future__ import annotations

import pytest

from tests.sim.journal_world import World

SCHEDULES = 2000
PER_TEST = 100


@pytest.mark.parametrize("start", range(0, SCHEDULES, PER_TEST))
def test_what_was_told_survives_every_crash(start):
    for seed in range(start, start + PER_TEST):
        try:
            World(seed).run(steps=60, crashes=3)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
