"""The histories of clocks that are off and of owners that stand still find planted bugs."""

from __future__ import annotations

import logging

import pytest

from broker.core.commands import Publish
from broker.owner.replication.following.follower import Followers
from broker.owner.replication.leader import Leaders
from tests.sim.cluster_clocks import ClockHistory

pytestmark = pytest.mark.timeout(600)
SEEDS = 150


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1)


def found_by(*words, trait="", faults=()):
    """The first seed whose history ends with one of the words, or None. See test_cluster_planted.py."""
    for seed in range(SEEDS):
        history = ClockHistory(seed)
        if trait and not getattr(history.work, trait):
            continue
        build = history.build

        def only(stack, build=build, history=history):
            build(stack)
            history.habits.faults = list(faults) or history.habits.faults
            history.habits.seconds = min(history.habits.seconds, 8.0)

        history.build = only
        try:
            history.run()
        except Exception as error:
            if any(word in str(error) for word in words):
                return seed
    return None


def test_an_owner_believes_the_clock_of_an_edge(monkeypatch):
    """What is sent with a delay comes at once where the edge is hours behind, or never where it is ahead."""
    monkeypatch.setattr(Publish, "arrive", lambda self, now, ahead=0: None)
    assert found_by("early", "stuck", "missing [message", trait="scheduled", faults=("step",)) is not None


def test_an_owner_that_stood_still_goes_on_handing_out(monkeypatch):
    monkeypatch.setattr(Leaders, "may_dispatch", lambda self, slot: slot in self._leads)
    monkeypatch.setattr(Followers, "promised_until", lambda self, slot: 0.0)
    assert found_by("hands out in epoch", faults=("still",)) is not None
