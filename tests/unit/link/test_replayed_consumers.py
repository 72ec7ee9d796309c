"""What an edge knows of its consumers follows the commands that leave, and ends with their answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.address import AckMode, Routing
from broker.core.commands import Command, Disconnect, Grant, Hold, Settle, Subscribe, Unsubscribe
from broker.core.message import Run
from broker.link.edge_side.replayed_consumers import ReplayedConsumers, lives
from broker.link.edge_side.slot_channel import SlotChannel

SLOT, SESSION = 3, 1


@pytest.fixture
def world() -> Any:
    channel = SlotChannel(SLOT, 0.0)
    made = SimpleNamespace(channel=channel, replayed=ReplayedConsumers(SimpleNamespace(channel=lambda slot: channel)))  # type: ignore[arg-type]

    def leave(command: Command) -> Any:
        entry = channel.keep(command, 0, 0)
        made.replayed.follow(channel, entry, command)
        return entry

    made.leave = leave
    return made


def subscribe(number: int = 7, ack: AckMode = AckMode.INDIVIDUAL, browse: bool = False) -> Subscribe:
    return Subscribe(SLOT, SESSION, 5, number, "a", Routing.ANYCAST, ack, room=100, browse=browse)


def deliver(consumer: Any, *ids: int) -> None:
    consumer.delivered(Run(list(ids), b"", [b"\nx\0"] * len(ids), 3 * len(ids)), 3 * len(ids))


def settle(*ids: int, number: int = 7) -> Settle:
    return Settle(SLOT, SESSION, 6, number, list(ids))


@pytest.mark.parametrize(
    ("ack", "browse", "by_edge"),
    [(AckMode.AUTO, False, True), (AckMode.AUTO, True, False), (AckMode.INDIVIDUAL, False, False)],
)
def test_a_consumer_lives_from_when_its_subscribe_leaves(world, ack, browse, by_edge):
    command = subscribe(ack=ack, browse=browse)
    entry = world.leave(command)
    consumer = world.replayed.by_number[7]
    assert entry.consumer is consumer and world.channel.consumers == {7: consumer} and lives(world.channel, consumer)
    assert command.confirm is by_edge, "what nobody acknowledges the edge confirms, unless it is only looked at"


def test_what_is_settled_is_set_aside_until_it_is_answered(world):
    world.leave(subscribe())
    consumer = world.replayed.by_number[7]
    deliver(consumer, 1, 2, 3)
    entry = world.leave(settle(1, 2))
    assert list(consumer.ids) == [3] and entry.consumer is consumer
    hold = world.leave(Hold(SLOT, SESSION, 6, 7, [3]))
    assert list(consumer.ids) == [] and consumer.holds == {3: hold}


def test_what_concerns_nobody_changes_nobody(world):
    """Its consumer has ended here: a new owner must not be told of it."""
    world.leave(subscribe())
    consumer = world.replayed.by_number[7]
    deliver(consumer, 1)
    entries = [world.leave(settle(1, number=8)), world.leave(Unsubscribe(SLOT, SESSION, 6, 8, "a"))]
    assert [entry.consumer for entry in entries] == [None, None] and list(consumer.ids) == [1]


@pytest.mark.parametrize("command", [Unsubscribe(SLOT, SESSION, 6, 7, "a"), Disconnect(SLOT, SESSION)])
def test_what_ends_gets_nothing_from_when_that_was_asked(world, command):
    """Before the command leaves: it may wait for others."""
    world.leave(subscribe())
    world.leave(subscribe(8))
    one, other = world.replayed.by_number[7], world.replayed.by_number[8]
    world.replayed.closes(command)
    assert (one.closing, one.leaving) == (True, False)
    assert other.closing is isinstance(command, Disconnect)
    world.leave(command)
    assert one.leaving and other.leaving is isinstance(command, Disconnect)


def test_the_end_of_one_that_is_not_known_is_no_matter(world):
    world.replayed.closes(Unsubscribe(SLOT, SESSION, 6, 9, "a"))
    world.replayed.closes(Grant(SLOT, 9, 5))
    world.leave(Disconnect(SLOT, 99))
    assert world.replayed.by_number == {}


def test_with_a_consumer_go_the_holds_that_were_answered_and_no_others(world):
    """One that is not answered is to be told of itself; one that is says nothing any more."""
    world.leave(subscribe())
    consumer = world.replayed.by_number[7]
    deliver(consumer, 1, 2, 3)
    answered = world.leave(Hold(SLOT, SESSION, 6, 7, [1, 2]))
    world.leave(Hold(SLOT, SESSION, 6, 7, [3]))
    answered.answer()
    assert list(world.replayed.end(world.channel, consumer)) == [answered], "once, whatever it covers"
    assert world.replayed.by_number == {} and not lives(world.channel, consumer) and not lives(world.channel, None)


def test_a_consumer_of_the_same_number_is_another_one(world):
    world.leave(subscribe())
    first = world.replayed.by_number[7]
    world.replayed.end(world.channel, first)
    world.leave(subscribe())
    assert not lives(world.channel, first) and lives(world.channel, world.replayed.by_number[7])
