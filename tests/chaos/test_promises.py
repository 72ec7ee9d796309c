"""The checks of promises.py bite: each broken promise, planted, is found, and what is excused is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from .history import Event, History, Kind, Span, load
from .promises import check, consumed


def receipted(key: str, at: float = 0.0, **more: float) -> list[Event]:
    return [Event(Kind.SENT, key, at, **more), Event(Kind.RECEIPTED, key, at)]


def came(key: str, who: str, at: float = 0.0, redelivered: bool = False) -> Event:
    return Event(Kind.DELIVERED, key, at, who=who, redelivered=redelivered)


def connected(who: str, at: float = 0.0) -> Event:
    return Event(Kind.CONNECTED, who, at)


def ended(who: str, at: float, why: str = "") -> Event:
    return Event(Kind.ENDED, who, at, why=why)


def look(who: str, *seen: str) -> list[Event]:
    shown = [Event(Kind.SEEN, key, who=who) for key in seen]
    return [Event(Kind.LOOKS, "chaos.shelf", who=who), *shown, Event(Kind.LOOKED, "chaos.shelf", who=who)]


SHELF = [*receipted("chaos.shelf/k/0"), *receipted("chaos.shelf/k/1")]
WATCHED = [
    Event(Kind.SUBSCRIBED, "w", 10), Event(Kind.SENT, "s1:n/p/0", 20), Event(Kind.RECEIPTED, "s1:n/p/0", 21),
    ended("w", 60),
]  # fmt: skip
PARTED = [came("chaos.leave/p/0", "l"), Event(Kind.PARTED, "chaos.leave/p/0", 100), connected("m")]
BRIEF = [
    *receipted("chaos.brief/p/0", 10, expires=12), came("chaos.brief/p/0", "c", 11),
    Event(Kind.SETTLED, "chaos.brief/p/0", 11), came("expired:chaos.brief/p/0", "e", 20),
]  # fmt: skip
STALE = [came("q/p/0", "b", 10, True), came("q/p/0", "a", 16)]
BROKEN: dict[str, tuple[list[Event], str]] = {
    "thrown out": ([ended("c", 100, "ConnectionLost")], "kill-edge"),
    "stale": (STALE, ""),
    "forgotten: chaos.leave": ([*PARTED, came("chaos.leave/p/0", "m")], "slow-disk"),
    "forgotten: chaos.left": ([Event(Kind.PARTED, "chaos.left/l/0", 100)], "slow-disk"),
    "resurrected: chaos.brief": (BRIEF, "freeze-edge"),
    "resurrected: q/p/0 came to c again": (
        [came("q/p/0", "c"), Event(Kind.SETTLED, "q/p/0", who="c"), came("q/p/0", "c", 90, True)], "cut-edge",
    ),
    "full": ([ended("c", 100, "RefusedError 1601 no space")], "full-disk"),
    "twice": ([came("chaos.auto/p/0", "ca.1"), came("chaos.auto/p/0", "ca.1", redelivered=True)], ""),
    "overlooked: 1 by": ([*SHELF, *look("b-1", "chaos.shelf/k/1")], ""),
    "overlooked: b-1 was shown some": ([*SHELF, *look("b-1", *["chaos.shelf/k/0"] * 2, "chaos.shelf/k/1")], ""),
    "reordered": ([*SHELF, *look("b-1", "chaos.shelf/k/1", "chaos.shelf/k/0")], ""),
    "ghost": ([*SHELF, *look("b-1", "chaos.shelf/k/0", "chaos.shelf/k/1", "chaos.shelf/k/2")], ""),
    "resurrected: chaos.shelf": (
        [*SHELF, Event(Kind.SETTLED, "chaos.shelf/k/0"), *look("b-1", "chaos.shelf/k/0", "chaos.shelf/k/1")], "",
    ),
    "missed": (WATCHED, "kill-owner"),
    "late": ([*receipted("chaos.brief/p/0", 90, expires=95), came("chaos.brief/p/0", "c", 101)], "slow-disk"),
}  # fmt: skip


@pytest.mark.parametrize("finding", BROKEN)
def test_a_broken_promise_is_found(finding):
    events, _ = BROKEN[finding]
    (found,) = check(History(list(events)))
    assert found.startswith(finding)


@pytest.mark.parametrize("finding", [finding for finding, (_, fault) in BROKEN.items() if fault])
def test_what_happened_meanwhile_excuses(finding):
    events, fault = BROKEN[finding]
    history = History(list(events), faults=[Span((fault,), 0, 1000)])
    assert check(history) == []


def test_who_is_thrown_out_of_a_machine_that_is_starved_is_excused():
    history = History([ended("c", 100, "ClientTimeout")], faults=[Span(("starved",), 50, 52)])
    assert check(history) == []


def test_who_is_thrown_out_beside_a_dying_owner_is_not_excused():
    history = History([ended("c", 100, "ConnectionLost")], faults=[Span(("kill-owner", "freeze-redis"), 90, 110)])
    assert [line.partition(":")[0] for line in check(history)] == ["thrown out"]


@pytest.mark.parametrize(("names", "found"), [
    (("kill-owner",), 1), (("kill-owner", "cut-pair"), 0), (("isolate-owner",), 0), ((), 1),
])  # fmt: skip
def test_a_long_wait_is_found_where_others_serve(names, found):
    spans = [Span(names, 0, 100)] if names else []
    assert len(check(History(waits=[(10, 20)], faults=spans))) == found


@pytest.mark.parametrize(("over", "starved", "found"), [(15, 0, 1), (26, 0, 0), (15, 80, 0), (15, 100, 1)])
def test_of_a_wait_that_part_counts_that_is_outside_of_faults(over, starved, found):
    """It began at 10 and took 20 s."""
    spans = [Span(("cut-pair",), 0, over), *[Span(("starved",), starved, starved + 1)] * bool(starved)]
    assert len(check(History(waits=[(10, 20)], faults=spans))) == found


def test_a_mark_that_is_two_seconds_late_is_no_finding():
    assert check(History([came("q/p/0", "b", 10, True), came("q/p/0", "a", 12)])) == []


def test_what_a_consumer_took_with_it_is_what_stood_behind_its_last_message():
    """0 came, 1 and 2 were on their way. What is sent to the next one is not excused as long as that one is there."""
    sent = [event for n in range(5) for event in receipted(f"chaos.auto/p/{n}")]
    events = [
        *sent, came("chaos.auto/p/0", "ca.1"), ended("ca.1", 10), *receipted("chaos.auto/q/0"),
        came("chaos.auto/p/3", "ca.2"),
    ]  # fmt: skip
    assert consumed(History(events)) == {"chaos.auto/p/1", "chaos.auto/p/2"}
    assert consumed(History([*events, ended("ca.2", 20)])) == {
        "chaos.auto/p/1", "chaos.auto/p/2", "chaos.auto/p/4", "chaos.auto/q/0",
    }  # fmt: skip


def test_a_history_is_read_again(tmp_path):
    history = History(list(WATCHED), faults=[Span(("kill-owner",), 1.0, 2.0)])
    history.save(tmp_path / "history.jsonl")
    again = load(tmp_path / "history.jsonl")
    assert again.events == history.events and again.faults == history.faults


def test_what_waits_in_a_client_is_not_stale() -> None:
    """Seed 20261133: a consumer of ten took the second one when the first one's COMMIT was answered, 22 s later."""
    waited = [STALE[0], replace(STALE[1], came=9)]
    assert check(History(waited)) == []
    assert check(History([STALE[0], replace(STALE[1], came=15.5)])) != []
