"""The members of a cluster as tests bring them up, and what holds of all that they have seen."""

from __future__ import annotations

import asyncio

from broker.core.slots import SlotRecord

from .world import World


async def ready(world: World, *names: str) -> None:
    world.start(*names)
    await world.until(lambda: world.led_by(*names))
    await asyncio.sleep(2)


def check_history(world: World) -> None:
    """Every owner saw every slot's revisions and epochs grow, never an isr without members."""
    for owner in world.owners.values():
        last: dict[int, SlotRecord] = {}
        for record in filter(None, owner.changes):
            before = last.get(record.slot)
            assert before is None or (before.revision < record.revision and before.epoch <= record.epoch)
            assert record.isr
            last[record.slot] = record
