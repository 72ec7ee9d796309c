"""Streams that do not belong here are closed with a name for what is wrong, and change nothing."""

from __future__ import annotations

import pytest

from broker.core.records import MetaRecord
from broker.engine.recovery import slot_restore
from broker.journal.log import items
from broker.owner.replication import leader
from broker.rpc.v1 import replica_pb2 as pb
from broker.seams.stream import EndKind
from tests.unit.owner.repl_world import World

SLOT = 7


class Line:
    """A stream that writes down what is done with it."""

    peer = "stranger"
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


def test_a_lower_epoch_is_stale_and_its_items_are_not_taken():
    world, followers, line, end = follower()
    owner = world.owners["o1"]
    followers.follow(owner.new_shadow(SLOT), 5)
    end.on_message(hello())
    end.on_message(asks(4))
    assert (line.sent[0].stale.slot, line.sent[0].stale.epoch) == (SLOT, 5)
    end.on_message(pb.ToFollower(append=pb.Append(seq=1, slots=[SLOT], items=[b"rubbish"])).SerializeToString())
    world.run(0.1)
    assert owner.journal.epoch(SLOT) == 0 and owner.journal.last(SLOT) == (0, 0)


def test_an_older_leaders_question_that_comes_late_does_not_take_the_place_of_the_newer_ones():
    """Both wait until the slot is followed here; the newer leader must get its answer, for it asks only once."""
    world, followers, older, end = follower()
    newer = Line()
    other = followers.accept("replica", newer)
    end.on_message(hello())
    other.on_message(hello(**{"from": "o2"}))
    other.on_message(asks(3))
    end.on_message(asks(2))
    followers.follow(world.owners["o1"].new_shadow(SLOT), 2)
    world.run(0.1)
    assert [(have.slot, have.epoch) for m in newer.sent for have in m.haves.haves] == [(SLOT, 3)]
    assert [(m.stale.slot, m.stale.epoch) for m in older.sent if m.HasField("stale")] == [(SLOT, 3)]


def test_a_leader_that_resigned_while_its_question_waited_leads_nothing():
    world, followers, line, end = follower()
    end.on_message(hello())
    end.on_message(asks(3))
    end.on_message(pb.ToFollower(resign=pb.Resign(slot=SLOT, epoch=3)).SerializeToString())
    followers.follow(world.owners["o1"].new_shadow(SLOT), 3)
    world.run(0.1)
    assert not any(m.HasField("haves") for m in line.sent)
    assert world.owners["o1"].journal.epoch(SLOT) == 0


def test_rubbish_as_an_item_is_named_before_it_is_acknowledged():
    world, followers, line, end = follower()
    owner = world.owners["o1"]
    followers.follow(owner.new_shadow(SLOT), 1)
    end.on_message(hello())
    end.on_message(asks(2))
    world.run(0.1)
    for item in (b"", b"short", b"x" * 100, b"x" * 8 + b"\x04" + b"y" * 60):
        end.on_message(pb.ToFollower(append=pb.Append(seq=1, slots=[SLOT], items=[item])).SerializeToString())
        world.run(0.1)
    kinds = [m.WhichOneof("what") for m in line.sent]
    assert kinds[:3] == ["haves", "broken", "acked"] and not line.closed
    assert owner.journal.last(SLOT) == (0, 0)


def test_what_a_newer_release_has_written_is_refused_by_name_and_taken_after_the_upgrade(monkeypatch, caplog):
    """The older follower keeps what it has, and the others go on without it; it is not copied anew again and again."""
    monkeypatch.setattr(leader, "UPGRADE_S", 1.0)
    world = World()
    world.create(SLOT, "o0")
    leading = world.owners["o0"]
    world.until(lambda: world.leader(SLOT) is not None, what="a leader")
    leading.send(SLOT)
    world.run(1.0)
    known = items.META_KINDS
    leading.append(MetaRecord(SLOT, "news", {}))
    world.run(3.0)
    named = "WRONG_RELEASE", "'news'", "upgrade"
    assert any(all(part in record.getMessage() for part in named) for record in caplog.records)
    assert all(world.owners[id].followers.seeded == 0 for id in ("o1", "o2"))
    held = [world.owners[id].journal.last(SLOT) for id in ("o1", "o2")]
    assert held[0] == held[1] and held[0][1] + 1 == leading.journal.last(SLOT)[1]
    monkeypatch.setattr(items, "META_KINDS", known | {"news"})
    monkeypatch.setattr(
        "broker.engine.recovery.slot_restore._REPLAY", {**slot_restore._REPLAY, "news": lambda restore, data: None}
    )
    world.until(lambda: world.owners["o1"].journal.last(SLOT) == leading.journal.last(SLOT), what="it goes on")
    assert world.owners["o1"].followers.seeded == 0
