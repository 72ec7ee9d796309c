"""A history of a whole cluster: three owners, some edges, the metadata store."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from broker.cluster.keys import Keys
from broker.metadata.port import Put
from tests.harness.queues import stats
from tests.sim.checker import Violation
from tests.sim.cluster_checkers import Copy
from tests.sim.cluster_history import History
from tests.sim.cluster_probes import Probes
from tests.sim.cluster_processes import FOLDER, PREFIX, SLOTS, EdgeLife, OwnerLife, seams, settings_of, small_pieces
from tests.sim.cluster_world import Host

KEYS = Keys(PREFIX)
OWNERS = 3
FOR_EVER = 1 << 62
"""Later than any wall clock."""


class ClusterHistory(History):
    def build(self, stack: ExitStack) -> None:
        seams(self.world, stack)
        if self.work.large:
            small_pieces(stack)
        self.settings = settings_of(self.random, self.work.diverted, self.work.kept)
        for n in range(OWNERS):
            name = f"owner-{n}"
            self.world.host(name, "owner", partial(OwnerLife, self.named(name)))
        for n in range(self.random.choice((1, 2, 2, 3))):
            name = f"edge-{n}"
            self.world.host(name, "edge", partial(EdgeLife, self.named(name), self.attach))
        self.probes = Probes(self.world, FOLDER, self.settings.journal, KEYS.slots, self._found)
        self.probes.give_up = self.give_up
        self.probes.unheard = self.left_out
        self.probes.told = self.work.watch.told
        self.probes.moved = self.moved
        self.probes.kept_back = self.work.watch.kept_back
        self.probes.failed = lambda slot, epoch: self.work.watch.failed.add((slot, epoch))
        self.probes.install(stack)

    def give_up(self, edge: str) -> None:
        if (clients := self.clients.get(edge)) is not None:
            clients.doubt()

    def left_out(self, edge: str, slot: int, epoch: int) -> None:
        """The lease of that edge has ended: a new leader of that slot does not wait for what it holds there."""
        self.work.watch.left_out(edge, slot, epoch)
        if (clients := self.clients.get(edge)) is not None:
            clients.doubt(slot)

    def moved(self) -> None:
        """What is not durable stays behind."""
        self.model.calm = False

    def named(self, name: str):
        cluster = replace(self.settings.cluster, id=name, advertise=f"{name}:61700")
        return replace(self.settings, cluster=cluster)

    # ── faults ─────────────────────────────────────────────────────────────────────────────────────

    def spare(self, host: Host) -> bool:
        return self.probes.spare(host.name)

    def taken_out(self, host: Host) -> None:
        self.probes.taken_out(host)

    def transfer(self) -> None:
        """An operator moves a leader."""
        records = [record for record in self.probes.records.values() if len(record.isr) > 1 and record.leader]
        if records:
            record = self.random.choice(records)
            target = self.random.choice([name for name in record.isr if name != record.leader])
            moved = replace(record, target=target)
            self.world.store.commit([(KEYS.slot(record.slot), record.revision)],
                                    [Put(KEYS.slot(record.slot), moved.encode())])  # fmt: skip

    def receipted(self, copies: list[Copy]) -> None:
        self.probes.receipted(copies, self.settings.cluster.min_in_sync)

    # ── at rest ────────────────────────────────────────────────────────────────────────────────────

    def at_rest(self) -> bool:
        owners = self.world.of("owner")
        if not all(host.process is not None and host.process.started for host in self.world.hosts.values()):
            return False
        records = self.probes.records
        if len(records) < SLOTS or any(len(r.isr) < OWNERS or not r.leader or r.target for r in records.values()):
            return False
        processes = {host.name: host.process.process for host in owners}
        if sum(process.lifecycle.serving() for process in processes.values()) != SLOTS:
            return False
        if any(p.journal.inflight_bytes or p.shard.congested for p in processes.values()):
            return False
        return all(len({processes[name].journal.last(slot) for name in record.isr}) == 1
                   for slot, record in records.items())  # fmt: skip

    def check_rest(self) -> None:
        self.probes.compare_replicas()

    def drained(self) -> bool:
        """Leaders hold nothing any more, whatever for; nor are transactions in doubt, which takes up to two seconds to
        end when a coordinator was deposed, and whose parked messages are in the logs until then."""
        owners = self.world.of("owner")
        # Between two leaders nobody holds anything, either.
        if sum(host.process.process.lifecycle.serving() for host in owners) != SLOTS:
            return False
        for host in owners:
            for engine in host.process.process.shard.engines.values():
                if engine.undecided() or engine.in_doubt(FOR_EVER):
                    return False
                for queue in stats(engine):
                    if any(queue[where] for where in ("ready", "paged", "delivering", "delayed", "scheduled")):
                        return False
        keepers = [host.process.process.keeper for host in self.world.of("edge") if host.process is not None]
        return not any(keeper is not None and keeper.nbytes + keeper.in_memory for keeper in keepers)

    def stuck(self) -> str:
        queues = []
        for host in self.world.of("owner"):
            if host.process is not None and host.process.started:
                for slot, engine in host.process.process.shard.engines.items():
                    queues += [(host.name, slot, q) for q in stats(engine) if q["ready"] or q["delivering"]]
        left = self.probes.bodies()[:4]
        return f"{super().stuck()}, queues {queues[:4]}, bodies {left}, records {self.probes.records}"

    def _drain(self) -> None:
        super()._drain()
        self.loop.run_for(0.1)
        # Both: a leader may have gone elsewhere since, and a consumer that comes again may hold something there.
        self._wait("not at rest in the end", lambda: self.at_rest() and self.drained(), self.loop.now)
        if left := self.probes.compare_replicas():
            raise Violation(f"left on disk: {sorted(left)[:5]}, {len(left)} in all")
        self._wait("large bodies are left", lambda: not self.probes.bodies(), self.loop.now)


def main(args: list[str], kind: type[ClusterHistory] = ClusterHistory) -> int:
    """Runs the seeds named; with --tell, their diaries. The number of those that failed."""
    logger = logging.getLogger("stampede")
    logger.propagate = False
    failed = 0
    for seed in [int(arg) for arg in args if arg != "--tell"]:
        history = kind(seed)
        try:
            history.run()
        except BaseException as error:
            failed += 1
            print(f"seed {seed}: {error!r}", *getattr(error, "__notes__", ()), sep="\n")
        if "--tell" in args:
            print(*history.world.diary, history.loop.steps, history.model.deliveries, sep="\n")
    return min(failed, 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
