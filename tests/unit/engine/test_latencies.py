"""So many queues are timed for themselves, the others together; who has a place keeps it."""

from __future__ import annotations

from typing import Any

from broker.config.settings import EngineSettings
from broker.core.address import AckMode, Routing
from broker.core.commands import Publish, Settle, Subscribe, Unsubscribe
from broker.core.effects import Deliver, Turn
from broker.core.message import NO_IDS, TRACED, Run
from broker.core.metrics import Histogram
from broker.engine.engine import Engine
from broker.engine.state.budget import Budget
from broker.engine.state.latencies import OTHERS, SUBSCRIBERS, Latencies


def told(latencies: Any, family: int = 0) -> dict[tuple[str, str], Histogram]:
    metric = list(latencies.metrics())[family]
    return {(labels["address"], labels["queue"]): value for labels, value in metric.samples}


def test_so_many_for_themselves():
    latencies = Latencies(2)
    a = latencies.of(1, "a", "a", False)
    assert latencies.of(1, "a", "a", False) is a and latencies.of(2, "a", "a", False) is not a
    others = latencies.of(1, "$temp.x", "$temp.x", False)
    topic = latencies.of(1, "t", "random-1", True)
    assert latencies.of(1, "t", "random-2", True) is topic
    assert latencies.of(1, "b", "b", False) is others
    assert set(told(latencies)) == {("a", "a"), ("t", SUBSCRIBERS), OTHERS}
    latencies.gone(1, "a", "a")
    assert latencies.of(1, "b", "b", False) is others, "a slot has it still"
    latencies.gone(2, "a", "a")
    latencies.gone(2, "a", "a")
    assert latencies.of(1, "b", "b", False) is not others
    latencies.drop(1)
    assert set(told(latencies)) == {OTHERS}


def test_slots_of_one_queue_are_summed():
    latencies = Latencies(2)
    for slot in (1, 2):
        latency = latencies.of(slot, "a", "a", False)
        latency.delivered[0] += slot
        latency.sums[0] += 500
        latency.acked[1] += 1
        latency.sums[1] += 250
    delivered, acked = told(latencies)["a", "a"], told(latencies, 1)["a", "a"]
    assert (delivered.counts[0], delivered.total) == (3, 1.0)
    assert (acked.counts[:2], acked.total) == ([0, 2], 0.5)
    assert sum(told(latencies)[OTHERS].counts) == 0


class World:
    """An engine whose turns are at a time."""

    def __init__(self, timed: int) -> None:
        self.budget = Budget(100, timed=timed)
        self.engine = Engine(0, EngineSettings(), self.budget)

    def turn(self, now: int, *commands: Any) -> list[Any]:
        turn = Turn(now, 1)
        for command in commands:
            self.engine.handle(command, turn)
        self.engine.flush(turn)
        return turn.effects

    def publish(self, lines: bytes = b"\n", flags: int = 0, queue: str = "q") -> Publish:
        return Publish(0, 1, 0, queue, Routing.ANYCAST, Run(NO_IDS, lines, [b"x\0"], 2 + len(lines), flags))

    def subscribe(self, consumer: int = 1, queue: str = "q") -> Subscribe:
        return Subscribe(0, 1, 0, consumer, queue, Routing.ANYCAST, ack=AckMode.INDIVIDUAL)


def test_messages_are_timed_to_their_consumer_and_their_ack():
    world = World(5)
    world.turn(1000, world.publish())
    line = b"traceparent:00-" + b"a" * 32 + b"-" + b"1" * 16 + b"-01\n\n"
    effects = world.turn(1040, world.subscribe(), world.publish(), world.publish(line, TRACED))
    ids = [id for effect in effects if isinstance(effect, Deliver) for id in effect.run.ids]
    assert len(ids) == 3
    world.turn(1240, Settle(0, 1, 0, 1, ids))
    world.turn(1300, world.publish())
    delivered, acked = told(world.budget)["q", "q"], told(world.budget, 1)["q", "q"]
    counts = {delivered.bounds[at]: count for at, count in enumerate(delivered.counts) if count}
    assert counts == {0.001: 3, 0.05: 1} and delivered.total == 0.04
    assert delivered.examples == {0: ("a" * 32, 0.0, 1.04)}
    assert {acked.bounds[at]: count for at, count in enumerate(acked.counts) if count} == {0.25: 3}
    assert abs(acked.total - 0.64) < 1e-9


def test_off_nothing_is_counted():
    world = World(0)
    world.turn(1000, world.subscribe(), world.publish())
    assert [metric.name for metric in world.budget.metrics()] == ["stomp_deleted_queues"]
    world.budget.forget_slot(0)


def test_the_place_of_an_address_of_subscribers_is_free_when_it_goes():
    """Fifty topics of any client took all places until the broker started anew."""
    world = World(2)
    for name in ("t1", "t2"):
        world.turn(1000, Subscribe(0, 1, 0, 7, name, Routing.MULTICAST, ack=AckMode.AUTO))
        world.turn(1000, Publish(0, 1, 0, name, Routing.MULTICAST, Run(NO_IDS, b"\n", [b"x\0"], 3)))
        world.turn(1000, Unsubscribe(0, 1, 0, 7, name))
    world.turn(1000, world.publish(), world.subscribe())
    assert ("q", "q") in told(world.budget)
