"""Followers that lack something: they get the tail or a copy, each item once, and hold up nobody."""

from __future__ import annotations

import pytest

from broker.owner.replication.catchup import HURRY_S, LATE_ITEMS, STEP_ITEMS
from broker.owner.replication.isr import UNKNOWN, Progress

from .test_repl_basics import SLOT, in_sync, ready_world, same_everywhere, told


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


def test_what_was_acknowledged_of_one_copy_does_not_count_for_the_next():
    world = ready_world(tail_bytes=0)
    leader = world.leader(SLOT)
    world.owners["o1"].crash(wipe=True)
    world.until(lambda: in_sync(world, "o0", "o2"))
    leader.send(SLOT)
    world.until(lambda: told(world) == 1)
    progress = leader.leaders._leads[SLOT].followers["o1"]
    progress.cannot_go_on()
    progress.acked = 10**6
    leader.leaders._consider(leader.leaders._leads[SLOT])
    assert leader.leaders._leads[SLOT].followers["o1"].acked == UNKNOWN


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
    standby = other.followers.unfollow(SLOT)
    other.followers.follow(standby, world.records[SLOT].epoch)
    world.until(lambda: lead.followers["o2"].state is Progress.LIVE, what="o2 goes on")
