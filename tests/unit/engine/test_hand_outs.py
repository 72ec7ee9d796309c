"""What is handed out is in the log where an address wants that, before what became of it, and nowhere else."""

from __future__ import annotations

import pytest

from broker.core.commands import Outcome
from broker.core.records import DELIVERED, MetaRecord, SettleRecord

from .world import AUTO, INDIVIDUAL, World, bodies


def told(world: World) -> list[dict]:
    return [record.data for _, record in world.log if isinstance(record, MetaRecord) and record.kind == DELIVERED]


def test_a_turn_says_to_whom_and_which_attempt_it_was():
    world = World(record_deliveries=True)
    world.subscribe(11, ack=INDIVIDUAL)
    world.subscribe(12, ack=INDIVIDUAL)
    world.publish("q", *bodies(4), durable=True)
    (queue,) = world.engine.queues()
    assert told(world) == [
        {"queue": queue.id, "at": 1_000_000, "to": [[11, 1, [(1, 1), (3, 3)]], [12, 1, [(2, 2), (4, 4)]]]}
    ]
    world.now += 5
    world.unsubscribe(11)  # which was no failure
    world.settle(12, 2, outcome=Outcome.NACK)
    assert [record["to"] for record in told(world)[1:]] == [[[12, 1, [(1, 1), (3, 3)]]], [[12, 2, [(2, 2)]]]]


def test_what_is_gone_as_it_is_handed_out_was_handed_out_before():
    world = World(record_deliveries=True)
    world.subscribe(11, ack=AUTO)
    world.publish("q", *bodies(3), durable=True)
    kinds = [type(record) for _, record in world.log]
    (hand_out,) = [at for at, (_, record) in enumerate(world.log) if getattr(record, "kind", "") == DELIVERED]
    assert told(world)[0]["to"] == [[11, 1, [(1, 3)]]] and hand_out < kinds.index(SettleRecord)


def test_a_backlog_is_one_record_a_turn_however_many_messages():
    world = World(record_deliveries=True)
    for body in bodies(900):
        world.publish("q", body, durable=True)
    world.in_pieces = True
    world.subscribe(11, ack=INDIVIDUAL)
    while world.engine.unfinished:
        world.finish(world.turn())
    assert 2 <= len(told(world)) <= 4
    assert all(len(spans) == 1 for record in told(world) for _, _, spans in record["to"])
    assert sum(b - a + 1 for record in told(world) for _, _, spans in record["to"] for a, b in spans) == 900


def test_only_where_it_is_wanted_and_only_what_is_in_the_log():
    world = World(addresses={"told": {"record_deliveries": True}})
    for consumer, name in enumerate(("told", "quiet"), 11):
        world.subscribe(consumer, name)
        world.publish(name, b"1", durable=True)
    world.publish("told", b"not durable")
    world.subscribe(13, "told", browse=True)
    assert len(told(world)) == 1
    world.settings = World(addresses={"quiet": {"record_deliveries": True}}).settings
    world.engine.configure(world.settings)
    world.publish("told", b"2", durable=True)
    world.publish("quiet", b"2", durable=True)
    assert [record["to"][0][0] for record in told(world)] == [11, 12]


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_needs_nothing_of_it(clean: bool):
    world = World(record_deliveries=True)
    world.subscribe(11, ack=INDIVIDUAL)
    world.publish("q", *bodies(3), durable=True)
    world.settle(11, 1, seq=1)
    assert not any(record.kind == DELIVERED for record in world.engine.snapshot())
    world.restart(clean)
    world.subscribe(12, ack=INDIVIDUAL)
    assert told(world)[-1]["to"] == [[12, 1, [(2, 3)]]]


@pytest.mark.parametrize("more", [{}, {"last_value_key": "n"}, {"ring_size": 100}])
def test_of_a_queue_whose_messages_stay_everything_that_was_handed_out_is_told(more):
    """Nothing was: it is handed out while the queue is brought in order, before anybody looked."""
    world = World(record_deliveries=True, non_destructive=True, **more)
    world.subscribe(11, ack=AUTO)
    world.publish("q", *bodies(3), durable=True)
    world.subscribe(12, ack=INDIVIDUAL)
    assert [record["to"] for record in told(world)] == [[[11, 1, [(1, 3)]]], [[12, 1, [(1, 3)]]]]
    world.now += 5
    world.publish("q", b"4", durable=True)
    assert told(world)[2]["to"] == [[11, 1, [(4, 4)]], [12, 1, [(4, 4)]]]


def test_also_of_what_comes_back_from_the_disk():
    world = World(record_deliveries=True, non_destructive=True, queue_memory_bytes=12, page_bytes=6)
    for body in bodies(20):
        world.publish("q", body, durable=True)
    world.subscribe(11, ack=AUTO)
    spans = [span for record in told(world) for _, _, spans in record["to"] for span in spans]
    assert sum(b - a + 1 for a, b in spans) == 20
