"""What happens because time has passed, in pieces."""

from __future__ import annotations

import sys
from collections import deque
from itertools import pairwise

import pytest

from broker.engine.dispatch.dispatch import EXPIRED
from broker.engine.tick import TICKED

from .world import INDIVIDUAL, World, got


@pytest.mark.parametrize("consumed", [False, True])
@pytest.mark.parametrize("settings", [{}, {"expiry_address": "gone"}])
def test_thousands_that_expire_at_one_moment_leave_in_pieces(settings, consumed):
    """50,000 of them were one step of 77 ms."""
    world = World(**settings)
    count = 1200
    for n in range(count):
        world.publish("q", b"%d" % n, expires=world.now + 50 if n % 3 else world.now + 90_000)
    world.in_pieces = True
    expired = [0]
    world.tick(60)
    expired.append(world.engine.counters()["expired"])
    if consumed:
        world.subscribe(1, ack=INDIVIDUAL)
        expired.append(world.engine.counters()["expired"])
    while world.engine.unfinished:
        world.do()
        expired.append(world.engine.counters()["expired"])
    assert expired[-1] == count - count // 3
    assert max(after - before for before, after in pairwise(expired)) <= 2 * EXPIRED
    world.in_pieces = False
    if not consumed:
        world.subscribe(1)
    assert [int(body) for body in got(world.effects, 1)] == list(range(0, count, 3))
    assert len(got(world.subscribe(2, "gone"))) == (count - count // 3 if settings else 0)


def test_what_has_to_wait_is_not_looked_at_again_in_each_turn():
    """Of 30 queues whose messages expire at one moment a turn had 250 runs, and looked at all the others besides:
    10,000 steps each turn, 50 turns long."""
    world = World()
    for n in range(12_000):
        world.publish(f"q{n % 30}", b"x", expires=world.now + 50)
    world.in_pieces = True
    world.tick(60)
    seen = []

    def count(frame: object, event: str, called: object) -> None:
        if event == "c_call" and getattr(called, "__name__", "") == "append":
            seen.append(isinstance(getattr(called, "__self__", None), deque))

    turns = 0
    while world.engine.unfinished and turns < 10:
        sys.setprofile(count)
        try:
            world.do()
        finally:
            sys.setprofile(None)
        turns += 1
    assert turns == 10 and sum(seen) <= 10 * EXPIRED
    while world.engine.unfinished:
        world.do()
    assert world.engine.counters()["expired"] == 12_000


def test_thousands_of_queues_that_nobody_uses_any_more_go_in_pieces():
    """10,000 of them were one step of 80 ms, when the client had gone who had made them."""
    world = World()
    for n in range(1, 1001):
        world.publish(f"q{n}", b"x")
        world.subscribe(n, f"q{n}", session=1)
    world.disconnect(1)
    world.subscribe(5000, "late", session=2)
    world.unsubscribe(5000, address="late", session=2)
    left = [len(world.engine.queues())]
    while world.engine.due:
        world.tick(max(world.engine.due - world.now, 0))
        left.append(len(world.engine.queues()))
    assert left[0] == 1001 and left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= TICKED and len(left) > 1000 // TICKED
