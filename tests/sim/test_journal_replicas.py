"""Whoever says that it holds a slot's log up to a place holds exactly what that place means (I5)."""

from __future__ import annotations

import pytest

from tests.sim.journal_replicas import World

SCHEDULES = 400
PER_TEST = 50
STEPS = 300


@pytest.mark.parametrize("start", range(0, SCHEDULES, PER_TEST))
def test_logs_that_say_the_same_are_the_same(start):
    copies = tails = crashes = 0
    for seed in range(start, start + PER_TEST):
        try:
            world = World(seed).run(STEPS)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
        copies, tails, crashes = copies + world.copies, tails + world.tails, crashes + world.crashes
    assert min(copies, tails, crashes) > PER_TEST, "the histories do not meet what they are about"
