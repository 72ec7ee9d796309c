"""Histories of a whole shard on a simulated disk; STAMPEDE_SIM_SEEDS=20000 runs more of them, STAMPEDE_SEED
others."""

from __future__ import annotations

import logging

import pytest

from broker.engine import end_of_turn
from broker.engine.dispatch import settle
from broker.engine.queue.large_returns import ReturningSessions
from broker.engine.routing import returns
from broker.owner.transactions import large_commits, transact
from tests.sim.seeds import parts, seeds
from tests.sim.shard_history import History

PER_TEST = 50
WORDS = 200


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1)


@pytest.mark.parametrize(
    "chosen", parts(seeds(1000, "STAMPEDE_SIM_SEEDS"), PER_TEST), ids=lambda chosen: str(chosen[0])
)
def test_clients_get_what_they_were_promised(chosen):
    at_once = 0
    for seed in chosen:
        try:
            history = History(seed)
            history.run()
            at_once += history.at_once
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    assert at_once > len(chosen) // 5, "some had a turn of their own (few are not durable), others one with what waited"


def test_also_when_each_commit_is_carried_out_in_pieces(monkeypatch):
    """Else only those of a hundred parts are, which no history draws."""
    monkeypatch.setattr(transact, "large", lambda commit: True)
    monkeypatch.setattr(transact, "PIECE", 1)
    monkeypatch.setattr(transact, "CHECKED", 1)
    monkeypatch.setattr(large_commits, "PIECE", 1)
    begun = []
    begin = large_commits.LargeCommit.__init__

    def counted(commit, *args):
        begun.append(commit)
        begin(commit, *args)

    monkeypatch.setattr(large_commits.LargeCommit, "__init__", counted)
    for seed in range(120):
        try:
            History(seed).run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    assert len(begun) > 100, "what is refused at its first part, or known already, is one step all the same"


def test_also_when_what_is_given_back_comes_back_bit_by_bit(monkeypatch):
    """Else only much does: a history has no client that holds so many."""
    for where in (returns, settle):
        monkeypatch.setattr(where, "BACK", 1)
    monkeypatch.setattr(returns, "LIGHT", 1)
    for where in (returns, end_of_turn):
        monkeypatch.setattr(where, "RETURNED", 3)
        monkeypatch.setattr(where, "LEAST_RETURNED", 1)
    words = []
    begins = ReturningSessions.begins

    def counted(sessions, returning):
        if returning.session:
            words.append(returning.left)
        begins(sessions, returning)

    monkeypatch.setattr(ReturningSessions, "begins", counted)
    for seed in range(2000, 2000 + WORDS):
        try:
            History(seed).run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    assert len(words) > WORDS // 2, "words of several messages were drawn"
