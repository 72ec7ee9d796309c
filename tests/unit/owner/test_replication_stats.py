"""Numbers of the leader side of replication."""

from __future__ import annotations

from .test_repl_basics import SLOT, ready_world, told


def test_metrics_are_there():
    world = ready_world()
    world.leader(SLOT).send(SLOT)
    world.until(lambda: told(world) == 1)
    owners = world.owners.values()
    found = {m.name: m for o in owners for m in (*o.leaders.metrics(), *o.followers.metrics()) if m.samples}
    assert {"stomp_led_slots", "stomp_replication_unacked_bytes", "stomp_isr_shrinks_total"} <= set(found)
