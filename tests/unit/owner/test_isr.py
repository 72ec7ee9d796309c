"""Who may join the followers that count, decided from what the leader was told."""

from __future__ import annotations

import pytest

from broker.core.slots import SlotRecord
from broker.owner.isr import UNKNOWN, Lead, Progress

ME, IN, OUT = "o0", "o1", "o2"


def led(began_with=10, written=0, counting=0):
    """A slot with one follower in sync and one that is not. We began with so much, have written and count so much
    more."""
    lead = Lead(SlotRecord(7, 1, ME, (ME, IN, OUT), (ME, IN)), ME, 2, began_with, 1)
    for each in range(written):
        lead.sealed(2 + each, began_with + 1 + each, 10)
    has(lead, IN, began_with + counting)
    lead.advance()
    assert lead.reached == began_with + counting
    return lead


def has(lead, member, lsn, state=Progress.LIVE, floor=0):
    track = lead.tracks[member]
    track.acked, track.state, track.floor = lsn, state, floor
    return track


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
    track = lead.forget(OUT)
    assert (track.acked, track.floor) == (UNKNOWN, 14)
    track.state, track.acked = Progress.TAIL, 13
    assert not joins(lead)
    track.acked = 14
    assert joins(lead)


def test_who_is_lost_does_not_join():
    lead = led()
    has(lead, OUT, 10)
    assert joins(lead) and lead.wanted((OUT,)) is None
