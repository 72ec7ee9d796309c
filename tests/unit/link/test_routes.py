"""Routes: a slot is live on the link of its leader of the newest epoch or nowhere, and its owner is told all first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.effects import AddressBlocked
from broker.link.codec.codec import MOVED, OPENED, SERVING, Open, SlotState
from broker.link.edge_side.routes import Routes
from broker.link.stats import LinkStats

SLOT = 5


class Link:
    """A stream to one owner, that comes up when the test says so."""

    def __init__(self, owner: str, address: str) -> None:
        self.owner, self.address = owner, address
        self.slots: set[int] = set()
        self.up, self.nbytes, self.started = False, 0, 0
        self.paused: set[int] = set()
        self.closed = ""
        self.said: list[Any] = []
        """Since the last drop."""
        self.questions: list[tuple[bytes, Any]] = []
        self.withdrawn: list[int] = []
        self.bodies = SimpleNamespace(withdraw=self.withdrawn.append)

    def carry(self, slot: int, nbytes: int) -> None:
        self.slots.add(slot)

    def release(self, slot: int, nbytes: int) -> None:
        self.slots.discard(slot)

    def start(self) -> None:
        self.started += 1

    def add(self, slot: int, command: Any, nbytes: int) -> None:
        self.said.append(command)

    def drop(self, slot: int) -> None:
        self.said = [command for command in self.said if command.slot != slot]

    def ask(self, question: bytes, done: Any) -> None:
        self.questions.append((question, done))

    def close(self, why: str) -> None:
        self.closed = why


class Backpressure:
    def __init__(self) -> None:
        self.told: list[AddressBlocked] = []
        self.calls: list[tuple[str, Any]] = []

    def tell(self, effect: AddressBlocked) -> None:
        self.told.append(effect)

    def landed(self, slot: int) -> None:
        self.calls.append(("landed", slot))

    def eased(self, link: Link) -> None:
        self.calls.append(("eased", link.owner))

    def relieve(self, sessions: set[int]) -> None:
        self.calls.append(("relieve", sorted(sessions)))


class Bench:
    def __init__(self, sparing: bool = False) -> None:
        self.now = 100.0
        self.made: list[Link] = []
        self.backpressure, self.stats, self.ended = Backpressure(), LinkStats(), 0
        clock: Any = SimpleNamespace(monotonic=lambda: self.now)
        self.routes = Routes(clock, self.backpressure, self.stats, self.make, self.unserved, sparing, 5.0)  # type: ignore[arg-type]

    def make(self, owner: str, address: str) -> Any:
        self.made.append(Link(owner, address))
        return self.made[-1]

    def unserved(self) -> None:
        self.ended += 1

    def led(self, owner: str, epoch: int, slot: int = SLOT, up: bool = True) -> Link:
        self.routes.route(slot, epoch, owner, f"{owner}:1")
        link = next(link for link in reversed(self.made) if link.owner == owner)
        if up and not link.up:
            link.up = True
            self.routes.dialed(link)  # type: ignore[arg-type]
        return link

    def says(self, link: Link, state: int, epoch: int, slot: int = SLOT, opening: int = 0) -> None:
        self.routes.said(link, SlotState(slot, epoch, state, opening))  # type: ignore[arg-type]

    def current(self, link: Link, slot: int = SLOT) -> bool:
        return self.routes.current(link, slot) is not None  # type: ignore[arg-type]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def opens(link: Link) -> list[tuple[int, int, bool]]:
    return [(each.slot, each.epoch, each.told) for each in link.said if isinstance(each, Open)]


def test_a_slot_is_live_when_its_leader_has_been_told_and_has_answered(bench):
    link = bench.led("a", 1, up=False)
    assert link.started == 1 and link.said == [] and not bench.routes.channel(SLOT).live
    bench.led("a", 1)
    assert opens(link) == [(SLOT, 1, False), (SLOT, 1, True)]
    assert not bench.current(link) and bench.stats.stale == 1, "I8: nothing counts before OPENED"
    bench.says(link, OPENED, 1)
    assert bench.current(link)


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_an_answer_of_another_epoch_opens_nothing(bench, epoch):
    link = bench.led("a", 2)
    bench.says(link, OPENED, epoch)
    assert not bench.current(link)


def test_a_record_that_comes_twice_or_late_changes_nothing(bench):
    link = bench.led("a", 2)
    bench.says(link, OPENED, 2)
    said = list(link.said)
    bench.led("a", 2)
    bench.routes.route(SLOT, 1, "b", "b:1")
    assert link.said == said and bench.current(link) and [link.owner for link in bench.made] == ["a"]


def test_one_link_for_all_slots_of_an_owner_and_its_own_for_another_address(bench):
    first = bench.led("a", 1)
    assert bench.led("a", 1, slot=6) is first and first.slots == {5, 6}
    bench.routes.route(7, 1, "a", "elsewhere:1")
    assert [(link.owner, link.address) for link in bench.made] == [("a", "a:1"), ("a", "elsewhere:1")]


def test_a_new_leader_is_told_all_and_the_old_one_is_not_heard(bench):
    a = bench.led("a", 1)
    bench.says(a, OPENED, 1)
    b = bench.led("b", 2)
    assert opens(b) == [(SLOT, 2, False), (SLOT, 2, True)] and bench.backpressure.calls[-1] == ("landed", SLOT)
    bench.says(a, OPENED, 2)
    bench.says(b, OPENED, 2)
    assert bench.current(b) and not bench.current(a)
    assert a.slots == set() and a.closed and ("a", "a:1") not in bench.routes.links
    assert a.withdrawn == [SLOT] and bench.ended >= 1


def test_the_same_leader_in_a_newer_epoch_is_told_again(bench):
    link = bench.led("a", 1)
    bench.says(link, OPENED, 1)
    bench.led("a", 2)
    assert opens(link) == [(SLOT, 2, False), (SLOT, 2, True)] and not bench.current(link) and not link.closed


def test_a_stream_that_broke_and_came_back_is_told_slots_in_order(bench):
    for slot in (9, 5, 7):
        link = bench.led("a", 1, slot=slot)
        bench.says(link, OPENED, 1, slot)
    link.up = False
    ended = bench.ended
    bench.routes.broken(link)
    assert bench.ended == ended + 3 and not any([bench.current(link, slot) for slot in (5, 7, 9)])
    link.up, link.said = True, []
    bench.routes.dialed(link)
    assert [slot for slot, _, told in opens(link) if not told] == [5, 7, 9]


def test_moved_waits_for_serving_unless_it_is_of_our_epoch(bench):
    link = bench.led("a", 2)
    bench.says(link, OPENED, 2)
    link.said = []
    bench.says(link, MOVED, 1)
    assert link.said == [] and not bench.routes.channel(SLOT).live and bench.stats.moved == 1
    bench.says(link, SERVING, 1)
    assert link.said == []
    bench.says(link, SERVING, 2)
    assert len(opens(link)) == 2
    bench.says(link, SERVING, 2)
    assert len(opens(link)) == 2, "it is live already"
    link.said = []
    bench.says(link, MOVED, 2)
    assert len(opens(link)) == 2, "a transfer that was called off: it wants all anew"


def test_the_answer_to_an_earlier_open_of_the_same_epoch_opens_nothing(bench):
    """A hand-over that is taken back at once: two Opens are on their way. What follows the answer to the first one is
    told to what the edge was then; the replay behind the second one knows nothing of it."""
    link = bench.led("a", 2)
    (first, *_) = [each.opening for each in link.said if isinstance(each, Open)]
    bench.says(link, MOVED, 0)
    bench.says(link, SERVING, 2)
    (second, *_) = [each.opening for each in link.said if isinstance(each, Open)]
    assert second == first + 1
    bench.says(link, OPENED, 2, opening=first)
    assert not bench.current(link)
    bench.says(link, OPENED, 2, opening=second)
    assert bench.current(link)


def test_nobody_serves_a_slot_that_is_offline_or_taken_over(bench):
    link = bench.led("a", 1)
    link.paused = {3, 1}
    assert bench.routes.unserved() == 1, "its new leader has said nothing yet"
    bench.says(link, OPENED, 1)
    assert bench.routes.unserved() == 0
    other = bench.led("b", 2)
    assert bench.routes.unserved() == 1
    bench.says(other, OPENED, 2)
    assert bench.routes.unserved() == 0
    link = bench.led("a", 3)
    link.paused = {3, 1}
    bench.says(link, OPENED, 3)
    bench.routes.offline(SLOT)
    assert bench.routes.unserved() == 1 and not bench.current(link) and link.closed
    assert bench.backpressure.calls[-2:] == [("eased", "a"), ("relieve", [1, 3])]


def test_who_was_told_that_it_is_full_is_told_otherwise_when_the_leader_goes(bench):
    link = bench.led("a", 1)
    bench.says(link, OPENED, 1)
    out: list[Any] = []
    for address, passing in (("x", False), ("y", True), ("z", False)):
        bench.routes.address_blocked(link, AddressBlocked(3, SLOT, address, True, passing), out)
    bench.routes.address_blocked(link, AddressBlocked(3, SLOT, "z", False, False), out)
    assert len(out) == 4
    bench.routes.broken(link)
    assert [(each.address, each.full) for each in bench.backpressure.told] == [("y", False)], "nobody reads its ACK"
    bench.routes.dialed(link)
    assert [(each.address, each.full) for each in bench.backpressure.told] == [("y", False), ("x", False)]
    bench.routes.address_blocked(link, AddressBlocked(3, SLOT, "late", True, False), out)
    assert len(out) == 4, "not opened yet: nobody hears it"


def test_owners_that_lead_something_are_asked(bench):
    bench.led("a", 1)
    b = bench.led("b", 1, slot=6)
    idle = bench.make("idle", "idle:1")
    bench.routes.links["idle", "idle:1"] = idle
    heard = []
    assert bench.routes.ask(b"?", lambda *answer: heard.append(answer)) == ["a", "b"]
    b.questions[0][1](b"!", "")
    assert heard == [("b", b"!", "")] and idle.questions == []


def test_one_that_is_not_reached_is_dialled_on_until_it_is_gone_from_the_cluster(bench):
    a = bench.led("a", 1, up=False)
    bench.routes.broken(a)
    for _ in range(20):
        bench.now += 0.5
        found = bench.routes.unreached({"a": "a:1"})
    assert found == ("a",)
    bench.led("b", 2)
    assert not a.closed, "that it is reached again must show"
    bench.now += 0.5
    assert bench.routes.unreached({"a": "a:2"}) == ("a",) and a.closed, "it lives at another address now"


def test_closed_is_closed(bench):
    link = bench.led("a", 1)
    bench.routes.close("stop")
    assert link.closed == "stop" and bench.routes.links == {}
    bench.routes.route(SLOT, 2, "b", "b:1")
    assert [made.owner for made in bench.made] == ["a"]


def test_what_is_never_used_is_not_dialled_and_the_newest_record_counts():
    bench = Bench(sparing=True)
    for epoch, owner in ((2, "a"), (3, "b"), (1, "c")):
        bench.routes.route(SLOT, epoch, owner, f"{owner}:1")
    bench.routes.route(6, 1, "a", "a:1")
    bench.routes.offline(6)
    assert bench.made == [] and bench.routes.channels == {}
    assert bench.routes.channel(SLOT).epoch == 3 and [link.owner for link in bench.made] == ["b"]
    assert bench.routes.channel(6).link is None
