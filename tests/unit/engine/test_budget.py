"""engine.max_queues: a bound over all slots, by name, for everything that would make a queue."""

import pytest

from broker.config.settings import EngineSettings
from broker.core.address import AckMode, Routing
from broker.core.commands import Publish, Subscribe, Unsubscribe
from broker.core.effects import Refused, Turn
from broker.core.errors import Code, RefusedError
from broker.core.message import NO_IDS, Run
from broker.engine.engine import Engine
from broker.engine.state.budget import _GRAVE, Budget

RUN = Run(NO_IDS, b"", [b"\n\0"], 2)


def publish(address, routing=Routing.ANYCAST):
    return Publish(0, 1, 1, address, routing, Run(NO_IDS, b"", [b"\n\0"], 2))


def subscribe(consumer, address):
    return Subscribe(0, 1, 1, consumer, address, Routing.MULTICAST, AckMode.AUTO)


def refused(turn):
    return [effect.code for effect in turn.effects if isinstance(effect, Refused)]


@pytest.fixture
def engines():
    budget = Budget(2)
    return Engine(0, EngineSettings(), budget), Engine(1, EngineSettings(), budget)


def test_the_limit_counts_over_slots_and_spares_what_exists(engines):
    first, second = engines
    turn = Turn(1, 1)
    first.handle(publish("a"), turn)
    second.handle(subscribe(7, "t"), turn)
    assert refused(turn) == []
    first.handle(publish("b"), turn)
    first.handle(subscribe(8, "t"), turn)
    assert refused(turn) == [Code.QUEUE_LIMIT, Code.QUEUE_LIMIT]
    with pytest.raises(RefusedError, match="max_queues"):
        second.check(publish("c"), {})
    first.handle(publish("a"), turn)
    second.handle(publish("t", Routing.MULTICAST), turn)
    assert len(refused(turn)) == 2


def test_a_queue_that_goes_makes_room(engines):
    first, second = engines
    turn = Turn(1, 1)
    first.handle(publish("a"), turn)
    second.handle(subscribe(7, "t"), turn)
    second.handle(Unsubscribe(1, 1, 2, 7, "t"), turn)
    first.handle(publish("b"), turn)
    assert refused(turn) == []


def test_what_nobody_needs_any_more_is_freed_bit_by_bit():
    budget = Budget(10)
    budget.bury([RUN] * (_GRAVE + 1))
    budget.bury([RUN] * _GRAVE)
    assert len(budget.graves) == 1, "few are freed at once"
    assert budget.forget() and len(budget.graves[0]) == 1
    assert not budget.forget() and not budget.graves and not budget.forget()


def test_queues_of_all_slots_are_counted():
    budget = Budget(10)
    budget.queue_made()
    budget.queue_made()
    budget.queue_gone()
    assert budget.used == 1
