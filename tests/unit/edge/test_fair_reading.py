"""Who sends much is read in portions, in turn, so much per turn of the loop; who sends little never waits."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import replace

import pytest

from broker.config.acceptor import AcceptorSettings
from broker.core.reasons import Reason
from broker.edge.transport import fair_reading, tcp
from broker.edge.transport.fair_reading import (
    FIRST,
    LEAST,
    PORTIONS,
    ROUND_S,
    SHORT_FOR_S,
    SHORT_ROUND_S,
    SMALL,
    SMALL_S,
    Rounds,
)
from broker.edge.transport.tcp import TcpChannel
from tests.harness.shells import OFF, Edge, both_loops, closed, listening, run

STEP_S = 0.005
"""docs/adr/0009"""
TCP = replace(OFF, port=0)


class Transport:
    """Knows whether it is read."""

    def __init__(self):
        self.reading, self.closing, self.changes = True, False, 0

    def get_extra_info(self, name):
        return ("10.0.0.1", 4711) if name == "peername" else None

    def set_write_buffer_limits(self, high, low): ...
    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return self.closing

    def can_write_eof(self):
        return True

    def write_eof(self): ...
    def abort(self):
        self.closing = True

    def pause_reading(self):
        assert self.reading
        self.reading = False
        self.changes += 1

    def resume_reading(self):
        assert not self.reading
        self.reading = True


class World:
    """A loop turned by hand, whose clock moves by what bytes cost."""

    user = "ada"

    def __init__(self, cost=1e-8):
        self.now, self.cost = 0.0, cost
        self.ready = deque()
        self.total = 0.0
        self.rounds = Rounds(self.ready.append, lambda: self.now, self)
        self.log = []
        self.sessions = []

    def open(self, channel):
        session = Session(self, channel)
        self.sessions.append(session)
        return session

    def call_later(self, seconds, callback, *args):
        return asyncio.TimerHandle(0, callback, args, self)

    def get_debug(self):
        return False

    def _timer_handle_cancelled(self, handle): ...

    def connect(self):
        channel = TcpChannel(self, self, "tcp", AcceptorSettings())
        channel.connection_made(Transport())
        return channel

    def turn(self):
        """One turn of the loop. Seconds."""
        began = self.now
        for _ in range(len(self.ready)):
            self.ready.popleft()()
        return self.now - began


class Session:
    def __init__(self, world, channel):
        self.world, self.channel, self.got, self.ends = world, channel, b"", []
        self.whose = world.user

    def receive(self, data):
        self.world.now += len(data) * self.world.cost
        self.world.total += len(data) * self.world.cost
        self.got += data
        self.world.log.append((self.channel.id, len(data)))

    def eof(self):
        self.ends.append(len(self.got))

    def lost(self):
        self.ends.append(len(self.got))


def test_alone_a_flood_is_read_as_fast_as_it_comes():
    world = World(cost=5e-9)
    flood = world.connect()
    for _ in range(20):
        for _ in range(2):
            flood.data_received(b"x" * 200_000)
        world.turn()
    assert flood._transport.changes <= 2, "its portion is found with the first ones"
    assert len(world.sessions[0].got) == 8_000_000


def test_many_floods_share_the_time_of_a_turn_and_small_reads_do_not_wait():
    world = World(cost=5e-8)  # 64 KiB take 3 ms
    floods = [world.connect() for _ in range(10)]
    polite = world.connect()
    longest = 0.0
    for n in range(300):
        began = world.now
        for flood in floods:
            if flood._transport.reading:
                flood.data_received(b"%03d" % n * 60_000)
        polite.data_received(b"hello")
        assert world.sessions[-1].got == b"hello" * (n + 1)
        world.turn()
        longest = max(longest, world.now - began) if n > 20 else 0.0
    assert longest < 3 * ROUND_S, "ten times 9 ms without turns"
    shares = [len(session.got) for session in world.sessions[:-1]]
    assert min(shares) > 0.8 * max(shares)


def test_turns_are_short_while_somebody_sends_little_and_long_when_nobody_does():
    """His message goes through three turns, and each was 3 ms of a flood's reads: 12 ms in the middle."""
    world = World(cost=5e-8)
    flood, polite = world.connect(), world.connect()

    def turns(count, every):
        spans = []
        for n in range(count):
            if flood._transport.reading:
                flood.data_received(b"x" * 500_000)
            if every and n % every == 0:
                polite.data_received(b"h" * 1000)  # 50 µs
            spans.append(world.turn())
        return spans

    assert max(turns(100, 0)[20:]) > 0.8 * ROUND_S
    assert max(turns(100, 5)[20:]) <= SHORT_ROUND_S + SHORT_ROUND_S / PORTIONS + 1e-4
    after = turns(300, 0)
    long = [at for at, span in enumerate(after) if span > 0.8 * ROUND_S]
    assert sum(after[: long[0]]) == pytest.approx(SHORT_FOR_S, rel=0.1), "as before, when he has been silent for that"
    assert flood.portion > LEAST


@pytest.mark.parametrize("user", ["ada", "bob"])
def test_many_small_reads_are_a_flood_too(user):
    """400 connections that write 3.9 KB each: a neighbour waited 20 ms in the middle, 280 at worst."""
    world = World(cost=4e-8)  # 3,900 bytes take 0.16 ms
    many = [world.connect() for _ in range(400)]
    world.user = user
    polite = world.connect()
    waited = []
    for n in range(200):
        began = world.now
        for one in many:
            if one._transport.reading:
                one.data_received(b"x" * 3_900)
        if polite._transport.reading:
            asked = world.now
            polite.data_received(b"hello")
        world.turn()
        if len(world.sessions[-1].got) == 5 * (len(waited) + 1):
            waited.append(world.now - asked)
        if n > 3:
            assert world.now - began < ROUND_S + 2 * SMALL_S + STEP_S, "64 ms when none of them waited"
    assert len(waited) > 190 and max(waited) < STEP_S, "he has his turn beside 400, also when they are his own"
    shares = [len(session.got) for session in world.sessions[:-1]]
    assert max(shares) - min(shares) <= 2 * 3_900, "and each of hers has its own"


def test_who_asks_does_not_stand_behind_the_floods_of_a_thousand_users():
    """He waited 450 ms, until each of them had had a turn."""
    world = World(cost=4e-8)
    many = []
    for number in range(1000):
        world.user = f"u{number}"
        many.append(world.connect())
    world.user = "polite"
    polite = world.connect()
    waited, answers = [], 0
    for _ in range(300):
        for one in [*many[::2], polite, *many[1::2]]:
            if one is polite and one._transport.reading:
                asked = world.now
                polite.data_received(b"hello")
            elif one._transport.reading:
                one.data_received(b"x" * 3_900)
        world.turn()
        if len(world.sessions[-1].got) > answers:
            answers = len(world.sessions[-1].got)
            waited.append(world.now - asked)
    assert len(waited) > 290 and max(waited[2:]) < 2 * STEP_S
    shares = [len(session.got) for session in world.sessions[:-1]]
    assert min(shares) > 0, "they have their own half of each turn"


def test_who_is_closed_or_not_to_be_read_keeps_nobody_waiting():
    world = World(cost=1e-6)
    many = [world.connect() for _ in range(20)]
    for one in many:
        one.pause_reading()
        one.data_received(b"x" * 1000)  # decrypted before
    assert any(not session.got for session in world.sessions)
    for one in many:
        one.abort()
    world.turn()
    polite = world.connect()
    polite.data_received(b"hello")
    assert world.sessions[-1].got == b"hello"


def test_who_is_many_has_the_share_of_one():
    world = World(cost=5e-8)
    of_ada = [world.connect() for _ in range(20)]
    world.user = "bob"
    of_bob = world.connect()
    for n in range(300):
        for one in (*of_ada, of_bob):
            if one._transport.reading:
                one.data_received(b"%03d" % n * 60_000)
        world.turn()
    adas, bobs = sum(len(session.got) for session in world.sessions[:-1]), len(world.sessions[-1].got)
    assert 0.8 < bobs / adas < 1.25, "he had a twenty-first"


def test_small_reads_of_many_turns_never_wait():
    world = World(cost=1e-6)
    one = world.connect()
    for n in range(2000):
        one.data_received(b"x" * 1000)  # a third of what a turn may
        world.turn()
        assert len(world.sessions[0].got) == 1000 * (n + 1) and not one._transport.changes


def test_no_step_is_long_however_much_the_bytes_of_a_read_cost():
    """The first read of a connection, too, of which nothing is known yet."""
    world = World(cost=7e-7)  # ACKs in a transaction
    flood = world.connect()
    flood.data_received(b"x" * 256 * 1024)
    world.turn()
    while flood.waits:
        world.turn()
    first, *others = [size * world.cost for _, size in world.log]
    assert first < STEP_S, "46 ms when it began with 64 KiB, 11 with 16"
    assert max(others) < STEP_S, "11 ms when it was 16 KiB at the least, 6 with 8"


def test_a_read_that_was_slow_by_accident_halves_the_portion_at_most():
    world = World(cost=0)
    flood = world.connect()
    flood.data_received(b"x" * 60_000)
    world.turn()
    before = flood.portion
    assert before > 60_000, "a cheap one opens it"
    began = world.now
    world.now += 5
    world.rounds.spent(flood, began, 60_000)
    assert flood.portion == before // 2
    for _ in range(20):
        world.rounds.spent(flood, world.now - 5, 60_000)
    assert flood.portion == LEAST


def filled(world):
    """A connection with more than a portion waiting."""
    channel = world.connect()
    channel.data_received(b"x" * (FIRST * 3))
    assert channel.waits and not channel._transport.reading
    return channel, world.sessions[-1]


def test_what_waits_is_not_read_while_its_session_does_not_want_it():
    world = World()
    channel, session = filled(world)
    channel.pause_reading()
    world.turn()
    assert session.got == b""
    channel.resume_reading()
    channel.pause_reading()
    channel.resume_reading()
    for _ in range(9):
        world.turn()
    assert len(session.got) == FIRST * 3
    assert channel._transport.reading


def test_what_was_read_before_the_end_counts():
    world = World()
    channel, session = filled(world)
    channel.eof_received()
    assert session.ends == [FIRST * 3]
    channel, session = filled(world)
    channel.connection_lost(None)
    assert session.ends == [FIRST * 3]
    world.turn()


def test_nothing_is_received_after_close_and_the_peer_is_read_to_its_end():
    world = World()
    for end in (lambda channel: channel.close(Reason.SHUTDOWN), lambda channel: channel.abort()):
        channel, session = filled(world)
        end(channel)
        world.turn()
        channel.data_received(b"y" * SMALL * 2)
        channel.connection_lost(None)
        assert session.got == b""
    channel, session = filled(world)
    channel.pause_reading()
    channel.close(Reason.SHUTDOWN)
    assert channel._transport.reading


@both_loops
@pytest.mark.parametrize("seed", [1, 2])
def test_bytes_stay_in_order_whatever_the_portions_and_pauses(kind: str, seed: int, monkeypatch) -> None:
    monkeypatch.setattr(fair_reading, "ROUND_S", 0.0001)
    monkeypatch.setattr(tcp, "SMALL", 100)
    draw = random.Random(seed)
    sent = draw.randbytes(3_000_000)

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def receive(session: object, data: bytes) -> None:
            session.channel.portion = draw.randint(50, 100_000)
            session.channel.write(data)
            if draw.random() < 0.2:
                session.channel.pause_reading()
                loop.call_soon(session.channel.resume_reading)

        edge = Edge(on_receive=receive)
        async with listening(edge, TCP) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"], limit=1 << 24)
            writer.write(sent)
            writer.write_eof()
            assert await reader.readexactly(len(sent)) == sent
            session = await edge.sessions.get()
            await closed(writer)
            await session.over.wait()

    run(kind, main())
