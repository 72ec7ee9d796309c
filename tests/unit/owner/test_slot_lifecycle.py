"""The life of slots in one owner: what is waited for before a slot is led, and what stays when it is led no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.config.addressing import AddressSettings
from broker.config.settings import EngineSettings
from broker.core.address import Routing
from broker.core.commands import Publish
from broker.core.message import BLOB, NO_IDS, Run
from broker.core.slots import SlotRecord
from broker.owner.slots import slot_lifecycle
from tests.unit.owner.lifecycle_world import ALL, ME, OTHER, SLOT, THIRD, World


@pytest.fixture
def world():
    return World()


# ── taking over ────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_led_before_the_process_is_registered(world):
    world.is_now(1, ME)
    assert world.led == {} and SLOT in world.followed
    world.lifecycle.go_on()
    world.run()
    assert world.served == {SLOT: 1} and world.followed == {}


def test_a_new_leader_waits_for_the_end_of_its_promise(world):
    world.lifecycle.go_on()
    world.is_now(1, OTHER)
    world.promised = world.now + 0.2
    world.is_now(2, ME)
    world.wait(0.1)
    assert world.led == {} and world.journal.epoch(SLOT) == 0
    world.wait(0.15)
    assert world.led == world.served == {SLOT: 2} and world.journal.epoch(SLOT) == 2


def test_not_when_the_old_one_has_resigned(world):
    world.lifecycle.go_on()
    world.is_now(1, OTHER)
    world.promised = world.now + 0.2
    world.is_now(2, ME)
    world.lifecycle.released(SLOT)
    world.run()
    assert world.served == {SLOT: 2}
    world.wait(1)
    assert world.led == {SLOT: 2}


def test_it_serves_when_everybody_in_sync_has_everything(world):
    world.whole = False
    world.lifecycle.go_on()
    world.is_now(1, ME)
    assert world.led == {SLOT: 1} and world.served == {}
    world.whole = True
    world.shard.on_progress()
    world.run()
    assert world.served == {SLOT: 1}


def test_a_newer_record_wins_while_it_takes_over(world):
    world.whole = False
    world.lifecycle.go_on()
    world.is_now(1, ME)
    world.is_now(2, OTHER)
    assert world.led == {} and world.followed[SLOT][1] == 2
    world.whole = True
    world.shard.on_progress()
    world.wait(1)
    assert world.served == {} and world.shard.engines == {}


@pytest.mark.parametrize("called_off", [False, True])
def test_a_long_queue_is_taken_over_in_steps_and_whole(world, called_off, monkeypatch):
    """Each step lets others have their turn; a newer record may come between two of them."""
    monkeypatch.setattr(slot_lifecycle, "ROUSE_RUNS", 2)
    world.leading().send(*[b"%d" % i for i in range(7)])
    again = world.restarted()
    again.lifecycle.go_on()
    again.is_now(2, ME)
    steps = []
    while again.timers and again.served == {}:
        steps.append(again.timers.pop(0))
        steps[-1][1]()
        if called_off and len(steps) == 2:
            again.journal.append_snapshot(again.others())  # a segment begins in between
            again.is_now(3, OTHER)
            assert again.followed[SLOT][1] == 3 and again.followed[SLOT][0].size == 7
            again.is_now(4, ME)
        again.run()
    assert len(steps) >= 3 and again.served == {SLOT: 4 if called_off else 2}
    again.wait(0.5)
    again.consume()
    assert again.got() == [b"%d" % i for i in range(7)]


def test_a_record_that_is_older_or_gone_changes_nothing(world):
    world.leading()
    old = SlotRecord(SLOT, 1, OTHER, ALL, ALL, "", 1)
    world.is_now(1, ME)
    world.lifecycle.on_record(SLOT, old)
    world.lifecycle.on_record(SLOT, None)
    world.run()
    assert world.served == {SLOT: 1}


def test_nothing_is_handed_out_before_the_edges_are_there(world):
    world.live_edges = {"e1"}
    world.lifecycle.go_on()
    world.is_now(1, ME)
    world.send(b"m")
    world.consume()
    assert world.receipts() == 1 and world.got() == []
    world.told_by = {"e1"}
    world.wait(0.02)
    assert world.got() == [b"m"]


def test_but_an_edge_that_does_not_come_is_not_waited_for_long(world):
    world.live_edges = {"e1"}
    world.lifecycle.go_on()
    world.is_now(1, ME)
    world.send(b"m")
    world.consume()
    world.wait(0.25)
    assert world.got() == [b"m"]


def test_nor_is_anything_let_in_but_who_comes_back(world):
    """And nobody waits for the next look when the last edge is there."""
    world.live_edges = {"e1", "e2"}
    world.lifecycle.go_on()
    world.is_now(1, ME)
    news, now = world.waited_for, world.now
    world.told_by = {"e1"}
    news()
    assert world.waited_for is news
    world.told_by = {"e1", "e2"}
    news()
    assert world.waited_for is None and world.now == now
    world.send(b"m")
    world.consume()
    assert world.got() == [b"m"]
    news()  # a stream broke, and the edge has told everything again
    world.wait(0.5)
    assert world.served == {SLOT: 1}


def test_an_edge_that_does_not_come_keeps_the_others_out_not_for_long(world):
    world.live_edges = {"e1"}
    world.lifecycle.go_on()
    world.is_now(1, ME)
    world.wait(0.15)
    assert world.waited_for is not None
    world.wait(0.1)
    assert world.waited_for is None


def test_who_was_not_there_before_a_transfer_that_is_called_off_is_waited_for_behind_it(world):
    world.live_edges = {"e1"}
    world.lifecycle.go_on()
    world.is_now(1, ME)
    world.whole = False
    world.send(b"m")
    world.is_now(1, ME, target=OTHER)
    assert world.served == {}
    world.is_now(1, ME, target="")
    world.whole = True
    world.shard.on_progress()
    world.run()
    assert world.served == {SLOT: 1} and world.waited_for is not None
    world.told_by = {"e1"}
    world.waited_for()
    world.consume()
    assert world.got() == [b"m"]


# ── a restart ──────────────────────────────────────────────────────────────────────────────────────


def test_who_comes_back_as_the_leader_asks_for_a_new_epoch(world):
    """Followers may have records of the old one that this disk has lost."""
    world.leading().send(b"m")
    again = world.restarted()
    again.lifecycle.on_record(SLOT, again.record)
    again.lifecycle.go_on()
    again.run()
    again.wait(0.5)
    assert again.changes[0].epoch == 2 and again.served == {SLOT: 2}
    again.consume()
    assert again.got() == [b"m"]


def test_while_the_store_is_away_it_asks_again(world):
    again = world.leading().restarted()
    again.table_up = False
    again.lifecycle.on_record(SLOT, again.record)
    again.lifecycle.go_on()
    again.wait(1)
    assert again.served == {} and len(again.changes) > 2
    again.table_up = True
    again.wait(0.5)
    assert again.served == {SLOT: 2}


# ── handing over ───────────────────────────────────────────────────────────────────────────────────


def test_a_transfer_waits_until_the_target_has_everything(world):
    world.leading()
    world.whole = False
    world.send(b"m")
    world.is_now(1, ME, target=OTHER)
    assert world.served == {} and world.changes == []
    world.whole = True
    world.shard.on_progress()
    world.run()
    (record,) = world.changes
    assert (record.leader, record.epoch, record.target, record.isr) == (OTHER, 2, "", (OTHER, THIRD))
    assert world.receipts() == 1 and world.resigned == [SLOT] and world.followed[SLOT][1] == 2


@pytest.mark.parametrize("target", ["", THIRD])
def test_a_transfer_that_is_called_off(world, target):
    world.leading()
    world.whole = False
    world.send(b"m")
    world.is_now(1, ME, target=OTHER)
    world.is_now(1, ME, target=target, isr=(ME, OTHER))
    world.whole = True
    world.shard.on_progress()
    world.wait(0.1)
    assert world.served == {SLOT: 1} and world.changes == []
    world.consume()
    assert world.got() == [b"m"]


def test_a_transfer_that_the_store_does_not_answer_keeps_nobody_from_the_slot(world):
    world.leading()
    world.table_up = False
    world.is_now(1, ME, target=OTHER)
    assert world.served == {SLOT: 1}
    world.wait(100)
    assert 5 < len(world.changes) < 12 and world.served == {SLOT: 1}
    world.table_up = True
    world.wait(60)
    assert world.served == {} and world.record.leader == OTHER


# ── stepping down ──────────────────────────────────────────────────────────────────────────────────


def test_who_is_deposed_tells_nothing_more_and_follows_with_what_it_has(world):
    world.leading().send(b"a", b"b")
    world.io.held = True
    world.send(b"c")
    world.table_up = False  # its watch has yet to tell who leads
    world.lifecycle.deposed(SLOT, 2)
    world.io.go_on()
    world.run()
    assert world.receipts() == 2 and world.shard.engines == {} and SLOT not in world.journal.replicated
    standby, epoch = world.followed[SLOT]
    assert (epoch, standby.size) == (2, 3)
    world.is_now(2, OTHER)
    world.is_now(3, ME)
    world.wait(0.5)
    world.consume()
    assert world.got() == [b"a", b"b", b"c"]


def test_what_does_not_last_takes_no_place_when_it_leads_no_more(world):
    """Cluster history 105: only a restart freed what was paged out, and the files of large bodies."""
    world.leading().send(b"a")
    blobs = world.journal.blobs
    writer = blobs.create()
    writer.write(b"x" * 1000)
    run = Run(NO_IDS, b"", [b"\n"], 1002, BLOB, blob=writer.finish(False))
    world.shard.submit([Publish(SLOT, 5, 9, "q", Routing.ANYCAST, run)])
    world.run()
    before = world.journal.live_bytes()
    world.is_now(2, OTHER)
    assert world.followed[SLOT][0].size == 1
    assert world.journal.live_bytes() == before // 2
    world.is_now(3, ME)
    world.wait(0.5)
    for body in (b"b", b"c", b"d"):
        world.shard.maintain()
        world.send(body)
    assert world.disk.listdir(blobs.folder) == []


def test_records_that_change_while_the_log_is_read(world):
    world.leading().send(b"m")
    world.surveys.held = True
    world.is_now(2, OTHER)
    world.is_now(3, ME)
    world.is_now(4, THIRD)
    world.is_now(5, ME)
    assert world.followed == {} and world.led == {}
    world.surveys.go_on()
    world.run()
    world.wait(0.5)
    assert world.served == {SLOT: 5}
    world.consume()
    assert world.got() == [b"m"]


def test_what_a_slot_is_survives_a_segment_that_begins_while_its_log_is_read(world):
    """The head of a segment stands for all small state before it: a queue that is not in it is gone."""
    world.leading().send(b"m")
    world.surveys.held = True
    world.is_now(2, OTHER)
    world.journal.append_snapshot(world.others())
    world.shard.durable(lambda: None)
    world.run()
    again = world.restarted()
    again.lifecycle.go_on()
    again.is_now(3, ME)
    again.wait(0.5)
    again.consume()
    assert again.got() == [b"m"]


def test_who_is_declared_dead_leads_nothing_until_it_is_registered_again(world):
    world.leading().send(b"m")
    world.surveys.held = True
    world.lifecycle.suspend()
    world.run()
    assert world.served == {}
    world.consume()
    world.is_now(1, ME)
    assert world.served == {} and world.got() == []
    world.lifecycle.go_on()
    world.run()
    assert world.served == {SLOT: 1} and not world.changes, "nobody has led instead: nothing is read, nothing asked"
    assert world.got() == [b"m"]


@pytest.mark.parametrize("before", [True, False])
def test_what_others_lead_since_it_was_declared_dead_is_followed(world, before):
    world.leading().send(b"m")
    world.lifecycle.suspend()
    world.run()
    if before:
        world.is_now(2, OTHER)
        assert world.resigned == [SLOT] and SLOT in world.followed
        world.lifecycle.go_on()
    else:  # our watch is slow
        world.lifecycle.go_on()
        world.run()
        assert world.served == {SLOT: 1}
        world.is_now(2, OTHER)
    world.wait(0.5)
    assert world.served == {} and world.resigned == [SLOT] and SLOT in world.followed


def test_a_transfer_that_was_under_way_when_it_was_declared_dead_begins_again(world):
    world.leading().send(b"m")
    world.whole = False
    world.is_now(1, ME, target=OTHER)
    world.lifecycle.suspend()
    world.whole = True
    world.send(b"late")
    world.wait(0.5)
    assert world.changes == [], "nothing is handed over by who is taken for dead"
    world.lifecycle.go_on()
    world.wait(0.5)
    assert (world.record.leader, world.record.epoch) == (OTHER, 2) and world.served == {}


def test_what_was_not_taken_over_yet_when_it_was_declared_dead_is_begun_again(world):
    world.promised = world.now + 1
    world.lifecycle.go_on()
    world.is_now(1, ME)
    world.lifecycle.suspend()
    world.run()
    world.wait(2)
    assert world.served == {} and SLOT in world.followed
    world.lifecycle.go_on()
    world.wait(2)
    assert list(world.served) == [SLOT]


def test_the_end_while_it_is_taken_for_dead(world):
    world.leading().send(b"m")
    world.lifecycle.suspend()
    world.lifecycle.end()
    world.lifecycle.go_on()
    world.run()
    assert world.served == {}


def test_settings_that_changed_while_it_was_followed_hold_when_it_is_led(world):
    world.lifecycle.go_on()
    world.is_now(1, OTHER)
    world.shard.configure(EngineSettings(address=AddressSettings(auto_create=False)))
    world.is_now(2, ME)
    world.wait(0.5)
    world.send(b"m")
    assert world.receipts() == 0


# ── leaving ────────────────────────────────────────────────────────────────────────────────────────


def test_data_stay_until_enough_others_have_them(world):
    world.leading().send(b"m")
    world.is_now(2, OTHER, replicas=(OTHER, THIRD), isr=(OTHER,))
    assert world.journal.last(SLOT) != (0, 0)
    world.is_now(2, OTHER, replicas=(OTHER, THIRD))
    assert world.journal.last(SLOT) == (0, 0) and world.followed == {}
    again = world.restarted()
    assert again.journal.last(SLOT) == (0, 0)


def test_it_may_come_back(world):
    world.leading().send(b"m")
    world.is_now(2, OTHER, replicas=(OTHER, THIRD))
    world.is_now(2, OTHER)
    assert world.followed[SLOT][0].size == 0 and world.lifecycle.lagging() == []
    world.is_now(2, OTHER, isr=(OTHER, THIRD))
    assert world.lifecycle.lagging() == [SLOT]


def test_nobody_waits_to_be_in_sync_with_a_slot_that_is_out_of_service(world):
    """Nor does an owner that ends wait until it is let go: nobody leads it who could do that."""
    world.leading()
    world.is_now(2, OTHER, isr=(OTHER, THIRD))
    assert world.lifecycle.lagging() == [SLOT]
    world.lifecycle.on_record(SLOT, world.stored(replace(world.record, leader="", shelved="why")))
    assert world.lifecycle.lagging() == []
    world.is_now(3, OTHER)
    assert world.lifecycle.needed() == [SLOT]
    world.lifecycle.on_record(SLOT, world.stored(replace(world.record, leader="", shelved="why")))
    assert world.lifecycle.needed() == []
