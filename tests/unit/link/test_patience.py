"""Ends that are slow, and not dead: they are borne for longer, and dialled ever more seldom."""

from __future__ import annotations

import pytest

from broker.core.address import AckMode, Routing
from broker.core.commands import Subscribe
from broker.core.effects import Deliver
from broker.link.codec.codec import NUMBER_BITS
from broker.link.edge_side.owner_link import LAST_RETRY_S, STEADY_S
from tests.unit.link.world import Edge, Owner, World, make_settings, run_of


class Pair:
    """One edge, one owner that leads slot 1; dead_after_ms is 500."""

    def __init__(self):
        self.world = World()
        self.settings = make_settings()
        self.owner = Owner(self.world, "a", self.settings)
        self.edge = Edge(self.world, self.settings)
        self.lead()

    def lead(self):
        self.owner.server.serve(1, 1)
        self.edge.port.route(1, 1, "a", "a:1")
        self.world.run()

    def silent(self, end, seconds):
        """For so long the `end` (0: the edge, 1: the owner) of the present stream is not heard. Is it given up?"""
        before = len(self.world.pairs)
        pipe = self.world.pairs[-1][end]
        pipe.held = []
        self.world.pass_time(seconds)
        pipe.release()
        self.world.pass_time(0.2)
        return len(self.world.pairs) > before


@pytest.fixture
def pair():
    return Pair()


@pytest.mark.parametrize("end", [0, 1], ids=["edge", "owner"])
def test_who_was_only_slow_may_be_silent_for_twice_as_long_the_next_time(pair, end):
    assert pair.silent(end, 0.7)
    assert not pair.silent(end, 0.9), "it was alive all the time"
    assert pair.silent(end, 1.3)
    assert not pair.silent(end, 1.8)
    pair.world.pass_time(200)
    assert pair.silent(end, 0.7), "all was quiet for minutes"


def test_what_was_learned_outlives_the_link(pair):
    """Slots leave an owner that was declared dead by mistake, and come back."""
    assert pair.silent(1, 0.7)
    pair.edge.port.offline(1)
    pair.world.run()
    pair.lead()
    pair.world.pass_time(0.1)
    assert not pair.silent(1, 0.9)


def test_an_owner_that_was_restarted_is_none_that_was_slow(pair):
    pair.owner.stop_listening()
    pair.world.pairs[-1][1].held = []
    pair.world.pass_time(0.7)
    pair.owner.start()
    pair.owner.server.serve(1, 1)
    pair.world.pass_time(1)
    assert len(pair.world.pairs) == 2
    assert pair.silent(1, 0.7)


def test_a_new_stream_has_more_time_for_its_first_word(pair):
    pair.world.pass_time(STEADY_S)
    pair.world.cut()
    pair.world.pass_time(0)
    dial, dials = pair.world.dial, len(pair.world.pairs)

    def slow(*args):
        ours = dial(*args)
        ours.other.held = []
        return ours

    pair.edge.port._dialer.dial = slow
    pair.world.pass_time(1.4)
    assert len(pair.world.pairs) == dials + 1
    pair.world.pass_time(0.5)
    assert len(pair.world.pairs) == dials + 2


def test_ticks_that_come_late_a_little_are_not_the_others_silence(pair):
    """What they said may wait to be read all the while."""
    up, down = pair.world.pairs[-1]
    up.held, down.held = [], []
    for _ in range(4):
        pair.world.now += 0.2
        pair.world.pass_time(0)
    up.release()
    down.release()
    pair.world.pass_time(0.2)
    assert len(pair.world.pairs) == 1


def test_a_link_that_breaks_again_and_again_is_dialled_ever_more_seldom_and_never_taken_for_a_flood(pair):
    pair.world.pass_time(STEADY_S)
    dials = []
    for _ in range(600):
        if len(pair.world.pairs) > len(dials):
            dials.append(pair.world.now)
            pair.world.run()  # it is greeted
            pair.world.cut()
        pair.world.pass_time(0.1)
    assert dials[3] - dials[0] < 0.5, "a stream that lived is dialled anew at once"
    assert dials[-1] - dials[-2] >= LAST_RETRY_S
    assert pair.owner.server.stats.refused == 0
    pair.world.pass_time(STEADY_S + 2)
    pair.world.cut()
    before = len(pair.world.pairs)
    pair.world.pass_time(0.05)
    assert len(pair.world.pairs) == before + 1


@pytest.mark.parametrize("first", ["the clock", "the socket"])
def test_an_edge_that_stood_still_hands_on_nothing_from_before(pair, first):
    """Its owner has given it up, and what was on the way to it to others, marked: here it would come unmarked."""
    pair.edge.port.submit([Subscribe(1, 1, 1, 1, "q", Routing.ANYCAST, AckMode.INDIVIDUAL)])
    pair.world.pass_time(0.1)
    down = pair.world.pairs[-1][1]
    down.held = []
    pair.owner.effects(Deliver(7 << NUMBER_BITS | 1, run_of(b"old", ids=range(5, 6)), 10))
    pair.world.run()
    pair.world.now += pair.settings.cluster.edge_grace_s + 1  # nobody's callbacks run
    if first == "the clock":
        pair.world.pass_time(0)
    down.release()
    pair.world.pass_time(0)
    pair.world.pass_time(0.5)
    assert pair.edge.of(Deliver) == []
    assert len(pair.world.pairs) == 2, "it has opened anew"
    assert pair.owner.shard.of(Subscribe)[-1].resume.held == []


@pytest.mark.parametrize("first", ["the clock", "the socket"])
def test_nor_one_that_stood_still_before_its_owner_had_answered(pair, first):
    """The owner has heard it, has attached its consumers and handed out to them, before it was given up."""
    pair.edge.port.submit([Subscribe(1, 1, 1, 1, "q", Routing.ANYCAST, AckMode.INDIVIDUAL)])
    pair.world.pass_time(0.1)
    dial = pair.world.dial

    def unheard(address, service, end):
        stream = dial(address, service, end)
        pair.world.pairs[-1][1].held = []
        return stream

    pair.world.dial = unheard
    pair.world.pairs[-1][0].abort("cut")
    while len(pair.world.pairs) < 2:
        pair.world.pass_time(0.05)
    pair.world.dial = dial
    down = pair.world.pairs[-1][1]
    pair.owner.effects(Deliver(7 << NUMBER_BITS | 1, run_of(b"old", ids=range(5, 6)), 10))
    pair.world.run()
    assert down.held, "the owner has answered, and nobody reads"
    pair.world.now += pair.settings.cluster.edge_grace_s + 1  # nobody's callbacks run
    if first == "the clock":
        pair.world.pass_time(0)
    down.release()
    pair.world.pass_time(0)
    pair.world.pass_time(0.5)
    assert pair.edge.of(Deliver) == []
    assert len(pair.world.pairs) == 3, "it has opened anew"


def test_an_edge_that_stood_still_for_a_moment_goes_on(pair):
    pair.edge.port.submit([Subscribe(1, 1, 1, 1, "q", Routing.ANYCAST, AckMode.INDIVIDUAL)])
    pair.world.pass_time(0.1)
    down = pair.world.pairs[-1][1]
    down.held = []
    pair.owner.effects(Deliver(7 << NUMBER_BITS | 1, run_of(b"young", ids=range(5, 6)), 10))
    pair.world.run()
    pair.world.now += 0.3
    down.release()
    pair.world.pass_time(0.2)
    assert len(pair.edge.of(Deliver)) == 1 and len(pair.world.pairs) == 1
