"""A subscription that takes so many messages a second: its room comes back no faster."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.commands import UNLIMITED
from broker.edge.subscriptions.consumer_rate import ROOM, SLOW, Tempo, room

from .bench import Bench
from .subscriber import deliver, grants, subscribe


async def test_a_rate_gives_room_back_no_faster_than_it_says():
    bench = Bench()
    command, _ = subscribe(bench, "consumer-max-rate:100\n")
    assert command is not None and command.room == 20 * 64  # a fifth of a second's, however small they are
    assert grants(bench) == 0 and deliver(bench, command, 40) == grants(bench)  # half a second may come at once
    cost = deliver(bench, command, 40)
    assert grants(bench) == 0
    await asyncio.sleep(0.6)
    assert grants(bench) == cost
    slow, _ = subscribe(bench, "consumer-max-rate:2\n")
    assert slow is not None and slow.room == 1
    free, _ = subscribe(bench, "consumer-max-rate:-1\n")
    assert free is not None and free.room > 16 * 1024


@pytest.mark.parametrize(
    ("rate", "most", "bytes_"),
    [(1, 10**6, 1), (SLOW, 10**6, 1), (SLOW + 1, 0, 1), (10**9, 10**9, ROOM), (10**9, 500, 500)],
)
def test_a_slow_one_has_one_message_under_way_and_a_fast_one_so_much_at_most(rate, most, bytes_):
    assert room(rate, most) == bytes_


class Parts:
    """A part of a subscription, its edge and its session."""

    def __init__(self) -> None:
        self.now = 100.0
        self.calls: list[Any] = []
        self.deadlines: list[tuple[float, Any]] = []
        self.shown: list[int] = []
        clock = SimpleNamespace(monotonic=lambda: self.now)
        beats = SimpleNamespace(deadline=lambda at, call: self.deadlines.append((at, call)))
        self.edge = SimpleNamespace(clock=clock, beats=beats, consumers={7: self})
        self.session = SimpleNamespace(edge=self.edge, outbound=SimpleNamespace(writable=True))
        self.consumer = 7

    def goes_through(self, sink: Any) -> None:
        self.calls.append(("through", sink))

    def gives_back_above(self, nbytes: int) -> None:
        self.calls.append(("above", nbytes))

    def give_room(self) -> None:
        self.calls.append(("room",))

    def deliver(self, sub: Any, effect: Any) -> None:
        self.shown.append(len(effect.run))


def effect(count: int) -> Any:
    return SimpleNamespace(run=range(count))


def tempo(rate: int = 100) -> tuple[Tempo, Parts]:
    part = Parts()
    made = Tempo(rate, part, part.now)  # type: ignore[arg-type]
    made.join(part)  # type: ignore[arg-type]
    assert part.calls.pop() == ("through", made)
    return made, part


def test_what_comes_is_shown_at_once_and_its_room_given_back_later():
    made, part = tempo()
    made.deliver(part, effect(40))
    assert part.shown == [40] and part.calls == [("above", 0)] and part.deadlines == []
    made.deliver(part, effect(40))
    assert part.shown == [40, 40] and part.calls[-1] == ("above", UNLIMITED)
    ((at, over),) = part.deadlines
    assert part.now < at <= part.now + 0.5
    over()
    assert part.calls[-2:] == [("above", 0), ("room",)]


def test_a_part_that_has_ended_is_given_nothing():
    made, part = tempo()
    made.deliver(part, effect(100))
    part.edge.consumers.clear()
    part.calls.clear()
    part.deadlines[0][1]()
    assert part.calls == []


def test_room_is_not_given_where_the_client_does_not_read():
    """The session gives it when he does."""
    made, part = tempo()
    made.deliver(part, effect(100))
    part.session.outbound.writable = False
    part.calls.clear()
    part.deadlines[0][1]()
    assert part.calls == [("above", 0)]


def test_another_one_may_show_what_passes():
    made, part = tempo()
    other = Parts()
    made.follow(other)  # type: ignore[arg-type]
    made.deliver(part, effect(3))
    assert (part.shown, other.shown) == ([], [3])
