"""Where a slot's log stands: `last` says no more than what is held without a gap."""

from __future__ import annotations

from broker.core.ids import SLOTS
from broker.journal.log.lineage import SlotLogs


def test_the_lineage_grows_with_each_epoch_that_has_an_item():
    logs = SlotLogs()
    assert logs.last(3) == (0, 0)
    assert logs.enter(3, epoch=1, lsn=1) and not logs.enter(3, 1, 2) and logs.enter(3, 4, 3)
    logs.next[3] = 4
    assert logs.lineage[3] == [(1, 1), (4, 3)] and logs.last(3) == (4, 3)
    assert logs.own[3] and logs.epochs[3] == 4
    logs.epochs[3] = 6  # a leader that has appended nothing yet
    logs.own[3] = 0
    assert logs.whole(3) == [(1, 1), (4, 3), (6, 4)]


def test_a_slot_with_a_hole_or_half_a_copy_holds_nothing_to_go_on_from():
    logs = SlotLogs()
    logs.enter(3, 1, 1)
    logs.next[3] = 2
    for table in (logs.seeding, logs.holes):
        table.add(3)
        assert logs.last(3) == (0, 0)
        table.discard(3)
    assert logs.last(3) == (1, 1)
    logs.holes.add(3)
    logs.clear(3)
    assert logs.last(3) == (0, 0) and not logs.holes and logs.epochs[3] == 1


def test_a_copy_has_the_epochs_up_to_its_end_and_no_others():
    logs = SlotLogs()
    logs.epochs[3] = 9
    logs.seeding.add(3)
    logs.become(3, [(2, 1), (5, 10), (8, 20)], lsn=12)
    assert logs.lineage[3] == [(2, 1), (5, 10)] and logs.next[3] == 13 and logs.last(3) == (5, 12)
    assert logs.epochs[3] == 9 and not logs.own[3]
    logs.become(4, [(n, n) for n in range(1, 60)], lsn=100)
    assert len(logs.lineage[4]) == 32 and logs.lineage[4][-1] == (59, 59)


def test_the_history_of_a_slot_begins_behind_what_was_freed():
    logs = SlotLogs()
    begins, ends = [0] * SLOTS, [0] * SLOTS
    begins[3], ends[3] = 5, 9
    begins[4], ends[4] = 7, 7  # nothing of it in there
    begins[5], ends[5] = 1, 4
    logs.floors[5] = 8 << 32  # void: its history begins in a later segment
    logs.freed(7, begins, ends)
    assert (logs.since[3], logs.since[4], logs.since[5]) == (9, 0, 0)
    logs.freed(7, begins, [6 if slot == 3 else end for slot, end in enumerate(ends)])
    assert logs.since[3] == 9, "it never goes back"
    assert 5 in logs.known() and 3 not in logs.known()
