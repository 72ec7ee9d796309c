"""Buckets of tokens: slices, debt, turns, and that names come and go."""

from __future__ import annotations

from collections.abc import Callable

from broker.edge.quotas.meters import LocalTokens, Meter, Pace

from .clocked import Time


class Leases:
    """Gives what is left; keeps what is to happen later."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.due: list[Callable[[], None]] = []

    def lease(self, meter: Meter, want: int, granted: Callable[[int], None]) -> None:
        count = min(want, self.left)
        self.left -= count
        granted(count)

    def later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def tick(self, more: int) -> None:
        self.left += more
        due, self.due = self.due, []
        for callback in due:
            callback()


def test_a_meter_gives_what_there_is_and_what_it_owes_is_paid_first():
    leases, paid = Leases(30), []
    meter = Meter(leases, "in:ada", 100, paid=lambda: paid.append(1))
    meter.spend(0)
    assert meter.draw(100, again=False) == 30 and not meter.open and not meter.owes
    paid.clear()
    meter.spend(25)
    assert meter.owes
    leases.tick(20)
    assert meter.owes and not meter.open and not paid, "5 are owed still"
    leases.tick(10)
    assert meter.open and not meter.owes and paid


def test_who_waits_has_his_turn_before_who_comes_and_in_shares():
    leases = Leases(0)
    meter = Meter(leases, "in:ada", 100)
    meter.spend(0)
    got: dict[int, int] = {}

    def go_on(who: int) -> Callable[[], None]:
        return lambda: got.update({who: meter.draw(100, again=True)})

    for who in (1, 2):
        meter.wait(who, go_on(who))
    assert meter.draw(5, again=False) == 0
    leases.tick(10)
    assert got == {1: 5, 2: 5} and meter.tally.waited == 2


def test_who_has_gone_while_he_waited_owes_nothing_when_his_turn_has_come():
    """Also where no tokens had to be asked for: his account stayed for ever."""
    leases, paid = Leases(30), []
    meter = Meter(leases, "in:ada", 100, paid=lambda: paid.append(1))
    meter.spend(0)
    meter.wait(1, lambda: None)
    paid.clear()
    assert meter.owes and meter.open
    meter.serve()
    assert not meter.owes and paid == [1]


def test_buckets_nobody_asks_for_have_no_place():
    time = Time()
    tokens = LocalTokens(time)  # type: ignore[arg-type]
    for n in range(10_000):
        tokens.lease(f"in:ip:{n}", 1000, 500, 100, lambda count: None)
        time.now += 0.01
    assert len(tokens._left) < 100


def test_a_bucket_that_was_emptied_is_not_full_for_its_forgetting():
    time, given = Time(), list[int | None]()
    tokens = LocalTokens(time)  # type: ignore[arg-type]
    for name in ("a", "b", "c", "a"):
        tokens.lease(name, 10, 5, 5, given.append)
        time.now += 0.01
    assert given == [5, 5, 5, 0]


def test_a_pace_runs_into_debt_and_says_for_how_long():
    pace = Pace(10, 100.0)
    assert pace.room(100.0) == 5 and pace.spend(15, 100.0) == 1.0
    assert pace.room(101.05) == 0 and pace.room(101.25) == 2


def test_a_rate_of_nothing_asks_for_nobody_and_keeps_no_bucket():
    """It asked each tenth of a second for ever, also for those who had gone, and hindered the forgetting of others."""
    leases = Leases(0)
    meter = Meter(leases, "in:ada", 0)
    meter.spend(0)
    leases.tick(0)
    assert leases.due == []
    meter.wait(1, lambda: None)
    assert leases.due, "who waits is asked for"
    meter.waiting.clear()
    leases.tick(0)
    leases.tick(0)
    assert leases.due == []
    time, given = Time(), list[int | None]()
    tokens = LocalTokens(time)  # type: ignore[arg-type]
    tokens.lease("in:ada", 0, 5, 5, given.append)
    assert given == [0] and not tokens._left
