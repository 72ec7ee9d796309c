"""Connections end at idle points only, at the rate that was asked for, and no more than too many."""

from __future__ import annotations

import pytest

from broker.config.settings import EdgeSettings
from broker.core.errors import Code
from broker.edge.transport.draining import AT_ONCE, COUNTED, LOOKED, Shedding, excess, level


class Session:
    def __init__(self, idle=True, whose="ada", connected=True):
        self.idle = idle
        self.whose = whose
        self.connected = connected
        self.ended: tuple | None = None

    def fail(self, code, detail):
        self.idle = False
        self.ended = (code, detail)


class World:
    """Sessions, and time that is moved by hand."""

    def __init__(self, count, busy=0):
        self.all = [Session(n >= busy) for n in range(count)]
        self.now = 0.0
        self.due: list[tuple[float, object]] = []
        self.shedding = Shedding(self.open, self, self)

    def open(self):
        return [each for each in self.all if each.ended is None]

    def monotonic(self):
        return self.now

    def deadline(self, at, callback):
        self.due.append((at, callback))

    def soon(self, callback):
        self.due.insert(0, (self.now, callback))

    def pass_time(self, seconds):
        end = self.now + seconds
        while self.due and self.due[0][0] <= end + 1e-9:
            self.now, callback = self.due.pop(0)
            callback()
        self.now = end

    @property
    def ended(self):
        return len(self.all) - len(self.open())


def test_a_drain_keeps_its_rate():
    world = World(100)
    world.shedding.drain(20, 1000, "bye")
    world.pass_time(1)
    assert 18 <= world.ended <= 22
    world.pass_time(6)
    assert world.ended == 100
    assert world.all[0].ended == (Code.SHUTDOWN, "bye")
    assert not world.due, "nothing is left to do"


def test_a_drain_is_faster_when_its_time_is_short():
    world = World(1000)
    world.shedding.drain(1, 10, "bye")
    world.pass_time(8.1)
    assert world.ended == 1000


def test_who_is_busy_is_waited_for():
    world = World(3, busy=2)
    world.shedding.drain(100, 10, "bye")
    world.pass_time(5)
    assert world.ended == 1
    world.all[0].idle = True
    world.pass_time(0.1)
    assert world.ended == 2


def test_busy_time_is_not_saved_up_for_a_storm():
    world = World(100, busy=100)
    world.shedding.drain(20, 1000, "bye")
    world.pass_time(60)
    for each in world.all:
        each.idle = True
    world.pass_time(1)
    assert world.ended <= 22


def test_shedding_ends_so_many_and_stops():
    world = World(50)
    world.shedding.shed(7, 20, "move")
    world.pass_time(10)
    assert world.ended == 7
    assert not world.due


def test_nobody_moves_because_of_what_others_have_opened():
    """500 connections that had not logged in made an edge end that of a polite client: it had more than the others."""
    world = World(0)
    crowd = [Session(whose="eve") for _ in range(300)]
    few = [Session(whose=f"user{n}") for n in range(40)]
    strangers = [Session(whose="@10.0.0.1", connected=False) for _ in range(500)]
    world.all = [*few, *strangers, *crowd]
    world.shedding.shed(200, 100, "move")
    world.pass_time(10)
    assert [each.ended is not None for each in few] == [False] * 40
    assert not any(each.ended for each in strangers)
    assert sum(each.ended is not None for each in crowd) == 200


def test_where_all_have_about_as_many_the_others_go_as_well():
    """Of a thousand users of one connection and one of two, with the mean as the measure, only he had to go."""
    world = World(0)
    world.all = [Session(whose=f"u{n}") for n in range(1000)] + [Session(whose="twice") for _ in range(2)]
    world.shedding.shed(500, 1000, "move")
    world.pass_time(5)
    assert world.ended == 500 and not all(each.ended for each in world.all[-2:])


def test_what_is_being_counted_is_counted_to_its_end_however_often_it_is_asked_for():
    world = World(5 * COUNTED)
    for _ in range(3):
        world.shedding.shed(100, 1000, "move")
        world.pass_time(0)
    world.pass_time(5)
    assert world.ended == 100


@pytest.mark.parametrize(
    "counts, count, left",
    [
        ([700, *[1] * 100], 300, 400),
        ([10, 10, 4], 6, 7),
        ([10, 10, 4], 7, 6),
        ([10, 4], 6, 4),
        ([10, 4], 8, 3),
        ([1, 1, 1], 2, 0),
        ([3], 9, 0),
        ([], 5, 0),
    ],
)
def test_who_has_most_is_left_with_as_many_as_the_others_who_had(counts, count, left):
    assert level(counts, count) == left


def test_who_has_most_is_waited_for_and_nobody_goes_instead():
    world = World(0)
    crowd = [Session(idle=False, whose="eve") for _ in range(30)]
    few = [Session(whose=f"user{n}") for n in range(5)]
    world.all = [*few, *crowd]
    world.shedding.shed(20, 100, "move")
    world.pass_time(5)
    assert world.ended == 0
    for each in crowd:
        each.idle = True
    world.pass_time(1)
    assert not any(each.ended for each in few) and world.ended == 20


@pytest.mark.parametrize(
    "mine, others, many",
    [
        (1000, [0], 500),
        (1000, [1000], 0),
        (1200, [1000, 1000], 0),
        (500, [0, 0], 333),
        (300, [], 0),
        (150, [0], 0),
        (0, [1000], 0),
    ],
)
def test_too_many_is_measured_by_the_mean(mine, others, many):
    assert excess(mine, others, 1.2, 100) == many


@pytest.mark.parametrize("busy", [0, 15_000])
def test_no_step_ends_or_looks_at_many(busy):
    """With 20,000 connections one of them ended 125 at once, and looked at all."""
    world = World(20_000, busy)
    looked = []

    class Watched(Session):
        @property
        def idle(self):
            looked.append(self)
            return self.ready and self.ended is None

        @idle.setter
        def idle(self, value):
            self.ready = value

    world.all = [Watched(n >= busy) for n in range(20_000)]
    live = dict.fromkeys(world.all)
    world.open = lambda: live
    world.shedding = Shedding(world.open, world, world)
    world.shedding.drain(1, 10, "bye")
    worst = ended = 0
    while world.due and world.now < 9.5:
        looked.clear()
        world.now, callback = world.due.pop(0)
        callback()
        gone = [each for each in looked if each.ended is not None]
        for each in gone:
            live.pop(each, None)
        worst = max(worst, len(gone))
        ended += len(gone)
        assert len(looked) <= LOOKED
    assert worst <= AT_ONCE
    assert ended >= 20_000 - busy - AT_ONCE


def test_a_thousand_idle_clients_go_and_a_long_consumer_is_waited_for():
    """As a StompAcceptor has it: 60 s between SIGTERM and the cut; the grace of the pod is 15 s longer."""
    world = World(1001, busy=1)
    world.shedding.drain(EdgeSettings().shed_rate, 60, "bye")
    world.pass_time(1)
    assert 150 < world.ended < 250, "not all at once: they connect to the other edges"
    world.pass_time(48)
    assert world.ended == 1000 and world.all[0].ended is None, "its message is not acknowledged yet"
    world.pass_time(10)
    assert world.all[0].ended is None
    world.all[0].idle = True
    world.pass_time(1)
    assert world.all[0].ended == (Code.SHUTDOWN, "bye")
