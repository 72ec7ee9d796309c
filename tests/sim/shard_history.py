"""A history of a shard: several lives with faults and their ends, and what must be true at rest and in the end."""

from __future__ import annotations

import errno
from unittest.mock import patch

from tests.harness.queues import stats
from tests.sim.checker import Violation
from tests.sim.disk import PowerLoss
from tests.sim.shard_machine import FOLDER, Machine
from tests.sim.shard_model import HERE, REFUSED
from tests.sim.shard_world import DEAD, EXPIRED, QUEUES, SUBS, World

ENDS = ("power", "power", "power", "kill", "clean", "clean", "fault", "full")
ROUNDS = 80
"""Once faults have ended everything is delivered within so many rounds of draining."""


class History(World):
    def run(self, lives: int = 3, steps: int = 150) -> None:
        """Raises Violation."""
        self.machine = self.open()
        for _ in range(lives):
            end = self.random.choice(ENDS)
            if self._live(end, steps) and end in ("clean", "full"):
                self._stop()
            else:
                self._crash(power=end != "kill")
        self._finish()

    def open(self) -> Machine:
        with patch("broker.journal.log.store.token", lambda _: self.disk_id):
            return Machine(self.disk, self.clock, self.settings, self)

    # ── a life ─────────────────────────────────────────────────────────────────────────────────────

    def _live(self, end: str, steps: int) -> bool:
        """False: the process is gone."""
        random, disk = self.random, self.disk
        if end == "power":
            disk.crash_at = disk.total_calls + random.randrange(1, steps)
        elif end == "fault":
            verb = random.choice(("sync", "pwrite", "pwrite", "pread", "rename", "sync_dir", "open", "remove"))
            disk.fail = {verb: (disk.calls.get(verb, 0) + random.randrange(1, 15), errno.EIO)}
        full_from = random.randrange(steps // 2) if end == "full" else -1
        try:
            for n in range(steps):
                if n == full_from:
                    disk.capacity = disk.used() + random.choice((0, 500, 3000))
                elif n == full_from + steps // 2:
                    self._relieve()
                self.step()
                if self.dead:
                    return False
            self._relieve()
            if end in ("clean", "full"):
                self.rest()
        except PowerLoss:
            return False
        return not self.dead

    def _relieve(self) -> None:
        self.disk.capacity = 1 << 40
        self.disk.fail = {}

    def step(self) -> None:
        machine, luck = self.machine, self.random.random()
        if luck < 0.30:
            machine.turn()
        elif luck < 0.50:
            if busy := machine.busy():
                self.random.choice(busy).run_one()
        elif luck < 0.53:
            machine.advance(self.random.choice((1, 20, 600, 2000)))
        elif luck < 0.56:
            machine.shard.maintain()
        else:
            self.act()

    def act(self) -> None:
        """Somebody asks for something."""
        session, luck = self.session(), self.random.random()
        if luck < 0.25:
            self.publish(session)
        elif luck < 0.28 and self.large:
            self.publish_large(session)
        elif luck < 0.42:
            self.subscribe(session)
        elif luck < 0.62:
            self.settle(session)
        elif luck < 0.72:
            self.transact(session)
        elif luck < 0.90:
            self.grant()
        elif luck < 0.93:
            self.barrier(session)
        elif luck < 0.96:
            self.unsubscribe(session, self.random.random() < 0.3)
        elif luck < 0.97:
            self.disconnect(session)
        elif luck < 0.975:
            self.misbehave(session)

    # ── ends ───────────────────────────────────────────────────────────────────────────────────────

    def _crash(self, power: bool) -> None:
        disk = self.disk
        if power:
            disk.crash()
        else:
            disk.generation += 1
            disk.locked.clear()
        self._relieve()
        disk.crash_at = 0
        self._reborn(clean=False)
        if self.random.random() < 0.15:
            disk.crash_at = disk.total_calls + self.random.randrange(1, 40)
            try:
                self.open()
            except PowerLoss:
                pass
            disk.crash()
        self.machine = self.open()

    def _stop(self) -> None:
        """Like app.standalone: sessions end, the shard comes to rest, the journal is closed."""
        machine, idle = self.machine, []
        for session in list(self.sessions.values()):
            self.disconnect(session)
        machine.shard.when_idle(lambda: idle.append(True))
        for _ in range(3000):
            if idle:
                break
            if not machine.turn():
                for io in machine.busy():
                    io.run_one()
        else:
            raise Violation("the shard never comes to rest")
        if self.random.random() < 0.5:
            machine.quiesce()
        for io in machine.busy():
            while io.jobs:
                io.run_one()
        machine.journal.close(clean=True)
        if self.random.random() < 0.5:
            self.disk.crash()
        self._reborn(clean=True)
        self.machine = self.open()
        if not self.machine.journal.recovered.clean:
            raise Violation("a clean end is not seen as one")

    def _reborn(self, clean: bool) -> None:
        if not clean:
            for request in self.pending.values():
                if request.sub:
                    self.subs[request.sub] = "maybe"
        self.pending.clear()
        self.sessions.clear()
        for holder in self.holders.values():
            holder.ended = True
            holder.ledger.clear()
        self.model.restarted(clean)
        self.dead = ""
        self.reading = self.returned = 0

    # ── at rest ────────────────────────────────────────────────────────────────────────────────────

    def rest(self) -> None:
        """Nothing fails and time passes a little: everything comes to rest, and then much must be true."""
        machine = self.machine
        for _ in range(8):
            if not machine.quiesce():
                raise Violation("it never comes to rest")
            machine.shard.maintain()
            machine.advance(600)
        if not machine.quiesce():
            raise Violation("it never comes to rest")
        if self.dead:
            raise Violation(f"stopped without a fault: {self.dead}")
        if self.pending:
            raise Violation(f"never answered: {sorted(self.pending)}")
        # What nobody waits for is written soon.
        waits = machine.journal.inflight_bytes and not machine.shard._commits._lazy
        if machine.shard.congested or waits:
            raise Violation(f"congested at rest, {machine.journal.inflight_bytes} bytes")
        if machine.journal.full:
            raise Violation("stays full although there is space again")
        self._check_queues()

    def _check_queues(self) -> None:
        held: dict[str, int] = {}
        for holder in self.holders.values():
            held[holder.queue] = held.get(holder.queue, 0) + len(holder.ledger)
        for session in self.sessions.values():
            for transaction in session.open:
                for holder, count in transaction.shares:
                    if not holder.ended:
                        held[holder.queue] = held.get(holder.queue, 0) + count
        total = 0
        for engine in self.machine.shard.engines.values():
            for queue in engine._slot.queues.values():
                if queue.delivering != held.get(queue.name, 0):
                    raise Violation(f"{queue.name}: {queue.delivering} delivering, {held.get(queue.name, 0)} held")
                if queue.gate.entries or queue.gate.nbytes or queue.gate.pages or queue.moving:
                    raise Violation(f"{queue.name}: something waits at rest")
                if queue.nbytes > self.limit + 2 * self.biggest + self.returned:
                    raise Violation(f"{queue.name}: {queue.nbytes} bytes in memory, limit {self.limit}")
                delayed = sum(len(run.records) for _, run in queue.delayed)
                total += queue.count + queue.delivering + queue.pages.count + delayed
        self._check_total(total)

    def _check_total(self, total: int) -> None:
        """Counts conserve, as long as a client can know them."""
        if self.model.life or self.ttl or self.unsure or not self.model.dead_letter_address:
            return
        copies = self.model.copies.values()
        if any(copy.void and copy.deliveries for copy in copies):
            return
        alive = sum(copy.gone == HERE and not copy.void and copy.state != REFUSED for copy in copies)
        if alive != total:
            raise Violation(f"{total} messages in queues, {alive} known")

    # ── the very end ───────────────────────────────────────────────────────────────────────────────

    def _finish(self) -> None:
        """Faults have ended: everything comes, is acknowledged, and nothing is left, on disk neither."""
        self._relieve()
        self.rest()
        for session in list(self.sessions.values()):
            self.disconnect(session)
        session = self.session()
        self.publish(session)
        wanted = [*QUEUES, *SUBS, DEAD, EXPIRED]
        for queue in wanted:
            self.subscribe(session, queue, generous=True)
        for _ in range(ROUNDS):
            self.rest()
            if not any(q["ready"] + q["paged"] + q["delayed"] + q["delivering"] for q in self._stats()):
                break
            for holder in session.holders:
                self.accept(session, holder)
        else:
            raise Violation(f"stuck: {[q for q in self._stats() if q['ready'] or q['paged'] or q['delivering']]}")
        self.model.finished(self.clock.now)
        self._check_blobs()  # without a restart, which would clear away what was forgotten
        self._stop()
        self._check_disk()

    def _stats(self):
        return [queue for engine in self.machine.shard.engines.values() for queue in stats(engine)]

    def _check_disk(self) -> None:
        left = [record.run for record, _ in self.machine.journal.recovered.runs()]
        if left:
            raise Violation(f"left on disk: {left}")
        self._check_blobs()

    def _check_blobs(self) -> None:
        files = self.disk.listdir(f"{FOLDER}/blobs")
        if files:
            raise Violation(f"large bodies left on disk: {files}")
