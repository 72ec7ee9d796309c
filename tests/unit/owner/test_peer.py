"""A leader's stream to one follower, by the clock alone: when it is dialled again, and when it counts as lost."""

from __future__ import annotations

import pytest

from broker.core.errors import Code
from broker.owner.replication import peer as module
from broker.owner.replication.peer import BRISK, BROKEN_S, DIAL_AGAIN_S, FIRST_S, REFUSALS, STEADY_S, Identity, Peer
from broker.rpc.v1 import replica_pb2 as pb
from broker.seams.stream import Ended, EndKind

DEAD_S = 0.5
PING_S = 0.08


class Line:
    """What the peer dials: streams that only do what they are told to. The clock moves by `run` alone."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, object]] = []
        self.ends: list[object] = []
        self.dialled: list[float] = []
        self.aborted: list[str] = []
        self.lost: list[str] = []
        self.pings: list[float] = []
        self.answers = True
        me = Identity("/test", "o0", "boot", 1)
        dead, ping = round(DEAD_S * 1000), round(PING_S * 1000)
        self.peer = Peer("o1", "o1:1", me, self, self, self, self.later, dead, 250, ping)

    # clock, later
    def monotonic(self) -> float:
        return self.now

    def later(self, seconds: float, callback: object) -> None:
        self.timers.append((self.now + seconds, callback))

    def run(self, seconds: float, tick: bool = False, rest: bool = False) -> None:
        """`tick`: as the leader does, every ping_ms. `rest`: nobody asks for the promise meanwhile."""
        end, beat = self.now + seconds, self.now + PING_S
        while True:
            due = min([at for at, _ in self.timers], default=end + 1)
            if tick and beat <= min(due, end):
                self.now, beat = beat, beat + PING_S
                self.peer.tick(0.0, rest)
            elif due <= end:
                at, callback = next(timer for timer in self.timers if timer[0] == due)
                self.timers.remove((at, callback))
                self.now = max(self.now, at)
                callback()
            else:
                self.now = end
                return

    # dialer, stream
    def dial(self, address: str, service: str, end: object) -> Line:
        self.ends.append(end)
        self.dialled.append(self.now)
        return self

    def send(self, message: bytes) -> None:
        ping = pb.ToFollower.FromString(message).ping
        if ping:
            self.pings.append(self.now)
        if ping and self.answers:
            end = self.ends[-1]
            self.later(0.001, lambda: end.on_message(pb.ToLeader(pong=ping).SerializeToString()))

    def close(self, why: str, kind: EndKind = EndKind.CLOSED) -> None: ...

    def abort(self, why: str, kind: EndKind = EndKind.CLOSED) -> None:
        self.aborted.append(why)
        self.ends[-1].on_closed(Ended(why, kind))

    def cut(self, kind: EndKind = EndKind.LOST) -> None:
        self.ends[-1].on_closed(Ended("reset", kind))

    # user
    def on_down(self, peer: Peer) -> None: ...

    def on_promise(self, peer: Peer) -> None: ...

    def on_lost(self, peer: Peer) -> None:
        self.lost.append(peer.lost)

    # what tests ask for
    def connect(self) -> Line:
        self.peer.dial()
        self.run(0.01)
        assert self.peer.connected
        return self

    def silence(self, seconds: float) -> None:
        """It hears nothing for so long, and then is answered again."""
        self.answers = False
        self.run(seconds, tick=True)
        self.answers = True
        self.run(3.0, tick=True)
        assert self.peer.connected

    def pauses(self, count: int, lives: float = 0.0) -> list[float]:
        """Between the end of a stream that had lived so long, and the next dial; `count` times."""
        found = []
        for _ in range(count):
            self.run(lives, tick=lives > 0)
            assert self.peer.connected
            cut, dials = self.now, len(self.dialled)
            self.cut()
            self.run(1.5)
            assert len(self.dialled) == dials + 1
            found.append(round(self.dialled[-1] - cut, 6))
        return found


@pytest.fixture
def line() -> Line:
    return Line().connect()


def test_a_stream_that_breaks_young_is_dialled_after_growing_pauses_but_often_enough_to_be_found_alive(line):
    pauses = line.pauses(6)
    assert pauses == [0.02, 0.05, 0.1, 0.1, 0.1, 0.1]
    assert pauses[-1] == DIAL_AGAIN_S[BRISK] and 2 * pauses[-1] <= BROKEN_S


def test_one_that_lived_is_dialled_anew_at_once(line):
    line.pauses(4)
    assert line.pauses(1, lives=STEADY_S + 1) == [0.0]


def test_at_an_address_where_nobody_answers_the_pauses_grow_to_the_last_one(line):
    line.run(STEADY_S + 1, tick=True)
    line.answers = False
    line.cut()
    found = []
    for _ in range(10):
        line.run(1.0)
        line.cut(EndKind.UNREACHED)
        cut, before = line.now, len(line.dialled)
        line.run(1.5)
        found.append(round(line.dialled[before] - cut, 6))
    assert found == [*DIAL_AGAIN_S[1:], *[DIAL_AGAIN_S[-1]] * 3]


def test_who_cannot_be_reached_is_lost_as_soon_as_broken_s_says(line):
    line.run(1.0, tick=True)
    line.cut()
    line.answers = False
    line.run(BROKEN_S - PING_S / 2, tick=True)
    assert line.lost == []
    line.run(PING_S * 1.5, tick=True)
    assert len(line.lost) == 1 and "not reached" in line.lost[0]


def test_who_was_slow_before_may_be_unreachable_for_as_many_times_longer(line):
    """Its next stream needs turns of the same late loop."""
    line.silence(DEAD_S + 0.3)
    assert line.peer.patience.silence(line.now) == 2 * DEAD_S
    del line.lost[:]
    line.cut()
    line.answers = False
    line.run(2 * BROKEN_S - PING_S, tick=True)
    assert line.lost == []
    line.run(PING_S * 2, tick=True)
    assert len(line.lost) == 1 and "not reached" in line.lost[0]


def test_its_first_word_is_waited_for_as_many_times_longer(line):
    line.silence(DEAD_S + 0.3)
    answer = line.peer.patience.answer(line.now)
    assert answer == 2 * module.Patience(DEAD_S).answer(line.now)
    line.cut()
    line.answers = False
    line.run(answer - PING_S, tick=True)
    assert not [why for why in line.aborted if "no answer" in why]
    line.run(PING_S * 2.5, tick=True)
    assert line.aborted[-1] == "unreachable: no answer"


def test_who_never_answered_may_be_starting():
    line = Line()
    line.answers = False
    line.peer.dial()
    line.run(FIRST_S - 2 * PING_S, tick=True)
    assert line.lost == []
    line.run(3 * PING_S, tick=True)
    assert len(line.lost) == 1


def test_where_nobody_listens_any_more_no_patience_is_needed(line):
    line.silence(DEAD_S + 0.3)
    del line.lost[:]
    line.answers, began = False, line.now
    for _ in range(REFUSALS):
        line.cut(EndKind.REFUSED)
        line.run(0.2)
    assert len(line.lost) == 1 and line.now - began < 1


def test_time_in_which_the_leader_stood_still_is_nobodys(line):
    """All three clocks of a peer: of its silence, of its first word, and of being away."""
    line.now += 3
    line.peer.tick(3.0)
    assert line.lost == [] and line.peer.connected
    line.cut()
    line.answers = False
    line.now += 3
    line.peer.tick(3.0)
    assert line.lost == []
    line.run(0.05)
    line.now += 3
    line.peer.tick(3.0)
    assert line.lost == [] and line.aborted == []


def test_who_is_given_up_hears_that_its_leader_lives(line):
    said = []
    line.close = lambda why, kind: said.append(kind)
    line.answers = False
    line.run(DEAD_S + 2 * PING_S, tick=True)
    assert said == [EndKind.ALIVE]


@pytest.mark.parametrize(
    "broken, code",
    [
        (pb.Broken(slot=1, why="a text", code=Code.WRONG_RELEASE.number), Code.WRONG_RELEASE),
        (pb.Broken(slot=1, why="WRONG_RELEASE: of a follower before 0.2"), Code.WRONG_RELEASE),
        (pb.Broken(slot=1, why="WRONG_RELEASE", code=Code.BAD_COMPONENT_MESSAGE.number), Code.BAD_COMPONENT_MESSAGE),
        (pb.Broken(slot=1, why="no record"), None),
        (pb.Broken(slot=1, code=99_999), None),
    ],
)
def test_what_was_wrong_is_a_code_whatever_release_says_it(line, broken, code):
    heard = []
    line.on_broken = lambda peer, slot, why, code: heard.append(code)
    line.ends[-1].on_message(pb.ToLeader(broken=broken).SerializeToString())
    assert heard == [code]


def test_it_knows_since_when_nobody_answers(line):
    """What its leader goes by when it says that the follower is still lost."""
    line.answers = False
    line.cut()
    assert line.peer.missed == 0.0, "nothing has failed since it spoke last"
    line.run(0.1)
    began = line.dialled[-1]
    line.cut(EndKind.REFUSED)
    assert line.peer.missed == began
    line.run(0.1)
    line.cut(EndKind.CLOSED)
    assert line.peer.missed == began, "who says no can be reached"
    line.answers = True
    line.run(1)
    assert line.peer.missed == 0.0


def test_at_rest_it_is_pinged_half_as_often_and_its_promise_still_never_runs_out(line):
    line.run(1.0, tick=True)
    assert len(line.pings) == pytest.approx(1 / PING_S, abs=2), "somebody asks"
    line.pings.clear()
    for _ in range(25):
        line.run(2 * PING_S, tick=True, rest=True)
        assert line.peer.promise > line.now
    assert len(line.pings) == pytest.approx(25, abs=2)


def test_at_rest_news_and_a_ping_without_an_answer_are_followed_by_one_at_once(line):
    line.run(4 * PING_S, tick=True, rest=True)
    for _ in range(4):
        line.peer.tell(3, 7)
        line.pings.clear()
        line.run(PING_S, tick=True, rest=True)
        assert len(line.pings) == 1
    line.answers = False
    line.run(2 * PING_S, tick=True, rest=True)
    line.pings.clear()
    line.run(3.5 * PING_S, tick=True, rest=True)
    assert len(line.pings) >= 3


def test_at_rest_one_that_is_silent_is_lost_no_later(line):
    line.run(10.0, tick=True, rest=True)
    line.answers = False
    line.run(DEAD_S + PING_S, tick=True, rest=True)
    assert len(line.lost) == 1 and "silent" in line.lost[0]
