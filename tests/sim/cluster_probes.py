"""What only somebody inside the cluster can see: invariants of leaders, disks, replicas and the metadata store.

I1, I8   one leader per slot and epoch hands out messages, and nobody does once a later epoch has begun to.
I3       a receipt for durable messages: they are on the platters of at least min_in_sync owners, bodies and all.
I5       at rest every in-sync replica's disk holds the same live messages, to the byte, at the same place of the log.
         When all are gone, so are the files of large bodies.
I11      slot records: epochs grow, with every change of leader; leaders come from the in-sync replicas; these are
         never emptied.
The whole list: docs/invariants.md.
Rule: looks, and changes nothing. Raises Violation (through `fail`, for production code may catch what it throws).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import wraps
from typing import Any
from unittest.mock import patch

from broker.config.settings import JournalSettings
from broker.core.effects import Deliver, Turn
from broker.core.message import DURABLE, Run
from broker.core.records import RunRecord
from broker.core.slots import SlotRecord
from broker.engine.engine import Engine
from broker.engine.publishing import publish
from broker.journal.journal import Journal
from broker.link.owner_side.edge_peer import EdgePeer, edge_of
from broker.link.owner_side.link_server import LinkServer
from broker.metadata.port import Change
from broker.owner.slots.edge_gathering import EdgeGathering
from broker.owner.slots.slot_lifecycle import SlotLifecycle
from tests.sim.checker import Violation
from tests.sim.cluster_checkers import HERE as STILL_HERE
from tests.sim.cluster_checkers import NUMBER, Copy
from tests.sim.cluster_world import Host, World
from tests.sim.disk import Inode, SimDisk
from tests.sim.virtual_loop import HERE

BODIES = "/blobs/"
REMEMBERED_S = 3.0
"""So long a disk that was taken out still counts for receipts that were under way."""
Content = dict[tuple[int, int], bytes]
"""(queue, message id) → header lines and body."""
Platter = tuple[list[bytearray], list[bytearray]]
"""What a disk has for certain: the log's files, and large bodies."""


class Probes:
    def __init__(
        self, world: World, folder: str, settings: JournalSettings, slots_prefix: str, fail: Callable[[Violation], None]
    ) -> None:
        self._world = world
        self._folder = folder
        self._settings = settings
        self._prefix = slots_prefix
        self._fail = fail
        self.give_up: Callable[[str], None] = lambda edge: None
        """Told when owners may have taken from an edge's consumers what they hold, though it lives."""
        self.unheard: Callable[[str, int, int], None] = lambda edge, slot, epoch: None
        """Told of an edge and a slot whose new leader begins without it: its registration has run out, so that nobody
        waits for it to tell who subscribes."""
        self.told: Callable[[str, int, int], None] = lambda edge, slot, epoch: None
        """Told of an edge that has told the leader of this epoch all it knows of a slot."""
        self.moved: Callable[[], None] = lambda: None
        """Told when a slot gets another leader."""
        self.kept_back: set[int] = set()
        """Messages that a leader had not handed out when it began to hand over (for want of a follower's promise, or
        because they stood behind durable ones), that were on their way to an edge which it could not reach then, or for
        which its memory had no room."""
        self.failed: Callable[[int, int], None] = lambda slot, epoch: None
        """Told of epochs that end otherwise than by a hand-over."""
        self.records: dict[int, SlotRecord] = {}
        """As the store has them."""
        self.changes = 0
        self.emptied: set[str] = set()
        """Owners whose disk was replaced, and that have not told the store so yet."""
        self.dispatches = 0
        self._acting: dict[tuple[int, int], tuple[str, int]] = {}
        self._newest: dict[int, int] = {}
        self._old_disks: list[tuple[float, SimDisk]] = []
        world.store.listeners.append(self._on_change)

    def install(self, stack: ExitStack) -> None:
        """Looks at every turn in which an engine may hand something out."""
        for name in ("flush", "handle", "release", "fetched", "tick"):
            stack.enter_context(patch.object(Engine, name, self._watched(getattr(Engine, name))))
        stack.enter_context(patch("broker.engine.publishing.publish._spill", self._paged_out(publish._spill)))
        stack.enter_context(patch.object(SlotLifecycle, "_hand_over", self._held_back(SlotLifecycle._hand_over)))
        stack.enter_context(patch.object(LinkServer, "_bury", self._buried(LinkServer._bury)))
        stack.enter_context(patch.object(EdgeGathering, "_all", self._left_behind(EdgeGathering._all)))
        stack.enter_context(patch.object(SlotLifecycle, "_gathered", self._begun_without(SlotLifecycle._gathered)))
        stack.enter_context(patch.object(EdgePeer, "_open", self._attached(EdgePeer._open)))

    def _paged_out(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def spill(slot: Any, command: Any, run: Run, queues: list[Any], turn: Turn) -> Any:
            self._note([run])
            return original(slot, command, run, queues, turn)

        return spill

    def _note(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self.kept_back.update(int(n) for record in run.records for n in NUMBER.findall(run.lines + record))

    def _held_back(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def hand_over(lifecycle: SlotLifecycle, record: SlotRecord, role: Any) -> None:
            if (engine := lifecycle._shard.engines.get(record.slot)) is not None:
                waiting = [entry for held in engine._slot.pending for entry in held.entries]
                self._note([run for queue, run, _ in waiting if queue.tied and not run.flags & DURABLE])
                for queue in engine.queues():
                    if queue.tied:
                        self._note(queue.in_order())
                        for consumer in queue.consumers:
                            if not self._reached(lifecycle._serving, edge_of(consumer.id), record.slot):
                                self._note([*(consumer.ledger or {}).values(), *(consumer.flight or ())])
            original(lifecycle, record, role)

        return hand_over

    def _reached(self, server: Any, edge: int, slot: int) -> bool:
        """Does what is handed out here leave for that edge."""
        if not server.told(edge, slot):
            return False
        peer = server._peers[edge]
        return not (peer.stream._outbox or self._world.network.blocked(HERE.get().name, peer.edge))

    # ── edges that owners do not wait for any longer ───────────────────────────────────────────────

    def _buried(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def bury(server: LinkServer, peer: Any) -> None:
            self.give_up(peer.edge)
            original(server, peer)

        return bury

    def _left_behind(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def looked(gathering: EdgeGathering) -> None:
            now = gathering._now()
            for slot, until in gathering.until.items():
                if until <= now:
                    for edge in sorted(set(gathering._edges()) - gathering._serving.attached(slot)):
                        self.give_up(edge)
            original(gathering)

        return looked

    def _begun_without(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def gathered(lifecycle: SlotLifecycle, slot: int) -> None:
            there = set(lifecycle._gathering._edges()) | lifecycle._serving.attached(slot)
            epoch = lifecycle._roles[slot].epoch if slot in lifecycle._roles else 0
            for host in self._world.of("edge"):
                if host.name not in there:
                    self.unheard(host.name, slot, epoch)
            original(lifecycle, slot)

        return gathered

    def _attached(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def opened(peer: EdgePeer, command: Any) -> None:
            original(peer, command)
            epoch = peer.epoch(command.slot)
            if command.told and epoch is not None and peer.told.get(command.slot) == epoch:
                self.told(peer.edge, command.slot, epoch)

        return opened

    # ── leaders (I1, I8) ───────────────────────────────────────────────────────────────────────────

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def watched(engine: Engine, *args: Any) -> Any:
            turn: Turn = next(each for each in args if isinstance(each, Turn))
            before = len(turn.effects)
            result = original(engine, *args)
            if any(type(effect) is Deliver for effect in turn.effects[before:]):
                self._dispatched(engine.number)
            return result

        return watched

    def _dispatched(self, slot: int) -> None:
        self.dispatches += 1
        host = self._world.hosts[HERE.get().name]
        epoch = host.process.journal.last(slot)[0]
        who = (host.name, host.lives)
        before = self._acting.setdefault((slot, epoch), who)
        if before != who:
            self._fail(Violation(f"two leaders of slot {slot} in epoch {epoch}: {before} and {who}"))
        newest = self._newest.get(slot, 0)
        if epoch < newest:
            self._fail(Violation(f"slot {slot}: {host} hands out in epoch {epoch} after epoch {newest} has begun to"))
        self._newest[slot] = max(newest, epoch)

    # ── receipts (I3) ──────────────────────────────────────────────────────────────────────────────

    def taken_out(self, host: Host) -> None:
        """Its disk is about to be replaced by an empty one."""
        self._old_disks.append((self._world.loop.now, host.disk))
        self.emptied.add(host.name)

    def receipted(self, copies: Iterable[Copy], least: int) -> None:
        """Every one that nobody has consumed is on `least` platters. One look per message."""
        wanted = {c.message.number: c.message.large for c in copies
                  if c.message.durable and c.gone == STILL_HERE and not (c.void or c.late)}  # fmt: skip
        if not wanted:
            return
        now = self._world.loop.now
        self._old_disks = [(at, disk) for at, disk in self._old_disks if now - at < REMEMBERED_S]
        disks = [host.disk for host in self._world.of("owner")] + [disk for _, disk in self._old_disks]
        platters = [self._platter(disk) for disk in disks]
        for number, large in sorted(wanted.items()):
            text = b"#%d#" % number
            found = sum(any(text in data for data in logs)
                        and (not large or any(body.startswith(large) for body in bodies))  # its sums stand behind it
                        for logs, bodies in platters)  # fmt: skip
            if found < least:
                self._fail(Violation(f"message {number} is receipted and on {found} disks only"))

    @staticmethod
    def _platter(disk: SimDisk) -> Platter:
        names = disk.durable_names.items()
        return ([inode.synced for name, inode in names if name.endswith(".log")],
                [inode.synced for name, inode in names if BODIES in name])  # fmt: skip

    def bodies(self) -> list[str]:
        """Files of large bodies, wherever."""
        return [f"{host.name}:{name}" for host in self._world.of("owner") for name in host.disk.names if BODIES in name]

    # ── the metadata store (I11) ───────────────────────────────────────────────────────────────────

    def spare(self, name: str) -> bool:
        """Whatever is on its disk is on another one as well."""
        lost = {name, *self.emptied}
        return all(name not in record.isr or set(record.isr) - lost for record in self.records.values())

    def _on_change(self, change: Change) -> None:
        name = change.key.rpartition("/")[2]
        if "/disks/" in change.key:
            self.emptied.discard(name)
        if "/edges/" in change.key and change.value is None:
            self.give_up(name)
        if not change.key.startswith(self._prefix) or change.value is None:
            return
        slot = int(change.key.rpartition("/")[2])
        new = SlotRecord.decode(slot, change.value, change.revision)
        old = self.records.get(slot)
        self.records[slot] = new
        self.changes += 1
        if old is not None and old.leader != new.leader:
            self.moved()
        if old is not None and old.epoch != new.epoch and not self._handed_over(old, new):
            self.failed(slot, old.epoch)
        self._world.note(f"slot {slot}: {new.leader or '-'} leads in {new.epoch}, isr {','.join(new.isr)}"
                         f"{' of ' + ','.join(new.replicas) if len(new.replicas) > len(new.isr) else ''}"
                         f"{' → ' + new.target if new.target else ''}")  # fmt: skip
        for wrong, what in (
            (not new.isr, "nobody is in sync"),
            (not set(new.isr) <= set(new.replicas), "in sync without being a replica"),
            (bool(new.leader) and new.leader not in new.isr, "the leader is not in sync"),
            (old is not None and new.epoch < old.epoch, "the epoch went back"),
            (old is not None and new.leader != old.leader and new.epoch == old.epoch, "a new leader in an old epoch"),
            (
                old is not None and bool(new.leader) and new.leader != old.leader and new.leader not in old.isr,
                "the new leader was not in sync",
            ),
        ):
            if wrong:
                self._fail(Violation(f"slot {slot}: {what}: {old} → {new}"))

    def _handed_over(self, old: SlotRecord, new: SlotRecord) -> bool:
        return bool(old.leader and new.leader) and old.target == new.leader and self._world.hosts[old.leader].running

    # ── replicas at rest (I5) ──────────────────────────────────────────────────────────────────────

    def compare_replicas(self) -> Content:
        """Opens a copy of each disk as it would be found after a power loss now. Everything that is alive."""
        found = {host.name: self._recover(host) for host in self._world.of("owner")}
        everything: Content = {}
        for slot, record in sorted(self.records.items()):
            first: tuple[str, int, Content] | None = None
            for name in record.isr:
                last, content = found.get(name, {}).get(slot, (0, {}))
                if first is None:
                    first = (name, last, content)
                elif (last, content) != first[1:]:
                    self._differ(slot, first, (name, last, content))
            if first is not None:
                everything |= first[2]
        return everything

    def _differ(self, slot: int, one: tuple[str, int, Content], other: tuple[str, int, Content]) -> None:
        only = [sorted(set(a[2]) - set(b[2]))[:5] for a, b in ((one, other), (other, one))]
        places = f"{one[0]} at {one[1]}, {other[0]} at {other[1]}"
        self._fail(Violation(f"replicas of slot {slot} differ: {places}; only here {only[0]}, only there {only[1]}"))

    def _recover(self, host: Host) -> dict[int, tuple[int, Content]]:
        """Slot → (last lsn, what is alive) of this host's platters."""
        disk = SimDisk(0)
        disk.folders = set(host.disk.folders)
        for name, inode in host.disk.durable_names.items():
            disk.names[name] = copy = Inode()
            copy.data, copy.synced = bytearray(inode.synced), bytearray(inode.synced)
        disk.durable_names = dict(disk.names)
        journal = Journal.open(disk, self._folder, self._settings)
        content: dict[int, tuple[int, Content]] = {slot: (journal.last(slot)[1], {}) for slot in self.records}
        for record, settled in journal.recovered.runs():
            content[record.slot][1].update(self._alive(journal, record, settled))
        return content

    @staticmethod
    def _alive(journal: Journal, record: RunRecord, settled: dict[int, list[tuple[int, int]]]) -> Content:
        bodies: dict[int, bytes] = {}
        for run in journal.read([record.run.position], 1 << 30):
            large = b"" if run.blob is None else journal.blobs.read(run.blob.id, 0, run.blob.length + 1)
            bodies |= {i: run.lines + body + large for i, body in zip(run.ids, run.records, strict=True)}
        content: Content = {}
        for queue in record.queues:
            gone = settled.get(queue, [])
            for i in record.run.ids:
                if not any(first <= i <= last for first, last in gone):
                    content[queue, i] = bodies[i]
        return content
