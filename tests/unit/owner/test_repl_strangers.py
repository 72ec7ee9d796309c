"""Streams that do not belong here are closed with a name for what is wrong, and change nothing."""

from __future__ import annotations

import pytest

from broker.rpc.v1 import replica_pb2 as pb
from broker.seams.stream import EndKind
from tests.unit.owner.repl_world import World

SLOT = 7


class Line:
    """A stream that writes down what is done with it."""

    peer = "stranger"
    names: frozenset[str] = frozenset()
    pending = 0

    def __init__(self) -> None:
        self.sent: list[pb.ToLeader] = []
        self.closed = ""

    def send(self, message: bytes) -> None:
        self.sent.append(pb.ToLeader.FromString(message))

    def close(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        self.closed = why

    abort = close


def hello(**changes) -> bytes:
    fields = {"cluster": "/test", "version": 1, "from": "o0", "boot": "b", "to": "o1", "checksum": 1, "promise_ms": 250}
    return pb.ToFollower(hello=pb.Hello(**(fields | changes))).SerializeToString()


def asks(epoch: int) -> bytes:
    return pb.ToFollower(leads=pb.Leads(leads=[pb.SlotEpoch(slot=SLOT, epoch=epoch)])).SerializeToString()


def follower():
    world = World()
    line = Line()
    followers = world.owners["o1"].followers
    return world, followers, line, followers.accept("replica", line)


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (hello(cluster="/other"), "WRONG_CLUSTER"),
        (hello(version=2), "WRONG_RELEASE"),
        (hello(to="o2"), "DUPLICATE_IDENTITY"),
        (hello(**{"from": "o1"}), "DUPLICATE_IDENTITY"),
        (hello(promise_ms=0), "BAD_COMPONENT_MESSAGE"),
        (b"\xff\xff\xff", "BAD_COMPONENT_MESSAGE"),
        (b"GET / HTTP/1.1", "BAD_COMPONENT_MESSAGE"),
        (pb.ToFollower(ping=1).SerializeToString(), "BAD_COMPONENT_MESSAGE"),
    ],
)
def test_who_is_not_meant_is_told_why(first, name):
    _, _, line, end = follower()
    end.on_message(first)
    assert line.closed.startswith(name) and not line.sent
    end.on_message(hello())
    assert not line.sent


@pytest.mark.parametrize(("names", "comes_in"), [(("o0",), True), (("o2", "o0"), True), (("o2",), False), ((), True)])
def test_a_leader_has_the_name_that_its_certificate_says(names, comes_in):
    _, _, line, end = follower()
    line.names = frozenset(names)
    end.on_message(hello())
    assert line.closed.startswith("DUPLICATE_IDENTITY") is not comes_in


def test_another_process_with_a_leaders_name_is_refused_while_that_one_lives():
    world, followers, line, end = follower()
    end.on_message(hello())
    other = Line()
    followers.accept("replica", other).on_message(hello(boot="c"))
    assert other.closed.startswith("DUPLICATE_IDENTITY") and not line.closed
    world.run(1.0)
    third = Line()
    followers.accept("replica", third).on_message(hello(boot="c"))
    assert not third.closed


def test_a_leader_that_resigned_while_its_question_waited_leads_nothing():
    world, followers, line, end = follower()
    end.on_message(hello())
    end.on_message(asks(3))
    end.on_message(pb.ToFollower(resign=pb.Resign(slot=SLOT, epoch=3)).SerializeToString())
    followers.follow(world.owners["o1"].new_standby(SLOT), 3)
    world.run(0.1)
    assert not any(m.HasField("haves") for m in line.sent)
    assert world.owners["o1"].journal.epoch(SLOT) == 0
