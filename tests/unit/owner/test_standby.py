"""A standby becomes the engine the leader had: what was settled stays away, the rest is there once, in order."""

from __future__ import annotations

import tracemalloc

from broker.config.settings import EngineSettings
from broker.core.effects import Turn
from broker.core.message import DURABLE, Run
from broker.core.records import MetaRecord, RunRecord, SettleRecord
from broker.engine.engine import Engine
from broker.journal.log import format as f
from broker.owner.slots.standby import PRUNE_SLACK, Standby, joined
from tests.harness.queues import stats

QUEUE = {"id": 1, "name": "a", "address": "a", "routing": 1, "auto": False, "subscription": False}


class LiveIndex:
    """journal.settled, from a set of live ids."""

    def __init__(self, *live: int) -> None:
        self.live = set(live)

    def settled(self, record):
        gone = [(i, i) for i in record.run.ids if i not in self.live]
        return None if len(gone) == len(record.run.ids) else {1: gone} if gone else {}


def run(first, count=1, dedup=None):
    return RunRecord(
        7, "a", [1], Run(range(first, first + count), b"", [], 10 * count, DURABLE, position=first), dedup=dedup
    )


def standby_of(*changes, live_index):
    standby = Standby(Engine(7, EngineSettings()))
    standby.apply([MetaRecord(7, "queue", QUEUE), *changes], live_index)
    return standby


def promoted(standby, live_index, most=1):
    while not standby.rouse(live_index, 1 << 40, most):
        pass
    for _ in standby.promote(Turn(1000, 1)):
        pass
    return standby.engine


def queue_of(engine):
    (found,) = stats(engine)
    return found


def test_promotion_brings_what_is_alive():
    live_index = LiveIndex(2, 3, 10, 11)
    standby = standby_of(run(10, 2), run(1, 3), run(5, 2), SettleRecord(7, 1, [(1, 1), (5, 6)]), live_index=live_index)
    engine = promoted(standby, live_index)
    assert queue_of(engine)["paged"] == 4


def test_two_copies_of_a_run_count_once():
    live_index = LiveIndex(1, 2, 3, 4)
    standby = Standby(Engine(7, EngineSettings()))
    halves = [(run(1, 4), {1: [(3, 4)]}), (run(1, 4), {1: [(1, 2)]})]
    standby.restore([MetaRecord(7, "queue", QUEUE)], halves, {})
    assert queue_of(promoted(standby, live_index))["paged"] == 4


def test_joined():
    record = run(1, 4)
    assert joined({1: [(1, 2)]}, {}, record) == {1: [(1, 2)]}
    assert joined({1: [(1, 2)]}, {1: [(2, 3)]}, record) == {1: [(1, 3)]}
    assert joined({1: [(1, 2)]}, {1: [(3, 4)]}, record) is None


def test_a_number_that_was_taken_by_the_leader_is_known():
    live_index = LiveIndex(1)
    standby = standby_of(run(1, dedup=(99, 5)), live_index=live_index)
    engine = promoted(standby, live_index)
    assert engine.duplicate((99, 5)) and not engine.duplicate((99, 6))


def test_dead_runs_are_forgotten():
    live_index = LiveIndex()
    standby = standby_of(live_index=live_index)
    for first in range(1, 5 * PRUNE_SLACK):
        standby.apply([run(first)], live_index)
    assert standby.size <= PRUNE_SLACK + 1


def test_memory_of_a_run_of_one_message():
    """As they come from a leader: each with its number of a producer, an address and queues of its own making."""
    count, token = 4000, 0x7ABCDEF012345678
    items = []
    for first in range(1, count + 1):
        body = Run(
            range(first, first + 1), b"destination:/queue/orders\n\n", [b"x\0"], 30, DURABLE, time=1 << 40 | first
        )
        flags, payload = f.run_payload(RunRecord(7, "orders.of.somebody", [1], body, dedup=(token, first)))
        items.append((flags, b"".join(payload)))
    standby, live_index = Standby(Engine(7, EngineSettings())), LiveIndex(*range(1, count + 1))
    tracemalloc.start()
    try:
        for flags, data in items:
            standby.apply([f.read_run(data, 0, flags, 7, bodies=False)], live_index)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert standby.size == count and used / count < 560
    assert standby.engine.duplicate((token, count)) and not standby.engine.duplicate((token, count + 1))
