"""Leaders and followers that are slow, and not dead: they are borne for longer, and suspect nobody who speaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.rpc.v1 import replica_pb2 as pb
from tests.unit.owner.repl_world import Near, World

SLOT = 7


class Slow:
    """o0 leads; `silent` keeps what is said on its stream to o1 from one end."""

    def __init__(self) -> None:
        self.world = World()
        self.world.create(SLOT, "o0")
        self.world.until(lambda: self.world.leader(SLOT) is not None, what="a leader")
        self.leader, self.follower = self.world.owners["o0"], self.world.owners["o1"]
        self.world.run(0.5)

    def ends(self) -> tuple[Near, Near]:
        near = next(n for n in self.world.streams if n.owner is self.leader and n.peer == "o1" and n.other is not None)
        return near, near.other

    def silent(self, end: int, seconds: float) -> bool:
        """For so long the leader (end 0) or the follower (end 1) hears nothing. Is the stream given up?"""
        stream = self.ends()
        for _ in range(round(seconds / 0.05)):
            stream[end].mute = True
            self.world.run(0.05)
            if end == 1 and not stream[0].over:
                stream[0].end.on_message(pb.ToLeader(pong=0).SerializeToString())  # it does hear
        stream[end].mute = False
        self.world.run(0.3)
        return self.ends()[0] is not stream[0]

    def blamed(self, by: str, whom: str) -> list[str]:
        return [why for owner, why in self.world.owners[by].lost if owner == whom and why]


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.mark.parametrize("end", [0, 1], ids=["follower", "leader"])
def test_who_was_only_slow_may_be_silent_for_twice_as_long_the_next_time(slow, end):
    assert slow.silent(end, 0.7)
    assert not slow.silent(end, 0.9), "it was alive all the time"
    assert slow.silent(end, 1.3)
    assert not slow.silent(end, 1.8)
    slow.world.run(200)
    assert slow.silent(end, 0.7), "all was quiet for minutes"


def test_a_follower_that_is_given_up_does_not_take_its_leader_for_dead(slow):
    """Else a leader with two slow followers, who break off at once, is declared dead by both."""
    assert slow.silent(0, 0.7)
    assert slow.blamed("o0", "o1"), "given up"
    assert slow.leader.lost[-1] == ("o1", "")
    assert not slow.blamed("o1", "o0")


def test_a_stream_that_is_not_needed_any_more_ends_without_blame(slow):
    slow.leader.leaders.resign(SLOT)
    slow.world.run(7)
    assert not [n for n in slow.world.streams if n.owner is slow.leader]
    assert not slow.blamed("o1", "o0") and not slow.blamed("o2", "o0")


def test_a_stream_that_breaks_without_a_word_is_blamed_at_once_until_there_is_a_new_one(slow):
    near, far = slow.ends()
    for each in (near, far):
        each._end("reset")
    slow.world.run(0)
    assert slow.blamed("o1", "o0") == ["reset"]
    slow.world.run(0.3)
    assert slow.follower.lost[-1] == ("o0", "")


def test_who_has_stood_still_waits_for_answers_as_if_no_time_had_passed(slow):
    """A leader that slept takes nobody out of the isr for what it could not read meanwhile."""
    slow.ends()[0]._end("reset")
    slow.world.run(0.025)  # dialled, and asked anew
    slow.ends()[0].mute = True
    slow.leader.leaders.on_down(slow.leader.leaders._peers["o1"])  # the question
    slow.leader.clock.offset += 3
    slow.world.run(0.2)
    assert slow.leader.leaders.shrinks == 0 and not slow.leader.lost
    slow.world.run(0.6)
    assert slow.leader.leaders.shrinks == 1, "but not for ever"


def asked_anew(slow: Slow) -> None:
    """Its stream lives, pings and all, but what it has it never says: its disk hangs."""
    follower = slow.follower.followers
    follower.home = replace(follower.home, durable=lambda callback: None)
    slow.leader.leaders.on_down(slow.leader.leaders._peers["o1"])


def test_a_question_without_an_answer_is_waited_for_as_long_as_any_silence(slow):
    asked_anew(slow)
    slow.world.run(0.4)
    assert slow.leader.leaders.shrinks == 0
    slow.world.run(0.3)
    assert slow.leader.leaders.shrinks == 1


def test_what_a_leader_slept_before_it_asked_gives_nobody_more_time(slow):
    slow.leader.clock.offset += 3
    slow.world.run(0.3)
    assert slow.leader.leaders._slept == pytest.approx(3, abs=0.2)
    asked_anew(slow)
    slow.world.run(0.7)
    assert slow.leader.leaders.shrinks == 1


def test_what_it_sleeps_after_it_asked_counts_as_nobodys_silence(slow):
    asked_anew(slow)
    slow.world.run(0.2)
    slow.leader.clock.offset += 3
    slow.world.run(0.2)
    assert slow.leader.leaders.shrinks == 0
    slow.world.run(0.3)
    assert slow.leader.leaders.shrinks == 1
