"""What operators do to queues, and what clients notice of it."""

from __future__ import annotations

import itertools

import pytest

from broker.core.address import Outcome, Routing
from broker.core.commands import Act, Hold, Manage, Publish, Settle
from broker.core.effects import BrowseEnd, ConsumerClosed, Deliver, Done, Refused
from broker.core.errors import Code
from broker.core.ids import slot_of
from broker.engine.messages.unloaded import ghost
from broker.engine.state.queue_views import queue_row
from broker.engine.state.why_queue_waits import why
from tests.unit.engine.world import ANYCAST, INDIVIDUAL, World, bodies, run_of


def act(world: World, what: Act, address: str = "orders", queue: str | None = None, **more) -> list:
    return world.do(Manage(7, 1, 99, what, address, queue or address, **more))


def done(effects: list) -> bool:
    return any(isinstance(e, Done) and e.seq == 99 for e in effects)


def refusal(effects: list) -> Refused:
    (found,) = [e for e in effects if isinstance(e, Refused)]
    return found


def got(effects: list) -> list[int]:
    return [i for e in effects if isinstance(e, Deliver) for i in e.run.ids]


def row(world: World, address: str = "orders", name: str | None = None) -> dict:
    slot = world.engine._slot
    return queue_row(slot, slot.addresses[address].queues[name or address])


def send(world: World, count: int, durable: bool = True, address: str = "orders") -> list:
    return world.do(Publish(7, 0, 0, address, ANYCAST, run_of(*bodies(count), durable=durable)))


def test_a_created_queue_is_there_before_it_is_answered_and_after_a_restart():
    world = World(auto_commit=False)
    assert not done(act(world, Act.CREATE, "orders", "audit", routing=Routing.MULTICAST, selector="kind = 'new'"))
    assert done(world.commit())
    world.restart()
    assert row(world, "orders", "audit")["routing"] == "MULTICAST"
    assert not row(world, "orders", "audit")["auto_created"], "it stays though nobody uses it"
    assert refusal(act(world, Act.CREATE, "orders", "audit")).code is Code.QUEUE_EXISTS


@pytest.mark.parametrize("what", [Act.DELETE, Act.PURGE, Act.PAUSE, Act.RESUME])
def test_an_unknown_queue_is_named(what):
    found = refusal(act(World(), what, "orders", "nothing"))
    assert found.code is Code.NO_SUCH_DESTINATION
    assert "'nothing'" in found.detail


def test_a_selector_that_cannot_be_read_makes_no_queue():
    world = World()
    assert refusal(act(world, Act.CREATE, selector="a ===")).code is Code.BAD_SELECTOR
    assert "orders" not in world.engine._slot.addresses


def test_deleting_needs_force_where_somebody_consumes():
    world = World()
    world.subscribe(1, "orders")
    send(world, 3)
    assert refusal(act(world, Act.DELETE)).code is Code.SUBSCRIPTION_IN_USE
    effects = act(world, Act.DELETE, force=True)
    assert done(effects) and any(isinstance(e, ConsumerClosed) for e in effects)
    world.restart()
    assert "orders" not in world.engine._slot.addresses


def test_a_declared_queue_is_not_deleted():
    name = next(f"orders.{n}" for n in itertools.count() if slot_of(f"orders.{n}") == 7)
    world = World(queues={name: {"address": name}})
    world.restart()
    assert "engine.queues" in refusal(act(world, Act.DELETE, name)).detail
    assert row(world, name)["declared"]


@pytest.mark.parametrize("durable", [True, False])
def test_purging_takes_everything_and_says_so_after_a_restart_too(durable):
    world = World()
    send(world, 5, durable)
    assert row(world)["messages"] == 5
    assert done(act(world, Act.PURGE))
    assert row(world)["messages"] == 0
    send(world, 2)
    world.restart()
    assert row(world)["messages"] == 2


def test_consumers_stay_when_their_queue_is_purged():
    world = World()
    world.subscribe(1, "orders", ack=INDIVIDUAL, credit_messages=3)
    held = got(send(world, 5))
    assert len(held) == 3
    assert done(act(world, Act.PURGE))
    assert not [e for e in world.effects if isinstance(e, ConsumerClosed)]
    # What it holds is gone: it may say so, and nothing comes back of it.
    effects = world.do(Settle(7, 1, 5, 1, held[:1], Outcome.ACK), Settle(7, 1, 6, 1, held[1:], Outcome.NACK))
    assert sorted(e.seq for e in effects if isinstance(e, Done)) == [5, 6]
    assert not [e for e in effects if isinstance(e, Deliver | Refused)]
    fresh = got(send(world, 2))
    assert len(fresh) == 2 and min(fresh) > max(held)
    assert row(world)["delivering"] == 2
    world.restart()
    assert row(world)["messages"] == 2


def test_a_browser_of_a_purged_queue_comes_to_its_end():
    world = World()
    send(world, 5)
    world.subscribe(1, "orders", browse=True, room=1)
    assert not [e for e in world.effects if isinstance(e, BrowseEnd)]
    assert [e for e in act(world, Act.PURGE) if isinstance(e, BrowseEnd)]


def test_purging_has_a_bound(monkeypatch):
    monkeypatch.setattr("broker.engine.manage.MOST_HELD", 2)
    world = World()
    world.subscribe(1, "orders", ack=INDIVIDUAL)
    send(world, 3)
    assert "pause it" in refusal(act(world, Act.PURGE)).detail
    assert row(world)["messages"] == 3


def test_a_paused_queue_takes_and_hands_out_nothing_until_it_is_resumed():
    world = World()
    world.subscribe(1, "orders", ack=INDIVIDUAL)
    assert done(act(world, Act.PAUSE))
    assert got(send(world, 3)) == []
    assert row(world)["paused"] and row(world)["waiting"] == 3
    queue = world.engine._slot.addresses["orders"].queues["orders"]
    assert "paused by an operator" in why(world.engine._slot, queue, world.now)[0]
    world.restart()
    world.subscribe(1, "orders", ack=INDIVIDUAL)
    assert got(world.effects) == []
    assert row(world)["paused"], "over a restart too"
    act(world, Act.PURGE)
    assert row(world)["paused"], "a purge does not resume it"
    send(world, 2)
    assert len(got(act(world, Act.RESUME))) == 2
    world.restart()
    assert not row(world)["paused"]


def test_settings_that_pause_are_not_overruled():
    world = World(paused=True)
    send(world, 1)
    assert "take `paused` out" in refusal(act(world, Act.RESUME)).detail


def reasons(world: World) -> str:
    slot = world.engine._slot
    return " ".join(why(slot, slot.addresses["orders"].queues["orders"], world.now))


def test_a_purge_does_not_cost_each_message_that_is_out_and_gives_their_bytes_back_once(monkeypatch) -> None:
    """50,000 that one consumer held were a step of 60 ms, 120 where it has a window of bytes."""
    world = World()
    world.subscribe(1, "orders", ack=INDIVIDUAL, credit_messages=100, credit_bytes=10_000, overhead=7)
    for at in range(0, 30, 3):
        world.publish("orders", *bodies(3, at), durable=True)
    held = got(world.effects)
    assert len(held) == 30
    made = []
    monkeypatch.setattr(
        "broker.engine.consumers.consumer.ghost", lambda *args, **more: made.append(args) or ghost(*args, **more)
    )
    world.do(Hold(7, 1, 0, 1, held[:3]))
    assert done(act(world, Act.PURGE)) and len(made) <= 4
    consumer = world.engine._slot.consumers[1]
    assert consumer.credit_bytes == 10_000 - 27 * 7
    for i in held[3:]:
        world.settle(1, i)
    assert consumer.credit_bytes == 10_000 and world.queue("orders")["delivering"] == 3
    world.do(Settle(7, 1, 0, 1, held[:3], Outcome.RETURN))
    assert world.queue("orders")["delivering"] == 0
    assert consumer.credit_bytes == 10_000 and consumer.credit_messages == 100
