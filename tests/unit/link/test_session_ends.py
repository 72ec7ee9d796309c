"""Ends of sessions: in pieces, with slots that stand still, and before whoever comes back."""

from __future__ import annotations

import pytest

from broker.core.commands import Disconnect
from broker.link.owner_side import session_ends
from broker.link.owner_side.edge_peer import Resting
from broker.link.owner_side.edge_stream import EdgeStream
from broker.link.owner_side.session_ends import CONGESTED_S, SessionEnds
from broker.rpc.v1 import link_pb2 as pb


class Place:
    def __init__(self) -> None:
        self.taken: list[Disconnect] = []
        self.full = False
        self.resting: dict[int, Resting] = {}
        self.came: list[tuple[EdgeStream, pb.Hello, list[bytes]]] = []
        self.soon: list = []
        self.timers: list = []
        self.farewells = SessionEnds(
            self.taken.extend, lambda: self.full, self.resting, lambda *it: self.came.append(it), self.soon.append,
            lambda seconds, call: self.timers.append((seconds, call)),
        )  # fmt: skip

    def run(self) -> None:
        while self.soon:
            self.soon.pop(0)()


def ends(count: int, slot: int = 1):
    return iter([Disconnect(slot, n, False) for n in range(count)])


def stream() -> EdgeStream:
    class Listener:
        def on_message(self, end, data): ...
        def on_closed(self, end, why): ...

    return EdgeStream(Listener(), object())  # type: ignore[arg-type]


@pytest.fixture
def place(monkeypatch) -> Place:
    monkeypatch.setattr(session_ends, "ENDED", 10)
    return Place()


def test_a_step_ends_so_many_and_the_last_one_all_that_is_left(place):
    place.farewells.begin(7, ends(24))
    assert len(place.taken) == 10
    place.soon.pop()()
    assert len(place.taken) == 20
    place.soon.pop()()
    assert [end.session for end in place.taken] == list(range(24)) and not place.soon


def test_a_slot_that_stands_still_takes_its_ends_when_it_goes_on(place):
    place.resting[2] = Resting(1)
    place.farewells.begin(7, ends(3, slot=2))
    place.run()
    assert place.taken == [] and len(place.resting[2].ends) == 3


def test_what_waits_for_room_goes_on_once_by_relief_or_by_time(place):
    place.full = True
    place.farewells.begin(7, ends(24))
    assert not place.soon and [seconds for seconds, _ in place.timers] == [CONGESTED_S]
    place.full = False
    place.farewells.on_relief()
    place.run()
    assert len(place.taken) == 24
    for _, call in place.timers:
        call()
    place.run()
    assert len(place.taken) == 24


def test_who_comes_back_waits_and_is_let_in_with_what_came_behind(place):
    place.farewells.begin(7, ends(24))
    back, hello = stream(), pb.Hello(token=7)
    assert place.farewells.keeps_waiting(back, hello) and back.held == []
    back.held.append(b"later")
    assert not place.farewells.keeps_waiting(stream(), pb.Hello(token=8))
    assert place.came == []
    place.run()
    assert place.came == [(back, hello, [b"later"])] and back.held is None
    assert not place.farewells.keeps_waiting(stream(), pb.Hello(token=7))
