"""The last messages of a topic, for whoever comes later."""

from __future__ import annotations

import itertools

import pytest

from broker.config.settings import EngineSettings
from broker.engine.state.slot import EXPIRED

from .world import CLIENT, MULTICAST, UNSET, World, got


def keeping(count, auto_commit=True, addresses=None, **more):
    return World(auto_commit, addresses or {"t": {"retroactive_messages": count}}, **more)


def kept(world):
    return next(q.count + q.pages.count for q in world.engine._slot.hidden.values())


def send(world, *bodies, durable=True, routing=MULTICAST, **more):
    return world.publish("t", *bodies, durable=durable, routing=routing, **more)


def latest(world, number, **more):
    return got(world.subscribe(number, "t", routing=MULTICAST, **more), number)


@pytest.mark.parametrize("durable", [True, False])
def test_who_comes_later_gets_the_last_ones_and_then_the_new_ones(durable):
    world = keeping(3)
    send(world, b"1", b"2", durable=durable)
    assert latest(world, 1) == [b"1", b"2"]
    send(world, b"3", durable=durable)
    send(world, b"4", b"5", durable=durable)
    assert latest(world, 2) == [b"3", b"4", b"5"]
    send(world, b"6", durable=durable)
    assert got(world.effects, 1) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert got(world.effects, 2) == [b"3", b"4", b"5", b"6"]


def test_they_may_be_bounded_by_time():
    world = keeping(100, addresses={"t": {"retroactive_messages": 100, "retroactive_ms": 500}})
    send(world, b"1")
    world.tick(300)
    send(world, b"2", b"3")
    assert latest(world, 1) == [b"1", b"2", b"3"]
    world.tick(300)
    assert latest(world, 2) == [b"2", b"3"]
    send(world, b"4")
    assert kept(world) == 3, "what is too old goes with what comes"
    world.tick(501)
    world.restart()
    assert latest(world, 3) == []


def test_they_may_be_bounded_by_bytes():
    world = keeping(100, addresses={"t": {"retroactive_messages": 100, "retroactive_bytes": 7}})
    send(world, b"111", b"222", b"333")
    assert latest(world, 1) == [b"222", b"333"]
    send(world, b"4444", b"5")
    assert latest(world, 2) == [b"4444", b"5"]
    send(world, b"eight by")
    assert latest(world, 3) == [] and kept(world) == 0


@pytest.mark.parametrize("clean", [True, False])
def test_durable_ones_survive(clean):
    world = keeping(2)
    for body in (b"1", b"2", b"3"):
        send(world, body)
    world.restart(clean)
    send(world, b"4")
    assert latest(world, 1) == [b"3", b"4"]


def test_a_durable_subscription_gets_them_once():
    world = keeping(5)
    send(world, b"1", b"2")
    world.subscribe(1, "t", routing=MULTICAST, queue="c.s", durable=True)
    world.disconnect(1)
    world.restart()
    assert latest(world, 2, queue="c.s", durable=True) in ([b"1", b"2"], [])
    world.restart()
    assert len(got(world.effects)) <= 2


def test_queues_for_one_do_not_get_what_was_for_all():
    world = keeping(5)
    send(world, b"1")
    assert got(world.subscribe(1, "t")) == []
    send(world, b"2", routing=UNSET)
    assert latest(world, 2) == [b"1", b"2"]


def test_nothing_is_kept_elsewhere_or_when_the_settings_change():
    world = keeping(5)
    world.publish("u", b"1", routing=MULTICAST)
    assert got(world.subscribe(1, "u", routing=MULTICAST)) == []
    send(world, b"1")
    world.engine.configure(EngineSettings())
    world.do()
    world.commit()
    assert latest(world, 2) == []
    assert not world.engine._slot.hidden


def test_memory_is_bounded_whatever_the_settings_say():
    world = keeping(1_000_000, queue_memory_bytes=1 << 20, page_bytes=1 << 16)
    for n in range(40):
        send(world, b"%d" % n * 25_000)
    [ring] = world.engine._slot.hidden.values()
    assert ring.nbytes <= 1 << 20
    assert latest(world, 1)[-1] == b"39" * 25_000


def test_they_count_for_the_limit_of_their_address():
    world = World(retroactive_messages=5, full_policy="FAIL", max_size_messages=100)
    send(world, *[b"a"] * 5)
    world.subscribe(1, "t", queue="c.s", durable=True, routing=MULTICAST, ack=CLIENT)
    quota = world.engine._slot.addresses["t"].quota
    assert quota is not None and quota.messages == 5


@pytest.mark.parametrize("durable", [True, False])
def test_one_message_pushes_out_many_piece_by_piece_and_who_comes_meanwhile_gets_no_more(durable):
    world = keeping(5000, addresses={"t": {"retroactive_messages": 5000, "retroactive_bytes": 20_000}})
    for n in range(2000):
        send(world, b"%010d" % n, durable=durable)
    [ring] = world.engine._slot.hidden.values()
    world.in_pieces = True
    left = [ring.count]
    world.auto_commit = False
    send(world, b"x" * 19_900, durable=durable)
    if durable:
        world.commit()
    left.append(ring.count)
    assert latest(world, 1) == [b"%010d" % n for n in range(1990, 2000)] + [b"x" * 19_900]
    left.append(ring.count)
    while world.engine.unfinished:
        world.commit()
        left.append(ring.count)
    assert left[-1] == 11 and ring.nbytes <= 20_000
    assert max(one - other for one, other in itertools.pairwise(left)) <= EXPIRED + 1
    assert latest(world, 2) == [b"%010d" % n for n in range(1990, 2000)] + [b"x" * 19_900]


def test_what_is_kept_no_more_goes_piece_by_piece():
    world = keeping(2000)
    for n in range(2000):
        send(world, b"%d" % n)
    [ring] = world.engine._slot.hidden.values()
    world.in_pieces = True
    world.engine.configure(EngineSettings())
    left = [ring.count]
    world.auto_commit = False
    world.commit()
    while world.engine.unfinished:
        left.append(ring.count)
        world.commit()
    assert len(left) > 5 and not world.engine._slot.hidden
    assert max(one - other for one, other in itertools.pairwise(left)) <= EXPIRED
