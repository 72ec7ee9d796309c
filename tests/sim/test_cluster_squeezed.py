"""Histories of clusters whose owners are always short of memory: queues go to disk and come back in the middle of all
that can happen to a cluster, and every promise holds.

STAMPEDE_CLUSTER_SEEDS=100 runs so many more, STAMPEDE_SEED=5000 from there on.
"""

from __future__ import annotations

import pytest

from broker.app import member
from broker.config.settings import Settings
from broker.core.memory import Memory
from broker.owner.shard.memory_pressure import Pressure

from .cluster_full import ClusterHistory
from .seeds import parts, seeds

FIXED = [8, 19, 26, 35, 40, 90]
"""In each of them queues go to disk."""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("chosen", [*parts(FIXED, 1), *parts(seeds(0), 20)], ids=lambda chosen: str(chosen[0]))
def test_owners_that_are_short_of_memory_keep_every_promise(chosen: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    put_away = 0
    press = Pressure._press

    def short(settings: Settings) -> Memory:
        memory = Memory()  # near its bound almost at once, and never at it: nobody is refused
        memory.near, memory.low = 2000, 1000
        return memory

    def counted(self: Pressure, *asked: object) -> None:
        nonlocal put_away
        before = self.put_away
        press(self, *asked)  # type: ignore[arg-type]
        put_away += self.put_away - before

    monkeypatch.setattr(member, "memory_of", short)
    monkeypatch.setattr(Pressure, "_press", counted)
    for seed in chosen:
        ClusterHistory(seed).run()
    assert put_away
