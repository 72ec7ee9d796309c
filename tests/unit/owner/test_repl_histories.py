"""Seeded histories: owners crash, lose disks and are cut off from each other while messages come and go.

Checked all the time: nobody is told of what is not on enough disks, no two owners may dispatch one slot, who leads has
everything that was told of. At the end, with everything healed: the replicas hold the same.
"""

from __future__ import annotations

import pytest

from broker.journal.reads.history import epoch_at
from tests.unit.owner.repl_world import World

SLOTS = (3, 8)


class History:
    def __init__(self, seed: int) -> None:
        pick = World(seed).random
        self.world = World(
            seed,
            tail_bytes=pick.choice((0, 500, 4000, 1 << 20)),
            segment=pick.choice((4096, 16_384)),
            seed_bytes_per_s=pick.choice((20_000, 1 << 20)),
        )
        self.random = self.world.random
        self.sent: dict[int, list[int]] = {slot: [] for slot in SLOTS}
        self.counted: dict[tuple[int, int], int] = {}
        """(slot, lsn) → epoch of an item that some follower might be read up to."""
        for slot, leader in zip(SLOTS, ("o0", "o1"), strict=True):
            self.world.create(slot, leader)

    def work(self) -> None:
        world, random = self.world, self.random
        for slot in SLOTS:
            leader = world.leader(slot)
            if leader is None:
                continue
            for _ in range(random.randrange(4)):
                body = random.randbytes(random.choice((0, 70_000))) if random.random() < 0.03 else None
                self.sent[slot].append(leader.send(slot, random.choice((10, 300)), body))
            told = [first for first in world.told.get(slot, {}) if first not in world.gone.get(slot, ())]
            if told and random.random() < 0.5:
                for first in random.sample(told, min(3, len(told))):
                    leader.settle(slot, first, group=random.random() < 0.3)

    def faults(self) -> None:
        world, random = self.world, self.random
        up = [o for o in world.owners.values() if o.up]
        down = [o for o in world.owners.values() if not o.up]
        dice = random.random()
        if dice < 0.03 and len(up) == len(world.owners):
            self.crash(random.choice(up))
        elif dice < 0.12 and down:
            random.choice(down).start()
        elif dice < 0.15:
            world.blocked.add(frozenset(random.sample(sorted(world.owners), 2)))
        elif dice < 0.22:
            world.blocked.clear()
        elif dice < 0.24 and world.streams:
            random.choice(world.streams).abort("cut")
        elif dice < 0.26:
            world.store_up = False
        elif dice < 0.34:
            world.store_up, world.lose_answers = True, random.choice((0.0, 0.0, 0.5))
        elif dice < 0.36:
            self.move(random.choice(SLOTS))
        elif dice < 0.40:
            self.isolate(random.choice(up))
        elif dice < 0.42 and len(up) == len(world.owners):
            self.crash_uneven(random.choice(up))
        if random.random() < 0.1:
            for slot in SLOTS:
                if world.store_up:
                    world.fail_over(slot)

    def crash(self, owner) -> None:
        """With its disk now and then, if others have everything and nothing is in doubt."""
        world = self.world
        wipe = self.random.random() < 0.3 and all(len(r.isr) == 3 for r in world.records.values())
        owner.crash(wipe)
        if wipe:
            for record in list(world.records.values()):
                leader = "" if record.leader == owner.id else record.leader
                isr = tuple(m for m in record.isr if m != owner.id)
                epoch = record.epoch + (not leader)
                world.write(type(record)(record.slot, epoch, leader or isr[0], record.replicas, isr))

    def isolate(self, owner) -> None:
        """It hears neither the others nor the slot table for a while, and somebody else is made leader."""
        world, random = self.world, self.random
        links = {frozenset((owner.id, other)) for other in world.owners if other != owner.id}
        owner.deaf = True
        if random.random() < 0.7:
            world.blocked |= links
        world.run(random.uniform(0.0, 0.1))
        for slot in SLOTS:
            if world.records[slot].leader == owner.id:
                self.move(slot)
        self.work()
        world.run(random.uniform(0.05, 0.8))
        self.hear(owner)
        world.blocked -= links

    def hear(self, owner) -> None:
        owner.deaf = False
        for slot in SLOTS:
            owner.on_record(self.world.records[slot])

    def crash_uneven(self, owner) -> None:
        """The power fails when one follower has more than another."""
        world = self.world
        world.blocked.add(frozenset((owner.id, self.random.choice([o for o in world.owners if o != owner.id]))))
        self.work()
        world.run(self.random.uniform(0.001, 0.02))
        owner.crash()
        world.blocked.clear()
        for slot in SLOTS:
            world.fail_over(slot)

    def move(self, slot: int) -> None:
        """A leader that just goes, for another in sync: what deposes it comes without notice."""
        world, record = self.world, self.world.records[slot]
        others = [m for m in record.isr if m != record.leader and world.owners[m].up]
        if others and world.store_up:
            leader = self.random.choice(others)
            world.write(type(record)(slot, record.epoch + 1, leader, record.replicas, record.isr))

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.work()
            self.faults()
            self.world.run(self.random.uniform(0.001, 0.1))
            self.look()

    def look(self) -> None:
        """What a follower may be read up to is on its disk, and the same at everybody, for ever."""
        for owner in self.world.owners.values():
            for slot in SLOTS if owner.up else ():
                lsn = owner.followers.counted(slot)
                if lsn:
                    assert owner.journal.written(slot) >= lsn
                    epoch = epoch_at(owner.journal.lineage(slot), lsn)
                    assert self.counted.setdefault((slot, lsn), epoch) == epoch, "another history was read"

    def heal(self) -> None:
        world = self.world
        world.blocked.clear()
        world.store_up, world.lose_answers = True, 0.0
        for owner in world.owners.values():
            if not owner.up:
                owner.start()
        world.until(self.at_rest, 60, "everybody in sync and the same")
        for slot in SLOTS:
            for owner in world.owners.values():
                owner.check_complete(slot)
        self.look()
        for (slot, lsn), epoch in self.counted.items():
            for owner in world.owners.values():
                assert owner.journal.last(slot)[1] >= lsn, "what was read is gone"
                assert epoch_at(owner.journal.lineage(slot), lsn) == epoch, "what was read is another now"

    def at_rest(self) -> bool:
        world = self.world
        for slot in SLOTS:
            leader = world.leader(slot)
            if leader is None or len(world.records[slot].isr) < 3:
                return False
            ends = {(o.journal.last(slot), tuple(o.live(slot))) for o in world.owners.values()}
            if len(ends) != 1 or not leader.leaders.may_dispatch(slot):
                return False
        return True


@pytest.mark.parametrize("seed", range(12))
def test_history(seed):
    history = History(seed)
    history.play(150)
    history.heal()
    assert sum(map(len, history.world.told.values())) > 20
    assert len(history.counted) > 4
