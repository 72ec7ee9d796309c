"""The follower's side: what it takes, refuses and tells, and whose word counts."""

from __future__ import annotations

import pytest

from broker.core.records import MetaRecord
from broker.engine.recovery import slot_restore
from broker.journal.log import items
from broker.owner.replication import leader
from broker.owner.slots.standby import Standby
from broker.rpc.v1 import replica_pb2 as pb
from tests.unit.owner.repl_world import World

from .test_repl_basics import SLOT, in_sync, ready_world, same_everywhere, told
from .test_repl_strangers import Line, asks, follower, hello


def test_memory_of_a_standby_follows_what_is_alive():
    world = ready_world()
    leader = world.leader(SLOT)
    for round in range(40):
        ids = [leader.send(SLOT, 5) for _ in range(100)]
        world.run(0.05)
        for first in ids:
            leader.settle(SLOT, first)
        world.run(0.01 if round % 2 else 0.05)
    world.run(0.5)
    assert told(world) == 4000
    sizes = [s.standby.size for o in world.owners.values() for s in o.followers._followed.values()]
    assert len(sizes) == 2 and max(sizes) < 1500


def test_a_follower_whose_standby_throws_stops_and_reads_its_log_anew(monkeypatch):
    """The journal has the item already, and the leader need not send it again: the standby would lead with a hole."""
    world = ready_world()
    leader, follower = world.leader(SLOT), world.owners["o1"]
    original = Standby.apply

    def apply(standby, changes, journal):
        if journal is follower.journal and not follower.throws:
            raise KeyError("planted")
        original(standby, changes, journal)

    monkeypatch.setattr(Standby, "apply", apply)
    leader.send(SLOT)
    with pytest.raises(KeyError, match="planted"):
        world.run(0.1)
    assert [type(error) for error in follower.throws] == [KeyError] and not follower.up
    follower.start()
    world.until(lambda: told(world) == 1 and in_sync(world, "o0", "o1", "o2"))
    world.until(lambda: same_everywhere(world))


def test_followers_in_sync_hear_how_much_counts_and_forget_it_with_their_log():
    world = ready_world()
    leader, follower = world.leader(SLOT), world.owners["o1"]
    world.until(lambda: follower.followers.counted(SLOT) == leader.journal.last(SLOT)[1])
    world.owners["o2"].crash()
    leader.send(SLOT)
    last = leader.journal.last(SLOT)[1]
    world.run(0.02)
    assert follower.journal.last(SLOT)[1] == last > follower.followers.counted(SLOT), "nobody was told of it yet"
    world.until(lambda: in_sync(world, "o0", "o1") and follower.followers.counted(SLOT) == last)
    follower.crash()
    follower.start()
    assert follower.followers.counted(SLOT) is None
    world.until(lambda: follower.followers.counted(SLOT) == last, what="it to hear it again")


def test_a_lower_epoch_is_stale_and_its_items_are_not_taken():
    world, followers, line, end = follower()
    owner = world.owners["o1"]
    followers.follow(owner.new_standby(SLOT), 5)
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
    followers.follow(world.owners["o1"].new_standby(SLOT), 2)
    world.run(0.1)
    assert [(have.slot, have.epoch) for m in newer.sent for have in m.haves.haves] == [(SLOT, 3)]
    assert [(m.stale.slot, m.stale.epoch) for m in older.sent if m.HasField("stale")] == [(SLOT, 3)]


def test_rubbish_as_an_item_is_named_before_it_is_acknowledged():
    world, followers, line, end = follower()
    owner = world.owners["o1"]
    followers.follow(owner.new_standby(SLOT), 1)
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
