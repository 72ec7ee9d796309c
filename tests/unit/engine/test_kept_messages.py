"""What an address kept, as a queue that is made gets it: in order, once, and also when it is read back later."""

from __future__ import annotations

import pytest

from broker.core.commands import Publish, Subscribe

from .test_retroactive import keeping, latest, send
from .world import AUTO, CLIENT, MULTICAST, got, run_of


def test_who_comes_before_they_are_read_back_gets_them_too():
    world = keeping(5)
    send(world, b"1")
    send(world, b"2")
    world.auto_commit = False
    world.restart()
    assert latest(world, 1) == []
    world.settle_down()
    assert got(world.effects, 1) == [b"1", b"2"]


@pytest.mark.parametrize("read_back", [False, True])
def test_a_second_crash_before_they_are_read_back_keeps_nobody_from_them(read_back):
    world = keeping(5)
    send(world, b"1")
    send(world, b"2")
    world.auto_commit = False
    world.restart()
    own = {"queue": "me.sub", "durable": True}
    assert latest(world, 1, **own) == []
    world.commit()
    if read_back:
        world.serve()  # what it is given is on its way to the disk when the power fails
    world.auto_commit = True
    world.restart()
    send(world, b"3")
    for _ in range(2):  # and once only
        assert latest(world, 2, ack=CLIENT, **own) == [b"1", b"2", b"3"]
        world.restart()


def test_what_comes_in_the_same_turn_comes_once():
    world = keeping(5)
    send(world, b"1", durable=False)
    subscribe = Subscribe(7, 1, 0, 1, "t", MULTICAST, AUTO)
    publish = Publish(7, 1, 0, "t", MULTICAST, run_of(b"2"))
    assert got(world.do(subscribe, publish), 1) == [b"1", b"2"]


def test_order_is_kept_whichever_of_them_are_durable():
    world = keeping(10)
    for n in range(6):
        send(world, b"%d" % n, durable=n % 2 == 0)
    world.subscribe(1, "t", queue="c.s", durable=True, routing=MULTICAST)
    assert got(world.effects) == [b"%d" % n for n in range(6)]
