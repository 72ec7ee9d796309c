"""Messages that a consumer holds when its leader goes, for the tests of what the next one makes of them."""

from __future__ import annotations

from broker.core.records import MetaRecord, SettleRecord

from .world import INDIVIDUAL, World, bodies, ids

EPOCH = 1 << 40


def settled(world):
    return [span for r in world.appended if isinstance(r, SettleRecord) for span in r.spans]


def fail_over(world, snapshot=False, read_back=False):
    """The leader is gone; a new one has what was committed, and has asked for the first page, or got it."""
    while world.log[-1][0] > world.committed:
        world.commit()
    if snapshot:
        world.log = [(0, r) for r in world.engine.snapshot()] + [
            (n, r) for n, r in world.log if not isinstance(r, MetaRecord)
        ]
    world.auto_commit = read_back
    world.restart(first_id=EPOCH)
    world.auto_commit = True
    world.appended.clear()


def loaded(count, ack=INDIVIDUAL, runs=1, **more):
    """`count` durable messages in runs of `runs`, delivered to consumer 1; their ids."""
    world = World(**more)
    world.attach(1, ack=ack)
    for at in range(0, count, runs):
        world.publish("q", *bodies(count)[at : at + runs], durable=True)
    world.settle_down()
    return world, ids(world.effects)


def spans(numbers):
    return [(i, i) for i in numbers]
