"""Which owners an edge says it cannot reach, and when it says so no more."""

from __future__ import annotations

from broker.link.edge_side.reachability import LATE_S, LOOK_S, MOST_S, STEADY_S, Reach


class Looking:
    """A Reach that is looked at every LOOK_S of a clock of its own."""

    def __init__(self) -> None:
        self.reach = Reach(2.5)
        self.now = 0.0

    def after(self, seconds: float, alive: tuple[str, ...] = ("a", "b")) -> tuple[str, ...]:
        end = self.now + seconds
        while self.now < end:
            self.now += LOOK_S
            found = self.reach.look(self.now, alive)
        return found


def test_who_has_not_spoken_for_a_while_is_reported_until_it_has_for_a_while():
    it = Looking()
    it.reach.heard("a", 0)
    it.reach.heard("b", 0)
    it.reach.lost("a", it.now)
    assert it.after(2) == ()
    it.reach.lost("a", it.now)  # dialled again, and again for nothing
    assert it.after(1) == ("a",)
    it.reach.heard("a", it.now)
    assert it.after(STEADY_S - 1) == ("a",)
    assert it.after(2) == ()


def test_one_that_comes_and_goes_is_reported_ever_longer():
    it = Looking()
    held = []
    for _ in range(8):
        it.reach.lost("a", it.now)
        assert it.after(3) == ("a",)
        it.reach.heard("a", it.now)
        begun = it.now
        while it.after(LOOK_S):
            pass
        held.append(it.now - begun)
    assert held[0] == STEADY_S and held[1] == 2 * STEADY_S and held[-1] == MOST_S


def test_a_short_break_and_one_that_is_dead_are_nobody_elses_affair():
    it = Looking()
    for _ in range(5):
        it.reach.lost("a", it.now)
        assert it.after(2) == ()
        it.reach.heard("a", it.now)
        assert it.after(1) == ()
    it.reach.lost("a", it.now)
    assert it.after(3, alive=("b",)) == () and it.after(3) == ()


def test_what_is_not_asked_for_anything_is_not_missed():
    it = Looking()
    it.reach.lost("a", 0)
    it.reach.unused("a")
    assert it.after(10) == ()


def test_a_process_that_stood_still_blames_nobody():
    it = Looking()
    it.reach.lost("a", 0)
    it.after(1)
    it.now += 10 * LATE_S
    assert it.after(2) == ()
    assert it.after(1) == ("a",)
