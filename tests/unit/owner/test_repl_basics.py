"""Replication among three owners: what counts, who takes over, how one catches up."""

from __future__ import annotations

from tests.unit.owner.repl_world import World

SLOT = 7


def ready_world(**more) -> World:
    world = World(**more)
    world.create(SLOT, "o0")
    world.until(lambda: world.leader(SLOT) is not None, what="a leader")
    return world


def told(world: World) -> int:
    return len(world.told.get(SLOT, {}))


def same_everywhere(world: World) -> bool:
    """I5: whoever reports the same end of the log has the same live messages."""
    up = [o for o in world.owners.values() if o.up]
    return len({(o.journal.last(SLOT), tuple(o.live(SLOT))) for o in up}) == 1


def in_sync(world: World, *owners: str) -> bool:
    return set(world.records[SLOT].isr) == set(owners)


def test_large_bodies_are_there_before_their_messages():
    world = ready_world()
    leader = world.leader(SLOT)
    body = world.random.randbytes(300_000)
    leader.send(SLOT, body=body)
    leader.send(SLOT)
    world.until(lambda: told(world) == 2)
    (id,) = world.bodies
    for owner in world.owners.values():
        assert owner.journal.blobs.read(id, 0, len(body)) == body
    leader.crash()
    world.fail_over(SLOT)
    world.until(lambda: world.leader(SLOT) is not None)
