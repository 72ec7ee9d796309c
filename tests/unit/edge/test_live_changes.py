"""What other settings, permissions and users mean for many who are connected comes in pieces, and nobody gets by it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from broker.core.commands import Publish, Subscribe, Unsubscribe
from broker.core.ids import slots_of
from broker.core.reasons import Reason
from broker.edge.requests import live_changes
from broker.edge.requests.live_changes import END, FEW, PIECE
from broker.edge.subscribing import growing

from .bench import Bench
from .test_authorising import ALL, bench_of, without
from .test_growing import World as Growing
from .test_growing import grown

MANY = 3 * PIECE
SUBSCRIBE, SEND = b"SUBSCRIBE\nid:%d\ndestination:/queue/%b\n\n\0", b"SEND\ndestination:/queue/q\n\nx\0"


class Turns:
    """Turns of the loop, one by one."""

    def __init__(self, bench: Bench) -> None:
        self.waiting: deque[Callable[[], None]] = deque()
        bench.edge.changes._soon = self.waiting.append

    def next(self) -> bool:
        if self.waiting:
            self.waiting.popleft()()
        return bool(self.waiting)

    def all(self) -> int:
        turns = 1
        while self.next():
            turns += 1
        return turns


def closed(wires: list[Any]) -> int:
    return sum(wire.closed is not None for wire in wires)


async def test_connections_whose_users_have_gone_end_some_at_a_time(monkeypatch):
    bench = Bench()
    turns = Turns(bench)
    opened = [bench.session() for _ in range(MANY)]
    wires = [wire for _, wire in opened]
    monkeypatch.setattr(bench.edge.auth, "still_valid", lambda user, mark: False, raising=False)
    bench.edge.expel({opened[0][0].principal})
    assert 0 < closed(wires) <= PIECE // END
    last, wire = opened[-1]
    last.receive(SEND)
    assert wire.closed is Reason.REFUSED and not [c for c in bench.port.commands if isinstance(c, Publish)]
    most = 0
    while before := MANY - closed(wires):
        turns.next()
        most = max(most, before - (MANY - closed(wires)))
    assert most <= PIECE // END + 1
    turns.all()
    assert not bench.edge.changes.busy and not turns.waiting


@pytest.mark.parametrize("frame", [SEND, SUBSCRIBE % (MANY, b"other")])
async def test_who_has_not_been_looked_at_is_judged_by_the_new_permissions(frame):
    bench, session, wire = bench_of({"#": ALL})
    turns = Turns(bench)
    for number in range(MANY):
        session.receive(SUBSCRIBE % (number, b"mine.%d" % number))
    another, its = bench.session()
    bench.port.commands.clear()
    bench.edge.permit({"#": without("send") if frame is SEND else {"send": "*"}, "mine.#": ALL})
    assert bench.edge.changes.busy and wire.closed is None
    another.receive(frame)
    assert b"lacks" in its.take() and its.closed is Reason.REFUSED
    assert not [c for c in bench.port.commands if isinstance(c, Publish | Subscribe)]
    turns.all()


async def test_subscriptions_are_looked_at_some_at_a_time_and_the_last_one_ends_its_connection(monkeypatch):
    bench, session, wire = bench_of({"#": ALL})
    turns = Turns(bench)
    for number in range(MANY):
        session.receive(SUBSCRIBE % (number, b"q.%d" % number))
    looked = [0]
    keeps = live_changes.keeps

    def counting(*about: Any) -> bool:
        looked[0] += 1
        return keeps(*about)

    monkeypatch.setattr(live_changes, "keeps", counting)
    bench.edge.permit({"#": ALL, f"q.{MANY - 1}": {}})
    most = before = looked[0]
    while turns.next():
        most, before = max(most, looked[0] - before), looked[0]
    assert looked[0] == MANY and most <= PIECE
    assert f"lacks consume at 'q.{MANY - 1}'".encode() in wire.take() and wire.closed is Reason.REFUSED


async def test_who_changes_something_again_and_again_keeps_nobody_from_being_come_to():
    """A script that makes a user each 100 ms: who stands at the end kept what had been taken from him."""
    bench, session, wire = bench_of({"#": ALL})
    turns = Turns(bench)
    for number in range(MANY):
        session.receive(SUBSCRIBE % (number, b"q.%d" % number))
    _, gone = bench.session()
    for number in range(3 * MANY // PIECE):
        bench.edge.expel({"somebody else"})
        bench.edge.permit({"#": ALL, f"q.{MANY - 1}": {}, f"x.{number}": {}})
        turns.next()
    assert f"lacks consume at 'q.{MANY - 1}'".encode() in wire.take() and gone.closed is None
    turns.all()
    assert not bench.edge.changes.busy and not turns.waiting


async def test_what_goes_wrong_when_a_round_is_over_keeps_no_other_from_going_on(monkeypatch):
    """A drain would wait for ever."""
    bench = Bench()
    turns = Turns(bench)
    wires = [bench.session()[1] for _ in range(MANY)]

    def wrong() -> None:
        raise RuntimeError("planted")

    bench.edge.changes.partitions(wrong)
    told: list[int] = []
    bench.edge.cut_off(lambda: told.append(closed(wires)))
    with pytest.raises(RuntimeError, match="planted"):
        turns.all()
    turns.all()
    assert told == [MANY] and not bench.edge.changes.busy


async def test_other_permissions_in_the_middle_begin_anew():
    bench, session, wire = bench_of({"#": ALL})
    turns = Turns(bench)
    for number in range(MANY):
        session.receive(SUBSCRIBE % (number, b"q.%d" % number))
    bench.edge.permit({"#": ALL, "x": {}})
    bench.edge.permit({"#": ALL, "q.0": {}})
    turns.all()
    assert b"lacks consume at 'q.0'" in wire.take() and not bench.edge.changes.busy


async def test_subscriptions_grow_some_at_a_time_and_messages_follow_only_then(monkeypatch):
    world = Growing()
    turns = Turns(world)
    session, _ = world.session()
    for number in range(MANY):
        session.receive(SUBSCRIBE % (number, b"q"))
    world.port.commands.clear()
    deadlines: list[float] = []
    monkeypatch.setattr(world.edge.beats, "deadline", lambda at, callback: deadlines.append(at))
    world.edge.configure(grown(3))
    most = before = len(world.port.commands)
    while turns.waiting:
        assert not deadlines
        turns.next()
        most, before = max(most, len(world.port.commands) - before), len(world.port.commands)
    assert len(world.port.commands) == 2 * MANY and most <= PIECE and deadlines


@pytest.mark.parametrize("ends", [False, True])
async def test_one_subscription_that_gets_many_parts_gets_them_some_at_a_time(ends):
    """All in one step, 256 for each address of a composite destination. One that ends meanwhile gets no more."""
    world = Growing()
    turns = Turns(world)
    session, wire = world.session()
    session.receive(SUBSCRIBE % (1, b"q"))
    world.port.commands.clear()
    world.edge.configure(grown(250))
    before, most = 0, len(world.port.commands)
    if ends:
        session.receive(b"UNSUBSCRIBE\nid:1\n\n\0")
    while turns.waiting:
        before = len(world.port.commands)
        turns.next()
        most = max(most, len(world.port.commands) - before)
    begun = [each.consumer for each in world.port.commands if isinstance(each, Subscribe)]
    ended = {each.consumer for each in world.port.commands if isinstance(each, Unsubscribe)}
    parts = len(slots_of("q", 250)) - 1
    if ends:
        assert 0 < len(begun) < parts and set(begun) < ended
    else:
        assert len(begun) == parts > 2 * PIECE / 3 and most <= PIECE / 2 + growing.PIECE and not ended
    assert wire.closed is None


async def test_all_are_cut_off_before_that_is_told():
    bench = Bench()
    turns = Turns(bench)
    wires = [bench.session()[1] for _ in range(MANY)]
    told: list[int] = []
    bench.edge.cut_off(lambda: told.append(closed(wires)))
    assert not told
    assert turns.all() >= MANY * END // PIECE - 1 and told == [MANY]


def test_what_bounds_a_piece() -> None:
    assert PIECE * 10e-6 <= 0.005 and PIECE / END * 100e-6 <= 0.005 and FEW >= 1
