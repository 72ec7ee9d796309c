"""Replication among three owners: what counts, who takes over, how one catches up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.owner.replication.catchup import HURRY_S, LATE_ITEMS, STEP_ITEMS
from broker.owner.replication.isr import UNKNOWN, Progress
from broker.owner.replication.leader import RETRY_S
from broker.owner.slots.standby import Shadow
from tests.unit.owner.repl_world import World

SLOT = 7


def ready_world(**more) -> World:
    world = World(**more)
    world.create(SLOT, "o0")
    world.until(lambda: world.leader(SLOT) is not None, what="a leader")
    return world


def told(world: World) -> int:
    return len(world.told.get(SLOT, {}))


def same_everywhere(world: World) -> bool:
    """I5: whoever reports the same end of the log has the same live messages."""
    up = [o for o in world.owners.values() if o.up]
    return len({(o.journal.last(SLOT), tuple(o.live(SLOT))) for o in up}) == 1


def in_sync(world: World, *owners: str) -> bool:
    return set(world.records[SLOT].isr) == set(owners)


def test_a_message_counts_when_every_in_sync_follower_has_it():
    world = ready_world()
    leader = world.leader(SLOT)
    for _ in range(20):
        leader.send(SLOT)
        world.run(0.001)
    world.until(lambda: told(world) == 20)
    world.until(lambda: same_everywhere(world))
    assert leader.leaders.backlog == 0


def test_a_silent_follower_is_dropped_first_and_only_then_do_messages_count():
    world = ready_world()
    leader = world.leader(SLOT)
    world.owners["o2"].crash()
    leader.send(SLOT)
    world.run(0.02)
    assert told(world) == 0, "counted without an in-sync follower"
    world.until(lambda: told(world) == 1)
    assert in_sync(world, "o0", "o1")
    assert ("o2", "") not in leader.lost and leader.lost[-1][0] == "o2"


def test_nobody_waits_for_an_owner_that_ends_before_it_has_registered_anew():
    """Its key goes some time before its streams do: it must not be taken for one that has caught up."""
    world = ready_world()
    leaders, stay = world.leader(SLOT).leaders, ["o0", "o1"]
    leaders.members(stay, leaving=["o2"])
    world.until(lambda: in_sync(world, "o0", "o1"))
    leaders.members(stay, leaving=[])
    world.run(2)
    assert in_sync(world, "o0", "o1")
    leaders.members([*stay, "o2"], leaving=[])
    world.until(lambda: in_sync(world, "o0", "o1", "o2"))


@pytest.mark.parametrize("seed", range(8))
def test_who_ends_is_let_go_also_while_somebody_else_joins(seed):
    """Its end waits for that. That another one has joined may be told before the proposal is answered."""
    world = ready_world(seed=seed)
    leader = world.leader(SLOT)
    world.owners["o2"].crash()
    world.until(lambda: in_sync(world, "o0", "o1"))
    world.owners["o2"].start()
    while ("o0", "o1", "o2") not in leader.leaders._leads[SLOT].unsure:
        world.run(0.0005)
    leader.leaders.members(("o0", "o2"), ("o1",))
    world.until(lambda: in_sync(world, "o0", "o2"), 5)


def test_a_change_of_the_isr_that_came_second_is_proposed_again_at_once():
    """The controller writes the same record: what stalls the slot must not stall it for another while."""
    world = ready_world()
    leaders, asked = world.leader(SLOT).leaders, []
    home = leaders._home

    def crossed(record, new, done) -> None:
        if not asked:
            world.write(replace(record, target="o1"))
        asked.append(world.now)
        home.change(record, new, done)

    leaders._home = replace(home, change=crossed)
    leaders.members(["o1"], leaving=["o2"])
    world.until(lambda: in_sync(world, "o0", "o1"))
    assert len(asked) == 2 and world.now - asked[0] < RETRY_S / 2


def test_never_below_min_in_sync():
    world = ready_world()
    leader = world.leader(SLOT)
    world.owners["o1"].crash()
    world.owners["o2"].crash()
    leader.send(SLOT)
    world.run(5)
    assert told(world) == 0
    assert len(world.records[SLOT].isr) >= 2
    world.owners["o1"].start()
    world.until(lambda: told(world) == 1)


def test_one_that_comes_back_gets_the_tail_and_is_in_sync_again():
    world = ready_world()
    leader = world.leader(SLOT)
    world.owners["o2"].crash()
    world.until(lambda: in_sync(world, "o0", "o1"))
    for _ in range(10):
        leader.send(SLOT)
    world.until(lambda: told(world) == 10)
    world.owners["o2"].start()
    world.until(lambda: in_sync(world, "o0", "o1", "o2"))
    world.until(lambda: same_everywhere(world))
    assert leader.leaders._catch_up.seeds == 0


def test_who_lacks_much_does_not_hold_up_what_is_committed_meanwhile():
    """It is in sync with one slot before it has all of the others: their items must not stand in a long row before
    those that clients wait for."""
    world = ready_world()
    world.create(SLOT + 1, "o0")
    world.until(lambda: world.leader(SLOT + 1) is not None)
    leader = world.leader(SLOT)
    world.owners["o2"].crash()
    world.until(lambda: in_sync(world, "o0", "o1"))
    for _ in range(40):
        for _ in range(60):
            leader.send(SLOT, size=1)
        world.run(0.01)
    world.until(lambda: told(world) == 2400)
    world.owners["o2"].start()
    most = 0
    peer = leader.leaders._peers["o2"]
    end = world.now + 20
    while not in_sync(world, "o0", "o1", "o2"):
        leader.send(SLOT, size=1)
        world.run(0.001)
        most = max(most, peer.late)
        assert world.now < end, "it never catches up"
    assert 0 < most <= LATE_ITEMS + STEP_ITEMS
    world.until(lambda: same_everywhere(world))
    assert peer.late == 0


def test_who_is_asked_anew_while_it_catches_up_gets_each_item_once():
    """What was still to be sent for the old answer does not mix with what is sent for the new one."""
    world = ready_world()
    leader = world.leader(SLOT)
    world.owners["o2"].crash()
    world.until(lambda: in_sync(world, "o0", "o1"))
    for _ in range(50):
        for _ in range(60):
            leader.send(SLOT, size=1)
        world.run(0.01)
    world.owners["o2"].start()
    peer = leader.leaders._peers["o2"]
    world.until(lambda: peer.late > 0)
    leader.leaders.on_broken(peer, SLOT, "", None)
    world.until(lambda: in_sync(world, "o0", "o1", "o2"))
    world.until(lambda: same_everywhere(world))
    assert leader.leaders._catch_up.seeds == 0


def test_catching_up_goes_faster_the_longer_it_takes():
    """Else one who takes little at a time never comes to the end of what is written meanwhile."""
    world = ready_world()
    catch_up, peer = world.leader(SLOT).leaders._catch_up, world.leader(SLOT).leaders._peers["o1"]
    assert catch_up._room(peer)
    peer.late = LATE_ITEMS
    assert not catch_up._room(peer)
    world.now += HURRY_S
    assert catch_up._room(peer)
    peer.late = 2 * LATE_ITEMS
    assert not catch_up._room(peer)


@pytest.mark.parametrize("wipe", [True, False])
def test_one_without_a_usable_log_is_seeded_while_traffic_goes_on(wipe):
    world = ready_world(tail_bytes=2000)
    leader = world.leader(SLOT)
    world.owners["o2"].crash(wipe=wipe)
    world.until(lambda: in_sync(world, "o0", "o1"))
    ids = [leader.send(SLOT, 200) for _ in range(60)]
    world.until(lambda: told(world) == 60)
    for first in ids[::2]:
        leader.settle(SLOT, first, group=first % 4 == 0)
    world.owners["o2"].start()
    for _ in range(10):
        world.run(0.02)
        leader.send(SLOT, 20)
    world.until(lambda: in_sync(world, "o0", "o1", "o2"))
    world.until(lambda: same_everywhere(world) and told(world) == 70)
    assert leader.leaders._catch_up.seeds >= 1
    assert world.owners["o2"].followers.seeded >= 1


def test_the_next_leader_has_everything_and_the_old_one_comes_back_as_follower():
    world = ready_world()
    leader = world.leader(SLOT)
    for _ in range(10):
        leader.send(SLOT)
        world.run(0.002)
    leader.crash()
    world.run(0.05)
    before = told(world)
    world.fail_over(SLOT)
    world.until(lambda: world.leader(SLOT) is not None)
    assert world.leader(SLOT) is not leader
    world.leader(SLOT).send(SLOT)
    world.until(lambda: told(world) > before)
    leader.start()
    world.until(lambda: in_sync(world, "o0", "o1", "o2"))
    world.until(lambda: same_everywhere(world))


def test_a_new_leader_that_has_less_gives_way():
    world = ready_world()
    leader = world.leader(SLOT)
    world.run(0.1)
    world.blocked.add(frozenset(("o0", "o1")))
    for _ in range(5):
        leader.send(SLOT)
    world.run(0.05)  # o2 has them, o1 has not, nobody was told
    leader.crash()
    world.blocked.clear()
    ends = {o: world.owners[o].journal.last(SLOT)[1] for o in ("o1", "o2")}
    assert ends["o2"] > ends["o1"] and told(world) == 0
    record = world.records[SLOT]
    world.write(type(record)(SLOT, record.epoch + 1, "o1", record.replicas, ("o1", "o2")))
    world.until(lambda: world.leader(SLOT) is world.owners["o2"])
    assert world.owners["o2"].followers.seeded == 0
    world.until(lambda: same_everywhere(world))


def test_a_leader_cut_off_stops_dispatching_before_another_begins():
    world = ready_world()
    leader = world.leader(SLOT)
    world.until(lambda: leader.leaders.may_dispatch(SLOT))
    world.blocked |= {frozenset(("o0", "o1")), frozenset(("o0", "o2"))}
    record = world.records[SLOT]
    leader.known[SLOT] = record  # cut off from the slot table as well
    leader.on_record = lambda record: None
    world.write(type(record)(SLOT, record.epoch + 1, "o1", record.replicas, ("o1", "o2")))
    world.until(lambda: world.owners["o1"].leaders.may_dispatch(SLOT))  # World.run checks that never two may
    assert not leader.leaders.may_dispatch(SLOT)


def test_resigning_lets_the_next_leader_dispatch_at_once():
    world = ready_world(promise_ms=5000)
    leader = world.leader(SLOT)
    world.until(lambda: leader.leaders.may_dispatch(SLOT))
    record, begin = world.records[SLOT], world.now
    world.write(type(record)(SLOT, record.epoch + 1, "o1", record.replicas, record.isr))
    leader.on_record(world.records[SLOT])
    world.until(lambda: world.owners["o1"].leaders.may_dispatch(SLOT))
    assert world.now - begin < 1.0


def test_large_bodies_are_there_before_their_messages():
    world = ready_world()
    leader = world.leader(SLOT)
    body = world.random.randbytes(300_000)
    leader.send(SLOT, body=body)
    leader.send(SLOT)
    world.until(lambda: told(world) == 2)
    (id,) = world.bodies
    for owner in world.owners.values():
        assert owner.journal.blobs.read(id, 0, len(body)) == body
    leader.crash()
    world.fail_over(SLOT)
    world.until(lambda: world.leader(SLOT) is not None)


def test_large_bodies_go_with_seeds():
    world = ready_world(tail_bytes=0)
    leader = world.leader(SLOT)
    world.owners["o2"].crash(wipe=True)
    world.until(lambda: in_sync(world, "o0", "o1"))
    body = world.random.randbytes(100_000)
    leader.send(SLOT, body=body)
    world.until(lambda: told(world) == 1)
    world.owners["o2"].start()
    world.until(lambda: in_sync(world, "o0", "o1", "o2"))
    assert world.owners["o2"].journal.blobs.read(next(iter(world.bodies)), 0, len(body)) == body


def test_maximal_isr_a_joining_member_counts_before_it_is_known_to_have_joined():
    world = ready_world()
    leader = world.leader(SLOT)
    world.owners["o2"].crash()
    world.until(lambda: in_sync(world, "o0", "o1"))
    world.lose_answers = 1.0
    leader.on_record = lambda record: None  # it hears of nothing
    world.owners["o2"].start()
    world.until(lambda: in_sync(world, "o0", "o1", "o2"))
    world.blocked.add(frozenset(("o0", "o2")))
    leader.send(SLOT)
    world.run(0.25)
    assert told(world) == 0, "o2 may be elected and does not have it"


def test_an_unknown_outcome_is_settled_when_the_store_answers_again():
    world = ready_world()
    leader = world.leader(SLOT)
    world.store_up = False
    world.owners["o2"].crash()
    leader.send(SLOT)
    world.run(3)
    assert told(world) == 0
    world.store_up = True
    world.until(lambda: told(world) == 1)
    world.owners["o2"].start()
    world.until(lambda: in_sync(world, "o0", "o1", "o2"))


def test_without_the_store_traffic_goes_on():
    world = ready_world()
    leader = world.leader(SLOT)
    world.store_up = False
    for _ in range(5):
        leader.send(SLOT)
        world.run(0.3)
        assert leader.leaders.may_dispatch(SLOT)
    world.until(lambda: told(world) == 5)


def test_memory_of_a_shadow_follows_what_is_alive():
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
    sizes = [s.size for o in world.owners.values() for s in o.followers._shadows.values()]
    assert len(sizes) == 2 and max(sizes) < 1500


def test_metrics_are_there():
    world = ready_world()
    world.leader(SLOT).send(SLOT)
    world.until(lambda: told(world) == 1)
    owners = world.owners.values()
    found = {m.name: m for o in owners for m in (*o.leaders.metrics(), *o.followers.metrics()) if m.samples}
    assert {"stomp_led_slots", "stomp_replication_unacked_bytes", "stomp_isr_shrinks_total"} <= set(found)


def test_what_was_acknowledged_of_one_copy_does_not_count_for_the_next():
    world = ready_world(tail_bytes=0)
    leader = world.leader(SLOT)
    world.owners["o1"].crash(wipe=True)
    world.until(lambda: in_sync(world, "o0", "o2"))
    leader.send(SLOT)
    world.until(lambda: told(world) == 1)
    track = leader.leaders._leads[SLOT].tracks["o1"]
    track.cannot_go_on()
    track.acked = 10**6
    leader.leaders._consider(leader.leaders._leads[SLOT])
    assert leader.leaders._leads[SLOT].tracks["o1"].acked == UNKNOWN


def test_a_question_whose_answer_was_given_up_is_asked_again():
    """The slot was given up and followed again while the answer waited for the disk: without a second question the
    follower would be left out for as long as both live."""
    world = ready_world()
    leading, other = world.leader(SLOT), world.owners["o2"]
    world.until(lambda: in_sync(world, "o0", "o1", "o2") and not other.callbacks)
    lead = leading.leaders._leads[SLOT]
    leading.leaders._ask(lead, lead.restart("o2"))
    while not other.callbacks:
        world.run(0.0001)
    shadow = other.followers.unfollow(SLOT)
    other.followers.follow(shadow, world.records[SLOT].epoch)
    world.until(lambda: lead.tracks["o2"].state is Progress.LIVE, what="o2 goes on")


def test_a_follower_whose_shadow_throws_stops_and_reads_its_log_anew(monkeypatch):
    """The journal has the item already, and the leader need not send it again: the shadow would lead with a hole."""
    world = ready_world()
    leader, follower = world.leader(SLOT), world.owners["o1"]
    original = Shadow.apply

    def apply(shadow, changes, journal):
        if journal is follower.journal and not follower.throws:
            raise KeyError("planted")
        original(shadow, changes, journal)

    monkeypatch.setattr(Shadow, "apply", apply)
    leader.send(SLOT)
    with pytest.raises(KeyError, match="planted"):
        world.run(0.1)
    assert [type(error) for error in follower.throws] == [KeyError] and not follower.up
    follower.start()
    world.until(lambda: told(world) == 1 and in_sync(world, "o0", "o1", "o2"))
    world.until(lambda: same_everywhere(world))


def test_what_followers_acknowledge_before_it_is_sealed_counts_when_it_is():
    """They came back while a commit was under way, and were sent what gathers for the next one: after its seal nobody
    would have said anything more, and the slot answered nothing until somebody wrote again."""
    world = ready_world()
    leader = world.leader(SLOT)
    world.until(lambda: len(leader.leaders._leads[SLOT].live) == 2)
    leader.committing = True
    leader.send(SLOT)
    last = leader.journal.last(SLOT)[1]
    for near in [near for near in world.streams if near.owner is leader]:
        near.abort("reset")
    tracks = leader.leaders._leads[SLOT].tracks
    world.until(lambda: all(track.acked == last for track in tracks.values()), what="acknowledged")
    assert told(world) == 0
    leader.committing = False
    leader.step()
    world.until(lambda: told(world) == 1, seconds=5)


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
