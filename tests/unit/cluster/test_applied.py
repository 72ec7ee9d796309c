"""How far a process has applied the live configuration: told when it grows, seldom, and gone with the registration."""

from __future__ import annotations

import asyncio
import json

from broker.cluster.applied import AppliedNote

from .world import KEYS, World, simulate


def test_what_is_applied_is_told_at_most_four_times_a_second():
    async def scenario(world: World) -> None:
        owner = world.owner("a").begin()
        await world.until(lambda: hasattr(owner, "membership") and owner.membership.up)
        note = owner.place.run(AppliedNote, owner.metadata, KEYS, owner.membership)
        owner.place.run(note.start)
        for revision in range(1, 51):
            owner.place.run(note.note, revision)
            await asyncio.sleep(0.1)
        writes = [change for change in world.store.history if change.key == KEYS.applied_by("a")]
        assert 15 <= len(writes) <= 22
        await asyncio.sleep(2)
        item = world.store.keys[KEYS.applied_by("a")]
        assert json.loads(item.value) == {"revision": 50} and item.lease

    simulate(scenario)
