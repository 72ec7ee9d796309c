"""Who may join the followers that count, decided from what the leader was told."""

from __future__ import annotations

import pytest

from broker.core.slots import SlotRecord
from broker.owner.replication.isr import UNKNOWN, FollowerProgress, LeaderState, LedSlot, Progress, epoch_at, judged

ME, IN, OUT = "o0", "o1", "o2"


def led(began_with=10, written=0, counting=0):
    """A slot with one follower in sync and one that is not. We began with so much, have written and count so much
    more."""
    lead = LedSlot(SlotRecord(7, 1, ME, (ME, IN, OUT), (ME, IN)), ME, 2, began_with, 1)
    for each in range(written):
        lead.sealed(2 + each, began_with + 1 + each, 10)
    has(lead, IN, began_with + counting)
    lead.advance()
    assert lead.reached == began_with + counting
    return lead


def has(lead, member, lsn, state=Progress.LIVE, floor=0):
    progress = lead.followers[member]
    progress.acked, progress.state, progress.floor = lsn, state, floor
    return progress


def joins(lead):
    return lead.wanted(()) == (ME, IN, OUT)


@pytest.mark.parametrize("state", [Progress.TAIL, Progress.LIVE])
@pytest.mark.parametrize("acked, may", [(UNKNOWN, False), (12, False), (13, True), (14, True)])
def test_who_has_all_that_counts_may_join(state, acked, may):
    """What is told of later waits for it as soon as that is proposed: it need not have that."""
    lead = led(written=4, counting=3)
    has(lead, OUT, acked, state)
    assert joins(lead) is may


@pytest.mark.parametrize("acked, may", [(13, False), (16, False), (17, True)])
def test_nobody_joins_below_its_floor(acked, may):
    """What it acknowledged before it was asked, or got without a body, speaks of a log that it may have no more."""
    lead = led(written=8, counting=3)
    has(lead, OUT, acked, floor=17)
    assert joins(lead) is may


@pytest.mark.parametrize("state", [Progress.ASKED, Progress.UNFIT, Progress.SEED, Progress.AHEAD])
def test_nobody_joins_whose_log_does_not_go_on_from_ours(state):
    lead = led()
    has(lead, OUT, 10, state)
    assert not joins(lead)


def test_who_is_seeded_joins_with_the_end_of_the_log_as_of_then_whatever_it_had_acknowledged():
    lead = led(written=4, counting=1)
    has(lead, OUT, 14)
    progress = lead.forget(OUT)
    assert (progress.acked, progress.floor) == (UNKNOWN, 14)
    progress.state, progress.acked = Progress.TAIL, 13
    assert not joins(lead)
    progress.acked = 14
    assert joins(lead)


def test_who_is_lost_does_not_join():
    lead = led()
    has(lead, OUT, 10)
    assert joins(lead) and lead.wanted((OUT,)) is None


# ── one log against another ───────────────────────────────────────────────────────────────────────

LINEAGE = [(1, 1), (4, 6), (5, 6)]
"""Epoch 1 wrote 1 to 5, epoch 4 nothing, epoch 5 goes on from 6."""


@pytest.mark.parametrize("lsn, epoch", [(0, 0), (1, 1), (5, 1), (6, 5), (9, 5)])
def test_an_item_is_of_the_last_epoch_that_began_at_or_before_it(lsn, epoch):
    assert epoch_at(LINEAGE, lsn) == epoch


@pytest.mark.parametrize(
    "theirs, lsn, becomes",
    [
        ([], 0, Progress.TAIL),  # an empty log goes on from everything
        ([(1, 1)], 5, Progress.TAIL),
        (LINEAGE, 8, Progress.TAIL),  # as long as ours
        (LINEAGE, 9, Progress.AHEAD),
        ([(1, 1)], 6, Progress.UNFIT),  # its 6 was never agreed on: another leader wrote ours
        ([(1, 1), (3, 7)], 9, Progress.UNFIT),
    ],
)
def test_a_log_goes_on_from_ours_when_the_last_item_that_both_have_is_of_one_epoch(theirs, lsn, becomes):
    assert judged(LINEAGE, 8, theirs, lsn) is becomes


def test_nobody_is_judged_by_what_we_do_not_have():
    assert judged([], 0, LINEAGE, 8) is Progress.AHEAD


def test_what_a_follower_says_it_has_counts_only_on_our_lineage():
    for state, counts in ((Progress.TAIL, 7), (Progress.AHEAD, UNKNOWN), (Progress.UNFIT, UNKNOWN)):
        progress = FollowerProgress(7, OUT)
        progress.answers(state, 7, 10, 3)
        assert (progress.acked, progress.floor, progress.answered, progress.sent) == (counts, 10, 3, max(counts, 0))


def test_who_is_asked_anew_has_said_nothing():
    progress = FollowerProgress(7, OUT)
    progress.answers(Progress.TAIL, 7, 10, 3)
    for before in (progress, FollowerProgress(7, OUT)):
        again = before.anew()
        assert (again.state, again.acked, again.sent, again.floor, again.answered) == (Progress.ASKED, UNKNOWN, 0, 0, 0)
        assert not again.moving


# ── what counts ───────────────────────────────────────────────────────────────────────────────────


def test_commits_count_up_to_the_one_before_the_first_that_is_held_back():
    """Commit 1 stands for what was there, 2 and 3 hold an item each."""
    lead = LedSlot(SlotRecord(7, 1, ME, (ME, IN), (ME, IN)), ME, 2, 10, 1)
    lead.sealed(2, 11, 100)
    lead.sealed(3, 12, 30)
    lead.sealed(3, 13, 5)
    assert (lead.ready(9), lead.advance()) == (0, -1) and lead.state is LeaderState.BEGUN
    has(lead, IN, 10)
    assert (lead.advance(), lead.ready(9)) == (0, 1) and lead.state is LeaderState.WHOLE
    has(lead, IN, 12)  # half of commit 3
    assert (lead.advance(), lead.ready(9)) == (100, 2)
    assert lead.advance() == -1
    has(lead, IN, 13)
    assert (lead.advance(), lead.ready(9), lead.reached) == (35, 9, 13)
    assert (lead.advance(), lead.ready(2)) == (-1, 2)


def test_what_counts_at_once_is_counted_together():
    lead = LedSlot(SlotRecord(7, 1, ME, (ME, IN), (ME, IN)), ME, 2, 10, 1)
    lead.sealed(2, 11, 100)
    lead.sealed(3, 12, 30)
    has(lead, IN, 12)
    assert lead.advance() == 130


def test_a_leader_without_followers_waits_for_nobody():
    lead = LedSlot(SlotRecord(7, 1, ME, (ME,), (ME,)), ME, 1, 10, 1)
    lead.sealed(2, 11, 100)
    assert lead.advance() == 100


def test_with_less_than_min_in_sync_nothing_counts_whatever_they_have():
    lead = LedSlot(SlotRecord(7, 1, ME, (ME, IN, OUT), (ME, IN)), ME, 3, 10, 1)
    has(lead, IN, 10)
    assert lead.advance() == -1 and lead.state is LeaderState.BEGUN


def test_nothing_counts_once_a_leader_is_deposed():
    lead = led(written=1)
    lead.is_deposed()
    lead.is_deposed()
    has(lead, IN, 11)
    assert lead.advance() == -1 and lead.state is LeaderState.DEPOSED


def test_who_is_proposed_is_needed_from_then_on_until_a_newer_record_is_read():
    lead = led()
    lead.until = 9.0
    for _ in range(2):
        lead.propose((ME, IN, OUT))
    assert lead.busy and lead.unsure == [(ME, IN, OUT)] and lead.needed == {IN, OUT} and lead.until == 0.0
    lead.sealed(2, 11, 1)
    has(lead, IN, 11)
    assert lead.advance() == -1
    lead.adopt(SlotRecord(7, 1, ME, (ME, IN, OUT), (ME, IN)))
    assert lead.advance() == 1


def test_a_newer_record_keeps_what_is_known_of_those_who_stay():
    lead = led()
    stays = lead.followers[IN]
    lead.adopt(SlotRecord(7, 1, ME, (ME, IN, "o9"), (ME, IN)))
    assert lead.followers[IN] is stays and lead.live == [stays] and set(lead.followers) == {IN, "o9"}
    assert lead.followers["o9"].state is Progress.ASKED


# ── who is in ─────────────────────────────────────────────────────────────────────────────────────


def test_all_is_at_rest_when_everybody_is_live_and_in_sync_and_nothing_is_proposed():
    all_in, one_out = SlotRecord(7, 1, ME, (ME, IN, OUT), (ME, IN, OUT)), SlotRecord(7, 1, ME, (ME, IN, OUT), (ME, IN))
    lead = LedSlot(all_in, ME, 2, 10, 1)
    has(lead, IN, 10), has(lead, OUT, 10)
    lead.renew_live()
    assert lead.at_rest
    lead.propose((ME, IN, OUT))
    assert not lead.at_rest
    lead.adopt(one_out)
    assert not lead.at_rest
    lead.adopt(all_in)
    has(lead, OUT, 10, Progress.TAIL)
    lead.renew_live()
    assert not lead.at_rest


def test_who_is_in_sync_is_told_once_how_much_counts_and_again_when_it_is_anew():
    lead = LedSlot(SlotRecord(7, 1, ME, (ME, IN, OUT), (ME, IN, OUT)), ME, 2, 10, 1)
    has(lead, IN, 10), has(lead, OUT, 10, Progress.TAIL)
    assert lead.tell(10) == [IN, OUT] and lead.told == 10 and lead.tell(10) == []
    assert lead.tell(12) == [IN, OUT] and lead.told == 12
    lead.restart(OUT)
    assert lead.told != 12 and lead.tell(12) == [] and lead.told != 12, "it has not said what it has"
    has(lead, OUT, 12)
    assert lead.tell(12) == [OUT] and lead.told == 12
    lead.adopt(SlotRecord(7, 1, ME, (ME, IN, OUT, "o9"), (ME, IN, OUT)))
    assert lead.told != 12


def wanted_of(in_sync, min_in_sync, lost=(), **states):
    """The isr that is wanted where the others are LIVE and have nothing, but for those named."""
    lead = LedSlot(SlotRecord(7, 1, ME, (ME, IN, OUT), in_sync), ME, min_in_sync, 10, 1)
    for member, (state, acked) in states.items():
        has(lead, member, acked, state)
    return lead.wanted(lost)


LIVE, UNFIT, BEHIND = (Progress.LIVE, 10), (Progress.UNFIT, UNKNOWN), (Progress.TAIL, UNKNOWN)


def test_who_is_lost_or_cannot_be_caught_up_leaves_when_enough_stay():
    assert wanted_of((ME, IN, OUT), 2, o1=LIVE, o2=UNFIT) == (ME, IN)
    assert wanted_of((ME, IN, OUT), 2, (OUT,), o1=LIVE, o2=LIVE) == (ME, IN)
    assert wanted_of((ME, IN, OUT), 2, o1=LIVE, o2=LIVE) is None


def test_who_is_lost_stays_when_too_few_would_be_left():
    assert wanted_of((ME, IN), 2, (IN,), o1=LIVE, o2=BEHIND) is None
    assert wanted_of((ME, IN), 2, (IN,), o1=LIVE, o2=LIVE) == (ME, OUT), "but for one that takes its place"
    assert wanted_of((ME, IN), 3, (IN,), o1=LIVE, o2=LIVE) == (ME, IN, OUT)


def test_who_cannot_be_caught_up_stays_while_somebody_may_take_its_place_and_leaves_when_nobody_will():
    assert wanted_of((ME, IN), 2, o1=UNFIT, o2=BEHIND) is None
    assert wanted_of((ME, IN), 2, o1=UNFIT, o2=LIVE) == (ME, OUT)
    assert wanted_of((ME, IN), 2, (OUT,), o1=UNFIT, o2=BEHIND) == (ME,)
    assert wanted_of((ME, IN), 2, (OUT,), o1=LIVE, o2=BEHIND) is None


def test_what_stands_already_is_proposed_to_settle_an_earlier_proposal():
    lead = led()
    lead.propose((ME, IN, OUT))
    assert lead.wanted((OUT,)) == (ME, IN)


# ── what a follower is told ───────────────────────────────────────────────────────────────────────


def test_a_follower_is_told_once_how_far_everything_counts_and_only_on_our_lineage():
    progress = has(led(), OUT, 10)
    assert [progress.tell(lsn) for lsn in (10, 10, 11)] == [True, False, True]
    progress.state = Progress.UNFIT
    assert not progress.tell(12) and progress.told == 11, "it will be told when its log goes on from ours"


def test_copies_whose_log_was_gone_before_they_ended_go_twice_as_fast_up_to_a_bound():
    lead, rates = led(), []
    for _ in range(14):
        rates.append(lead.seed_rate)
        lead.hurry_seeds()
    assert rates[1] == 2 * rates[0] and rates == sorted(rates) and lead.seed_rate == rates[-1] == 1024
