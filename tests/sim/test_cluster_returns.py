"""Histories of clusters where each ACK and NACK of several messages is carried out bit by bit, as only those of very
much are (broker/engine/routing/returns.py): owners die, and edges come back, in the middle of it.

STAMPEDE_CLUSTER_SEEDS=100 runs so many more, STAMPEDE_SEED=5000 from there on.
"""

from __future__ import annotations

import pytest

from broker.engine import end_of_turn
from broker.engine.dispatch import settle
from broker.engine.queue.large_returns import LargeReturn, ReturningSessions
from broker.engine.routing import returns

from .cluster_cuts import CutHistory
from .cluster_frozen import FrozenHistory
from .cluster_full import ClusterHistory
from .seeds import parts, seeds

FIXED = [*range(4000, 4012), 306]
"""306, with edges that come back: a COMMIT was refused for an edge that had not come back yet, not for what it said."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [ClusterHistory, FrozenHistory, CutHistory])
@pytest.mark.parametrize("chosen", [*parts(FIXED, 13), *parts(seeds(0), 20)], ids=lambda chosen: str(chosen[0]))
def test_what_is_under_way_when_an_owner_dies_breaks_no_promise(
    kind: type[ClusterHistory], chosen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(returns, "LIGHT", 1)
    for where in (returns, settle):
        monkeypatch.setattr(where, "BACK", 1)
    for where in (returns, end_of_turn):
        monkeypatch.setattr(where, "RETURNED", 3)
        monkeypatch.setattr(where, "LEAST_RETURNED", 1)
    words = 0
    begins = ReturningSessions.begins

    def counted(sessions: ReturningSessions, returning: LargeReturn) -> None:
        nonlocal words
        words += bool(returning.session)
        begins(sessions, returning)

    monkeypatch.setattr(ReturningSessions, "begins", counted)
    for seed in chosen:
        try:
            kind(seed).run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    assert words > len(chosen), "they were drawn"
