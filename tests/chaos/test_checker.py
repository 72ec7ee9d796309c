"""The checker of chaos runs bites: each broken promise, planted, is found, and a clean history is clean."""

from __future__ import annotations

import pytest

from .checker import check
from .history import Event, History, Kind


def sent(key: str, **more: object) -> Event:
    return Event(Kind.SENT, key, **more)


def receipted(key: str) -> Event:
    return Event(Kind.RECEIPTED, key)


def came(key: str, who: str = "c", **more: object) -> Event:
    return Event(Kind.DELIVERED, key, who=who, **more)


def settled(key: str) -> Event:
    return Event(Kind.SETTLED, key)


def connected(who: str) -> Event:
    return Event(Kind.CONNECTED, who)


CLEAN = [
    connected("c"), sent("q/p/0"), receipted("q/p/0"), came("q/p/0"), settled("q/p/0"),
    sent("q/p/1"), came("q/p/1"), connected("d"), came("q/p/1", "d", redelivered=True),
    sent("q/p/2"),  # no receipt: it may be lost
    sent("a/p/0", tx="t"), sent("b/p/1", tx="t"), Event(Kind.COMMIT_SENT, "t"),  # no answer: all or nothing
    sent("later/p/0", due=10.0), came("later/p/0", at=9.95),
    came("q/p/0", redelivered=True),  # over a connection that is older than the ACK: it was on its way
]  # fmt: skip


def test_a_clean_history_has_no_findings():
    assert check(History(CLEAN)) == []


PLANTED = {
    "lost: q/p/9": [sent("q/p/9"), receipted("q/p/9")],
    "lost: a/p/8": [sent("a/p/8", tx="u"), Event(Kind.COMMIT_SENT, "u"), Event(Kind.COMMITTED, "u")],
    "ghost: q/p/7": [came("q/p/7")],
    "corrupt: q/p/1": [Event(Kind.CORRUPT, "q/p/1")],
    "resurrected: q/p/0": [connected("e"), came("q/p/0", "e", redelivered=True)],
    "unmarked: q/p/1": [came("q/p/1", "d")],
    "uncommitted": [sent("a/p/4", tx="v"), Event(Kind.ABORTED, "v"), came("a/p/4")],
    "torn": [sent("a/p/5", tx="w"), sent("b/p/6", tx="w"), Event(Kind.COMMIT_SENT, "w"), came("a/p/5")],
    "reordered: q/p/3": [sent("q/p/3"), sent("q/p/4"), came("q/p/4"), came("q/p/3")],
    "early: later/p/1": [sent("later/p/1", due=10.0), came("later/p/1", at=9.0)],
    "moved twice": [
        event
        for attempt in (1, 2)
        for event in (
            sent(f"chaos.out/m~{attempt}/chaos.in/p/1", tx=f"m{attempt}"), Event(Kind.COMMIT_SENT, f"m{attempt}"),
            came(f"chaos.out/m~{attempt}/chaos.in/p/1"),
        )
    ],
}  # fmt: skip


@pytest.mark.parametrize("finding", PLANTED)
def test_a_broken_promise_is_found(finding):
    (found,) = check(History([*CLEAN, *PLANTED[finding]]))
    assert found.startswith(finding)


@pytest.mark.parametrize(("at", "clocks_set", "early"), [
    (9.85, False, True), (9.85, True, False), (9.45, True, False), (9.35, True, True), (9.95, False, False),
])  # fmt: skip
def test_a_scheduled_message_is_early_by_what_a_clock_that_was_set_makes_up_for(at, clocks_set, early):
    """Due 10 s after it was sent: 5 % of these where clocks were set, and 0.1 s anyway."""
    events = [sent("later/p/0", due=10.0), came("later/p/0", at=at)]
    assert bool(check(History(events), clocks_set=clocks_set)) is early


def test_several_slots_have_no_order():
    events = [sent("s/p/3"), sent("s/p/4"), came("s/p/4"), came("s/p/3")]
    assert check(History(events), unordered=["s"]) == []
