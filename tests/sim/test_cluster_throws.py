"""Engines that throw in whole clusters: nothing promised breaks, and one slot never takes all owners with it."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from broker.engine.at_work import stated
from broker.engine.engine import Engine
from broker.link.edge_side.cluster_port import ClusterPort
from broker.metadata.port import Delete, Put
from tests.sim import cluster_history
from tests.sim.cluster_full import KEYS, ClusterHistory
from tests.sim.cluster_processes import SLOTS
from tests.sim.cluster_world import Alarms

pytestmark = pytest.mark.timeout(600)
PLANTED = "planted in an engine"


class Planted(RuntimeError):
    pass


class Deaf(Alarms):
    """What was planted is no finding."""

    def emit(self, record):
        if not (record.exc_info and isinstance(record.exc_info[1], Planted)):
            super().emit(record)


@pytest.fixture(autouse=True)
def quiet(caplog, monkeypatch):
    caplog.set_level(logging.CRITICAL + 1)
    monkeypatch.setattr(cluster_history, "Alarms", Deaf)


class Thrown(ClusterHistory):
    """`due(slot)`: does the engine of that slot throw now, when it is about to hand out."""

    def __init__(self, seed, monkeypatch):
        super().__init__(seed)
        self.throws: list[int] = []
        history, flush = self, Engine.flush

        def poisoned(self, turn):
            if history.safety and history.loop.now > 0.8 and history.due(self.number):
                history.throws.append(self.number)
                history.model.calm = False  # its owner ends, and what is not durable with it
                raise Planted(PLANTED)
            return flush(self, turn)

        monkeypatch.setattr(Engine, "flush", stated(poisoned))

    def due(self, slot):
        raise NotImplementedError

    def shelved(self):
        return [record for record in self.probes.records.values() if record.shelved]


class Once(Thrown):
    """Each slot one time, whatever else goes wrong meanwhile."""

    def due(self, slot):
        return slot not in self.throws and self._nobody_is_down()

    def _nobody_is_down(self):
        return all(host.running for host in self.world.of("owner"))


class Always(Thrown):
    """One slot, whoever leads it, until somebody mends it."""

    def __init__(self, seed, monkeypatch):
        super().__init__(seed, monkeypatch)
        self.habits.faults = []
        self.world.flaky = 0.0
        self.habits.seconds = 6.0

    def due(self, slot):
        return slot == (self.throws[0] if self.throws else slot)

    def _heal(self):
        self.found = [replace(record) for record in self.shelved()]
        self.safety = False
        for record in self.found:
            back = replace(record, shelved="")
            key = KEYS.slot(record.slot)
            self.world.store.commit(
                [(key, record.revision)], [Put(key, back.encode()), Delete(KEYS.throw(record.slot))]
            )
        super()._heal()


@pytest.mark.parametrize("seed", range(24))
def test_an_owner_whose_engine_throws_has_told_nothing_that_does_not_hold(seed, monkeypatch):
    history = Once(seed, monkeypatch)
    history.run()
    assert not history.shelved() and len(set(history.throws)) == len(history.throws)


@pytest.mark.parametrize("seed", range(8))
def test_a_slot_that_throws_wherever_it_is_led_stops_two_owners_and_is_shelved(seed, monkeypatch):
    """All other slots go on; when it was mended and taken off the shelf, it has everything it had."""
    # Clients of this simulation ask for nothing twice: they wait for the slot instead of being refused.
    offline = ClusterPort.offline
    monkeypatch.setattr(ClusterPort, "offline", lambda self, slot, shelved="": offline(self, slot))
    history = Always(seed, monkeypatch)
    history.run()
    ends = [line for line in history.world.diary if " ends: internal error" in line]
    if not history.throws:
        pytest.skip("no traffic")
    assert [record.slot for record in history.found] == history.throws[:1]
    assert len(history.throws) == len(ends) == 2
    assert not history.shelved() and len(history.probes.records) == SLOTS
