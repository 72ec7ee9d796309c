"""Where exactly the link's bounds are: shares of a batch, times, and what is told when. One link, a stream that only
remembers, and a user who does nothing."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.commands import Disconnect
from broker.core.patience import Patience
from broker.link.codec.codec import CONGESTED, DOWN_PING, UP_PING
from broker.link.edge_side import owner_link
from broker.link.edge_side.owner_link import FIRST_RETRY_S, LAST_RETRY_S, LEASE_SHARE, STEADY_S, OwnerLink
from broker.link.stats import LinkStats
from broker.rpc.v1 import link_pb2 as pb
from broker.seams.stream import Ended, EndKind

from .world import World, make_settings

PING_S = 0.125
"""A binary fraction: sums of these are exact."""


class Stream:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.ended = ""

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self, why: str) -> None:
        self.ended = why

    abort = close


class User:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.heard.append(name)


class Alone(OwnerLink):
    """Its user, its streams, its time."""

    def __init__(self, **cluster: Any) -> None:
        self.world, self.user, self.streams = World(), User(), []
        self.world.now = 64.0
        settings = make_settings(**{"ping_ms": 1000 * PING_S, "dead_after_ms": 500, **cluster}).cluster
        super().__init__(
            "a", "a:1", pb.Hello(), settings, self, self.world, self.world.schedule, self.world.later,
            self.user, LinkStats(), Patience(settings.dead_after_ms / 1000),
        )  # fmt: skip
        self.start()
        self.ups.clear()

    def dial(self, address: str, service: str, end: Any) -> Stream:
        self.end = end
        self.streams.append(Stream())
        return self.streams[-1]

    @property
    def ups(self) -> list[bytes]:
        return self.streams[-1].sent

    def hears(self, **down: Any) -> None:
        self.end.on_message(pb.Down(**down).SerializeToString())

    def batch(self) -> list[int]:
        """Of the commands of the last batch."""
        return [each.disconnect.slot for each in pb.Up.FromString(self.ups[-1]).commands]

    def queue(self, slot: int, *sizes: int) -> None:
        for size in sizes:
            self.add(slot, Disconnect(slot, 1), size)


# ── a batch ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("first", "batch"),
    [
        ((99, 1, 1, 1), [1, 1, 1, 2]),  # up to and with the command that goes over the share
        ((100, 1, 1, 1), [1, 1, 2]),
        ((101, 1, 1, 1), [1, 2]),
        ((500,), [1]),  # larger than the batch: alone
    ],
)
def test_a_slot_has_its_share_and_no_more_of_a_batch(first, batch):
    link = Alone(batch_bytes=200)
    link.queue(1, *first)
    link.queue(2, 100, 100)
    link.world.run()
    assert link.batch()[: len(batch)] == batch


def test_the_next_batch_begins_with_the_slot_that_had_not_all():
    link = Alone(batch_bytes=200)
    link.queue(1, 150, 150)
    link.queue(2, 150, 150)
    link.world.run()
    assert link.batch() == [1, 2]
    link.hears(taken=1)
    assert link.batch() == [1, 2]
    link.hears(taken=2)
    assert len(link.ups) == 2, "nothing is left"


def test_a_batch_that_fits_is_all_of_it():
    link = Alone(batch_bytes=200)
    link.queue(1, 100)
    link.queue(2, 100)
    link.queue(1, 0)
    link.world.run()
    assert link.batch() == [1, 1, 2]


def test_what_is_dropped_takes_no_room():
    link = Alone(batch_bytes=200)
    link.queue(1, 150, 150)
    link.drop(1)
    link.queue(2, 100, 50, 50)
    link.world.run()
    assert link.batch() == [2, 2, 2]


def test_an_answer_to_an_earlier_batch_lets_nothing_go():
    link = Alone()
    link.queue(1, 1)
    link.world.run()
    link.queue(1, 1)
    link.hears(taken=0, pressure=CONGESTED)
    assert len(link.ups) == 1
    link.hears(taken=1)
    assert len(link.ups) == 2 and pb.Up.FromString(link.ups[-1]).batch == 2


# ── what was taken ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("batch", "told"), [(7, 0), (8, 8)])
def test_so_many_messages_are_told_at_once(batch, told):
    link = Alone()
    link.hears(batch=batch)
    assert [pb.Up.FromString(up).taken for up in link.ups] == [told] * bool(told)


def test_so_many_bytes_are_told_at_once(monkeypatch):
    link = Alone()
    link.hears(batch=1)
    size = len(pb.Down(batch=1).SerializeToString())
    monkeypatch.setattr(owner_link, "TAKEN_BYTES", 3 * size)
    link.hears(batch=2)
    assert link.ups == []
    link.hears(batch=3)
    assert [pb.Up.FromString(up).taken for up in link.ups] == [3]
    link.hears(batch=4)
    assert len(link.ups) == 1, "bytes are counted anew"


def test_the_rest_is_told_once_after_a_while_and_nothing_if_there_is_none():
    link = Alone()
    timers = len(link.world.timers)
    link.hears(taken=0, pressure=CONGESTED)
    assert len(link.world.timers) == timers, "nothing to tell: no timer"
    link.hears(batch=1)
    link.hears(batch=2)
    assert len(link.world.timers) == timers + 1
    link.gone(7)
    link.world.pass_time(0.021)
    (up,) = map(pb.Up.FromString, link.ups)
    assert (up.taken, list(up.gone)) == (2, [7])
    link.hears(batch=3)
    link.queue(1, 1)
    link.world.run()
    link.world.pass_time(0.021)
    assert [list(pb.Up.FromString(up).gone) for up in link.ups[1:]] == [[]], "with the batch, and not a second time"


# ── signs of life ────────────────────────────────────────────────────────────────────────────────────


def test_a_ping_says_what_was_taken_and_is_one():
    link = Alone()
    link.end.tick()  # behind the Hello
    link.hears(batch=1)
    link.end.tick()
    assert [(up.ping, up.taken) for up in map(pb.Up.FromString, link.ups)] == [(True, 1)]
    link.end.tick()
    assert link.ups[1:] == [UP_PING]
    link.queue(1, 1)
    link.world.run()
    link.end.tick()
    assert len(link.ups) == 3, "something was said"


def test_who_says_nothing_is_borne_for_just_so_long():
    link = Alone(dead_after_ms=500)
    link.end.on_message(DOWN_PING)
    for _ in range(4):
        link.world.now += PING_S
        link.end.tick()
    assert link.streams[-1].ended == ""
    link.world.now += PING_S
    link.end.tick()
    assert "nothing heard for 500 ms" in link.streams[-1].ended


def test_at_the_bound_the_owner_has_not_given_this_edge_up():
    for more, ended in ((0.0, ""), (PING_S, "nothing was read for 2.12 s")):
        link = Alone(edge_grace_s=2, lease_s=60)
        link.end.on_message(DOWN_PING)
        link.world.now += PING_S + 2 + more
        link.end.tick()
        assert ended in link.streams[-1].ended and bool(link.streams[-1].ended) is bool(ended)


def test_a_short_lease_is_the_bound():
    link = Alone(edge_grace_s=60, lease_s=10)
    link.end.on_message(DOWN_PING)
    link.world.now += 10 * LEASE_SHARE + 0.01
    link.end.on_message(DOWN_PING)
    assert "has given this edge up" in link.streams[-1].ended


def test_before_the_first_word_only_how_long_we_stood_still_counts():
    link = Alone(edge_grace_s=2, lease_s=60)
    link.world.now += 2 + PING_S
    link.end.on_message(DOWN_PING)
    assert link.streams[-1].ended == "" and link.user.heard.count("on_answered") == 1
    link = Alone(edge_grace_s=2, lease_s=60)
    link.world.now += 2 + 2 * PING_S
    link.end.on_message(DOWN_PING)
    assert "has given this edge up" in link.streams[-1].ended


# ── the end of a stream ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("congested", [True, False])
def test_a_stream_that_ends_takes_its_pressure_along(congested):
    link = Alone()
    link.hears(pressure=CONGESTED if congested else 2)
    link.user.heard.clear()
    link.end.on_closed(Ended("cut"))
    assert not link.congested and not link.up
    assert link.user.heard == ["on_pressure"] * congested + ["on_broken"]


@pytest.mark.parametrize(("lasted", "pause"), [(STEADY_S, FIRST_RETRY_S), (STEADY_S - 0.5, 4 * FIRST_RETRY_S)])
def test_only_a_stream_that_lasted_makes_the_pause_short_again(lasted, pause):
    link = Alone(edge_grace_s=60, lease_s=600)
    for wait in (FIRST_RETRY_S, 2 * FIRST_RETRY_S):
        link.end.on_closed(Ended("cut", EndKind.REFUSED))
        dials = len(link.streams)
        link.world.pass_time(0.9 * wait)
        assert len(link.streams) == dials
        link.world.pass_time(0.2 * wait)
        assert len(link.streams) == dials + 1
    link.end.on_message(DOWN_PING)
    link.world.now += lasted
    dials = len(link.streams)
    link.end.on_closed(Ended("cut"))
    link.world.pass_time(0.9 * pause)
    assert len(link.streams) == dials
    link.world.pass_time(0.2 * pause)
    assert len(link.streams) == dials + 1


def test_who_refuses_is_asked_seldom():
    link = Alone()
    link.hears(refusal=pb.Refusal(code=1501, detail="another protocol"))
    assert len(link.streams) == 1
    link.world.pass_time(0.9 * LAST_RETRY_S)
    assert len(link.streams) == 1
    link.world.pass_time(0.2 * LAST_RETRY_S)
    assert len(link.streams) == 2


def test_what_an_earlier_stream_still_says_is_nothing():
    link = Alone()
    earlier = link.end
    earlier.on_closed(Ended("cut"))
    link.world.pass_time(0.021)
    link.user.heard.clear()
    for late in (lambda: earlier.on_message(DOWN_PING), lambda: earlier.on_closed(Ended("cut")), earlier.tell_taken):
        late()
    timers = len(link.world.timers)
    earlier.tick()
    assert link.user.heard == [] and len(link.world.timers) == timers and len(link.streams) == 2


def test_a_link_that_is_closed_dials_no_more():
    link = Alone()
    link.close("the slots have moved")
    assert link.streams[-1].ended == "the slots have moved"
    link.start()
    link.world.pass_time(2)
    assert len(link.streams) == 1
