"""A leader and its followers: what counts, who is in sync, and who steps down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.owner.replication.leader import LINGER_S, RETRY_S, USED_S
from broker.owner.replication.peer import Peer

from .test_repl_basics import SLOT, in_sync, ready_world, same_everywhere, told


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
    followers = leader.leaders._leads[SLOT].followers
    world.until(lambda: all(progress.acked == last for progress in followers.values()), what="acknowledged")
    assert told(world) == 0
    leader.committing = False
    leader.step()
    world.until(lambda: told(world) == 1, seconds=5)


def test_the_tick_has_nothing_to_do_for_slots_at_rest(monkeypatch):
    """An owner leads many slots, and most of them are at rest."""
    world = ready_world()
    leader, follower = world.leader(SLOT), world.owners["o1"]
    world.until(lambda: follower.followers.counted(SLOT) == leader.journal.last(SLOT)[1])
    world.run(1.0)
    looked, considered = [], []
    written, consider = leader.journal.written, leader.leaders._consider
    monkeypatch.setattr(leader.journal, "written", lambda slot: (looked.append(slot), written(slot))[1])
    monkeypatch.setattr(leader.leaders, "_consider", lambda lead: (considered.append(lead), consider(lead)))
    world.run(5.0)
    assert looked == considered == []
    leader.send(SLOT)
    last = leader.journal.last(SLOT)[1]
    world.until(lambda: all(world.owners[o].followers.counted(SLOT) == last for o in ("o1", "o2")))
    assert looked
    world.run(1.0)
    looked.clear()
    world.run(5.0)
    assert looked == considered == []
    world.owners["o2"].crash()
    world.until(lambda: considered)
    world.until(lambda: in_sync(world, "o0", "o1"))


def test_a_stream_that_no_slot_needs_is_kept_for_a_while():
    world = ready_world()
    leader = world.leader(SLOT)
    leader.leaders.resign(SLOT)
    world.run(LINGER_S - USED_S)
    assert set(leader.leaders._peers) == {"o1", "o2"}
    world.run(3 * USED_S)
    assert not leader.leaders._peers


def test_at_rest_followers_are_pinged_half_as_often_and_a_leader_that_hands_out_has_its_promises_at_once(monkeypatch):
    """The world asks all leaders at every step whether they may dispatch: that is no rest."""
    world = ready_world()
    leader = world.leader(SLOT)
    pings: list[str] = []
    tell = Peer.ping
    monkeypatch.setattr(Peer, "ping", lambda self: (pings.append(self.id), tell(self)))
    period = world.settings.ping_ms / 1000
    world.run(50 * period)
    assert len(pings) == pytest.approx(2 * 50, abs=4)
    monkeypatch.setattr(world, "check_dispatch", lambda: None)
    world.run(2 * period)
    pings.clear()
    for _ in range(50):
        world.run(period)
        assert leader.leaders._promised(leader.leaders._leads[SLOT], "o1") > world.now
    assert len(pings) == pytest.approx(2 * 25, abs=4)
    assert leader.leaders.may_dispatch(SLOT), "it waits for no answer"
