"""The port that is rarely used, of transactions over slots: what nobody asks for costs nothing, and comes if asked."""

from __future__ import annotations

from tests.unit.link.two import Two, bodies, publish
from tests.unit.link.world import Edge

USED, UNUSED = 5, 6


def sparing():
    two = Two()
    two.world.pairs.clear()
    two.edge = Edge(two.world, two.a.settings, "owner-0/tx", "c", 9, sparing=True)
    two.port = two.edge.port
    for slot in (USED, UNUSED):
        two.lead(two.a, 1, slot)
    return two


def test_what_is_never_used_is_neither_dialled_nor_opened():
    two = sparing()
    two.world.pass_time(2)
    assert two.world.pairs == []
    two.submit(publish(1))
    assert bodies(two.a.shard) == [b"x"] and len(two.world.pairs) == 1
    assert {"owner-0/tx"} <= two.a.server.attached(USED) and "owner-0/tx" not in two.a.server.attached(UNUSED)


def test_it_is_asked_where_it_was_led_last():
    two = sparing()
    two.lead(two.b, 2)
    two.port.route(USED, 1, "a", two.a.address)  # told late
    two.lead(two.b, 2, UNUSED)
    two.port.offline(UNUSED)
    two.submit(publish(1), publish(1, slot=UNUSED, session=2))
    assert bodies(two.b.shard) == [b"x"] and bodies(two.a.shard) == []
    two.lead(two.a, 3, UNUSED)
    assert bodies(two.a.shard) == [b"x"]
    two.a.server.unserve(UNUSED)
    two.lead(two.b, 4, UNUSED)  # used once, it is followed like any other
    assert two.b.server.attached(UNUSED) == {"owner-0/tx"}
