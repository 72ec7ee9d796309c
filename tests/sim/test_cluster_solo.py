"""The history's machinery on the smallest thing that can have one: edge and owner in one process, one disk."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import pytest

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings, JournalSettings, Settings
from broker.journal.journal import Journal
from broker.link.local_port import LocalOwner
from broker.owner.shard.shard import Shard
from tests.sim.cluster_history import History
from tests.sim.cluster_processes import SLOTS, diverts_of
from tests.sim.cluster_world import Host, everywhere

FOLDER = "/data/journal"
SETTINGS = Settings(
    engine=EngineSettings(
        2000,
        1000,
        4,
        AddressSettings(max_delivery_attempts=3, redelivery_delay_ms=0, dead_letter_address="DLQ"),
        {"DLQ": {"max_delivery_attempts": -1}},
    ),
    journal=JournalSettings(segment_bytes=16_384, min_free_bytes=0),
)


class Solo:
    """A process."""

    def __init__(self, history: SoloHistory, host: Host) -> None:
        loop = host.world.loop
        engine = replace(SETTINGS.engine, diverts=diverts_of(history.work.diverted))
        settings = replace(SETTINGS, engine=engine)
        self.journal = Journal.open(host.disk, FOLDER, settings.journal)
        self.shard = Shard(
            settings, self.journal, host.clock(), host.io(), host.io(), host.io(), loop.call_soon, self._alarm(host),
            loop.call_later,
        )  # fmt: skip
        port = LocalOwner(self.shard, host.io())
        history.attach(host, port)
        self.shard.recover()

    @staticmethod
    def _alarm(host: Host):
        clock = host.clock()
        return lambda at, call: host.world.loop.call_later(max(0, at - clock.wall_ms()) / 1000, call)

    async def stop(self) -> None:
        """Nothing to say."""


class SoloHistory(History):
    def build(self, stack: ExitStack) -> None:
        stack.enter_context(everywhere("SLOTS", SLOTS))
        stack.enter_context(patch("broker.journal.log.store.token", lambda _: "0" * 32))
        self.world.host("solo", "edge", partial(Solo, self))
        self.habits.faults = [f for f in self.habits.faults if f in ("edge", "freeze", "slow")]


def found_by(seeds):
    """What the first history that fails says, or None."""
    for seed in range(seeds):
        try:
            SoloHistory(seed).run()
        except Exception as error:
            return str(error)
    return None


def test_one_process_keeps_its_promises():
    assert found_by(20) is None


def test_a_history_repeats_itself():
    def diary():
        history = SoloHistory(7)
        history.run()
        return history.world.diary, history.loop.steps, history.model.deliveries

    assert diary() == diary()


@pytest.mark.parametrize("bug", ["receipt before sync", "settle forgotten", "delivered twice"])
def test_the_model_sees(monkeypatch, bug):
    if bug == "receipt before sync":
        monkeypatch.setattr("tests.sim.disk.SimDisk.synced", lambda *_: None)
    elif bug == "settle forgotten":
        monkeypatch.setattr("broker.engine.state.slot.Slot.settle_ids", lambda *_: None)
    else:
        from broker.engine.consumers.consumer import Consumer

        monkeypatch.setattr(Consumer, "charge", lambda self, run: run.nbytes + len(run) * self.overhead)
    assert found_by(60)
