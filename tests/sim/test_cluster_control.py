"""The control plane alone: real membership, slot table and controller; owners that only pretend to lead and follow."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest

from broker.cluster.controller import Controller
from broker.cluster.keys import Keys
from broker.cluster.membership import Membership
from broker.cluster.planning.view import health
from broker.cluster.slots import SlotTable
from broker.config.settings import ClusterSettings
from broker.core.errors import RefusedError
from broker.core.slots import Member
from broker.metadata.port import MetadataUnavailable
from tests.sim.checker import Violation
from tests.sim.cluster_history import History
from tests.sim.cluster_probes import Probes
from tests.sim.cluster_world import Host, everywhere
from tests.sim.disk import SimDisk

SCHEDULES = int(os.environ.get("STAMPEDE_CLUSTER_SEEDS", "1000")) // 10
PER_TEST = 10
SLOTS = 8
KEYS = Keys("/sim")


class ToyOwner:
    """Does at once what a leader does after a while."""

    def __init__(self, history: ControlHistory, host: Host) -> None:
        self.host = host
        self.settings = history.settings
        self._metadata = host.metadata(0.5)
        self._clock = host.clock()
        disk = history.disks.setdefault(host.disk, f"{history.random.getrandbits(64):016x}")
        me = Member(host.name, "owner", host.address, f"{host.name}.{host.lives}", disk)
        self.membership = Membership(
            self._metadata, KEYS, self.settings, me, self._clock,
            on_lost=self._lost, on_registered=lambda: None, on_refused=self._refused,
        )  # fmt: skip
        self.table = SlotTable(self._metadata, KEYS)
        self.controller = Controller(self._metadata, KEYS, self.settings, self.membership, self.table, self._clock)
        self._tasks = [host.place.spawn(self._run())]

    async def _run(self) -> None:
        await self.table.start()
        try:
            await self.membership.start()
        except RefusedError as error:
            self._refused(error)
        await self.controller.start()
        while True:
            await asyncio.sleep(0.05)
            if self.membership.up and self.host.name in self.membership.owners:
                for record in list(self.table.records.values()):
                    if record.leader == self.host.name:
                        await self._lead(record)

    async def _lead(self, record) -> None:
        owners, new = self.membership.owners, record
        if record.target:
            if record.target in record.isr:
                new = replace(record, leader=record.target, epoch=record.epoch + 1, target="")
        elif gone := [o for o in record.isr if o not in owners]:
            if len(record.isr) - len(gone) >= self.settings.min_in_sync:
                new = record.with_isr([o for o in record.isr if o not in gone])
        elif fresh := [o for o in record.replicas if o not in record.isr and o in owners]:
            new = record.with_isr([*record.isr, *fresh])
        if new != record:
            try:
                await self.table.cas(record, new)
            except MetadataUnavailable:
                pass

    async def _lost(self, why: str) -> None:
        """Stop leading: nothing to do."""

    def _refused(self, error) -> None:
        self.host.exit(str(error))

    async def stop(self) -> None:
        await self.membership.set_leaving()
        await asyncio.sleep(0.3)
        for task in self._tasks:
            task.cancel()
        await self.controller.stop()
        await self.table.stop()
        await self.membership.withdraw()


class ControlHistory(History):
    def build(self, stack: ExitStack) -> None:
        self.disks: dict[SimDisk, str] = {}
        """What stands on them: their ids."""
        stack.enter_context(everywhere("SLOTS", SLOTS))
        self.settings = ClusterSettings(lease_s=2.0, replace_after_s=self.random.choice((1.0, 60.0)))
        for n in range(self.random.choice((1, 2, 3, 3, 3, 5))):
            self.world.host(f"owner-{n}", "owner", partial(ToyOwner, self))
        self.habits.faults = [f for f in self.habits.faults if f not in ("slow", "edge", "transfer", "cut")]
        self.probes = Probes(self.world, "", None, KEYS.slots, self._found)

    def spare(self, host: Host) -> bool:
        return self.probes.spare(host.name)

    def taken_out(self, host: Host) -> None:
        self.probes.taken_out(host)

    def at_rest(self) -> bool:
        if not all(host.process for host in self.world.of("owner")):
            return False
        views = [host.process.controller.view() for host in self.world.of("owner")]
        seen = [health(view) for view in views]
        owners = len(views)
        quiet = all(h.online == SLOTS and not (h.stalled and owners > 1) and not h.seeding for h in seen)
        whole = all(not h.under_replicated and not h.transfers for h in seen)
        return quiet and whole and all(len(view.owners) == owners for view in views)

    def check_rest(self) -> None:
        """A cluster at rest is balanced, and writes nothing any more."""
        self.loop.run_for(5.0)
        before = self.probes.changes
        self.loop.run_for(5.0)
        if self.probes.changes != before:
            raise Violation(f"{self.probes.changes - before} changes of slot records at rest")
        leads = [r.leader for r in self.probes.records.values()]
        spread = [leads.count(host.name) for host in self.world.of("owner")]
        if max(spread) - min(spread) > 1:
            raise Violation(f"leaders are not balanced: {spread}")

    def stuck(self) -> str:
        return f"{[health(host.process.controller.view()) for host in self.world.of('owner')]}"


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1)


@pytest.mark.parametrize("start", range(0, SCHEDULES, PER_TEST))
def test_the_table_keeps_its_rules_and_comes_to_rest(start):
    for seed in range(start, start + PER_TEST):
        try:
            ControlHistory(seed).run()
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
