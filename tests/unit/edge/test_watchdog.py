"""The clocks of one connection: nobody is ended for a silence that is ours, and no promise is late."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.errors import Code
from broker.edge.session.heartbeat import HeartBeat
from broker.edge.session.watchdog import BODY_FLOOR, BREATH_BYTES, LONGEST_S, SECOND_LOOK_S, Watch


class Client:
    """A session with clocks turned by hand; `log` is what became of it."""

    def __init__(self, handshake_s: float = 10.0) -> None:
        self.now = 100.0
        self.due: dict[object, tuple[float, Any]] = {}
        self.log: list[Any] = []
        self.closed = False
        self.bytes_in = 0
        self.acceptor = SimpleNamespace(handshake_timeout_s=handshake_s)
        self.channel = SimpleNamespace(peer="1.2.3.4:5")
        self.wire = SimpleNamespace(mid_frame=False, eols=0)
        self.inbound = SimpleNamespace(
            reading=True, large=None, pause_reading=lambda why: self.log.append(("hold", why)),
            resume_reading=lambda why: self.log.append(("release", why)),
        )  # fmt: skip
        self.outbound = SimpleNamespace(nbytes=0, writable=True, write=self._write, flush=lambda: None)
        settings = SimpleNamespace(edge=SimpleNamespace(frame_timeout_s=30.0, max_eol_per_s=100))
        self.edge = SimpleNamespace(
            clock=SimpleNamespace(monotonic=lambda: self.now), beats=self, settings=settings,
            holding=SimpleNamespace(note=lambda _: None),
        )  # fmt: skip
        self.watch = Watch(self)  # type: ignore[arg-type]

    def _write(self, data: bytes) -> None:
        self.log.append((self.now, data))
        self.outbound.nbytes += len(data)

    def fail(self, code: Code, detail: str) -> None:
        self.log.append(code)
        self.closed = True
        self.watch.stop()

    def deadline(self, at: float, call: Any) -> object:
        handle = object()
        self.due[handle] = (at, call)
        return handle

    def cancel(self, handle: object) -> None:
        self.due.pop(handle, None)

    def soon(self, call: Any) -> None:
        self.due[object()] = (self.now, call)

    def until(self, at: float) -> None:
        while self.due and min(when for when, _ in self.due.values()) <= at:
            handle = min(self.due, key=lambda one: self.due[one][0])
            self.now, call = self.due.pop(handle)
            call()
        self.now = at


def test_who_does_not_log_in_is_ended_on_time_and_who_does_is_not():
    late, early, free = Client(), Client(), Client(0)
    late.until(109.9)
    assert late.log == []
    late.until(110)
    assert late.log == [Code.LOGIN_TIMEOUT] and late.due == {}
    early.watch.connected(HeartBeat(0, 0, None))
    early.until(10_000)
    assert early.log == [] == free.log and early.due == {} == free.due


@pytest.mark.parametrize("busy", [False, True])
def test_a_beat_is_never_later_than_was_promised(busy):
    client = Client()
    client.watch.connected(HeartBeat(1000, 0, None))
    assert client.watch.told == {"sends_every_s": 1.0, "gone_after_s": 0.0}
    if busy:
        client.until(100.3)
        client.outbound.nbytes += 7
    client.until(110)
    times = [100.3] * busy + [at for at, data in client.log if data == b"\n"]
    assert len(times) > 9 and max(b - a for a, b in itertools.pairwise(times)) <= 0.751


def test_nothing_is_added_for_a_client_that_does_not_read():
    client = Client()
    client.outbound.writable = False
    client.watch.connected(HeartBeat(1000, 0, None))
    client.until(110)
    assert client.log == []


def test_a_silent_client_is_looked_at_twice_and_then_ended():
    client = Client()
    client.watch.connected(HeartBeat(0, 2000, None))
    client.until(102 + SECOND_LOOK_S - 0.01)
    assert client.log == []
    client.until(102 + SECOND_LOOK_S)
    assert client.log == [Code.HEARTBEAT_MISSED]


def test_a_read_between_the_two_looks_saves_it():
    client = Client()
    client.watch.connected(HeartBeat(0, 2000, None))
    client.until(102.05)
    client.watch.after_read()
    client.until(104)
    assert client.log == []
    client.until(105)
    assert client.log == [Code.HEARTBEAT_MISSED]


def test_while_it_is_us_who_do_not_read_its_time_stands_still():
    client = Client()
    client.watch.connected(HeartBeat(0, 2000, None))
    client.inbound.reading = False
    client.until(200)
    assert client.log == []
    client.inbound.reading = True
    client.until(204.5)
    assert client.log == [Code.HEARTBEAT_MISSED]


def test_no_deadline_is_further_away_than_a_loop_can_count():
    client = Client()
    client.watch.connected(HeartBeat(0, 1 << 60, None))
    assert [at for at, _ in client.due.values()] == [100 + LONGEST_S]


def test_a_frame_that_has_begun_ends_in_time_and_a_large_one_comes_at_a_pace():
    client = Client(0)
    client.wire.mid_frame = True
    client.watch.after_read()
    client.until(129)
    client.wire.mid_frame = False
    client.watch.after_read()
    client.until(500)
    assert client.log == []
    client.wire.mid_frame, client.inbound.large = True, object()
    client.watch.after_read()
    for at in (530, 560):
        client.bytes_in += BODY_FLOOR
        client.until(at)
    assert client.log == []
    client.bytes_in += BODY_FLOOR - 1
    client.until(590)
    assert client.log == [Code.FRAME_TIMEOUT]


def test_empty_lines_are_a_flood_when_there_is_hardly_anything_else():
    def read(eols: int, nbytes: int, after_s: float) -> list[Any]:
        client = Client(0)
        client.now += after_s
        client.wire.eols, client.bytes_in = eols, nbytes
        client.watch.after_read()
        return client.log

    assert read(101, 150, 0.5) == [Code.HEARTBEAT_FLOOD]
    assert read(100, 100, 0.5) == [], "so many are allowed"
    assert read(101, 150, 2.0) == [], "in more than a second"
    assert read(101, 1000, 0.5) == [], "one behind each frame"


def test_who_sends_much_waits_for_a_turn_of_the_owners():
    client = Client(0)
    client.bytes_in = BREATH_BYTES
    client.watch.after_read()
    assert client.log == []
    client.bytes_in += 1
    client.watch.after_read()
    client.until(client.now)
    assert client.log == [("hold", "breath"), ("release", "breath")]
    client.bytes_in += 10
    client.watch.after_read()
    assert len(client.log) == 2
