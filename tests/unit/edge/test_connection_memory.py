"""What connections hold together: who is asked to wait, who ends, and who does not notice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.core.memory import Memory
from broker.core.reasons import Reason
from broker.edge.session.session import Session
from broker.edge.transport import connection_memory
from broker.edge.transport.connection_memory import Holding
from tests.harness.waiting import eventually

from .bench import Bench, Wire

KIB = 1024


class Tight(Bench):
    """An edge with so much memory for its connections; a look when the test says so."""

    def __init__(self, limit: int, **edge: Any) -> None:
        super().__init__(**edge)
        self.memory = Memory(limit)
        self.edge.holding = Holding(self.edge, self.memory)

    def look(self) -> None:
        self.edge.holding._look()

    def unread(self, nbytes: int) -> tuple[Session, Wire]:
        """A client that does not read so much."""
        session, wire = self.session()
        wire.waiting = nbytes
        session.pause_writing()
        return session, wire


def begun(nbytes: int) -> bytes:
    """A frame without its end."""
    return b"SEND\ndestination:/queue/q\n\n" + b"x" * nbytes


def opened(session: Session, kib: int) -> None:
    """A transaction that holds so much."""
    session.receive(b"BEGIN\ntransaction:t\n\n\0")
    session.receive((b"SEND\ndestination:/queue/q\ntransaction:t\n\n" + b"y" * 540 + b"\0") * kib)
    assert 0.9 * kib < session.transacted / KIB < 1.1 * kib


ABORT = b"ABORT\ntransaction:t\n\n\0"


def held(session: Session) -> bool:
    return connection_memory.HOLD in (session.inbound._holds or set())


async def test_every_kind_is_counted_until_it_is_gone() -> None:
    bench = Tight(1000 * KIB)
    session, _ = bench.session()
    session.receive(begun(500))
    other, _ = bench.session()
    other.receive(b"BEGIN\ntransaction:t\n\n\0")
    other.receive(b"SEND\ndestination:/queue/q\ntransaction:t\n\n" + b"y" * 700 + b"\0")
    third, waiting = bench.unread(3000)
    bench.look()
    assert 4200 < bench.memory.sessions < 5500
    session.receive(b"\0")
    other.receive(b"ABORT\ntransaction:t\n\n\0")
    waiting.waiting = 0
    third.resume_writing()
    bench.look()
    assert bench.memory.sessions == 0 and not bench.edge.holding.sessions


async def test_a_large_body_on_its_way_is_counted() -> None:
    bench = Tight(1000 * KIB)
    session, _ = bench.session()
    session.receive(b"SEND\ndestination:/queue/q\ncontent-length:5000\n\n" + b"x" * 2000)
    bench.port.writers[0].pending = 2000
    bench.look()
    assert bench.memory.sessions >= 2000


async def test_near_the_bound_those_who_hold_most_are_not_read_until_there_is_room() -> None:
    bench = Tight(10 * KIB)
    small = [bench.session()[0] for _ in range(3)]
    for session in small:
        session.receive(begun(500))
    large, _ = bench.session()
    opened(large, 7)
    bench.look()
    assert held(large) and not any(map(held, small)) and not large.closed
    bench.look()
    assert held(large) and bench.edge.holding.paused == 1
    large.receive(ABORT)
    bench.look()
    assert not held(large) and not large.closed


async def test_whoever_holds_most_ends_by_name_beyond_the_bound_and_nobody_else() -> None:
    bench = Tight(10 * KIB)
    small = [bench.session() for _ in range(3)]
    for session, _ in small:
        session.receive(begun(500))
    large, wire = bench.session()
    opened(large, 11)
    bench.look()
    assert b"error-code:1610" in wire.sent and wire.closed is Reason.MEMORY_FULL
    assert not any(session.closed for session, _ in small)
    bench.look()
    assert bench.memory.sessions < 2000 and bench.edge.counters.closed == {Reason.MEMORY_FULL: 1}


async def test_a_client_that_reads_nothing_is_cut() -> None:
    bench = Tight(10 * KIB)
    _, polite = bench.unread(1000)
    _, wire = bench.unread(20_000)
    bench.look()
    assert wire.closed == "aborted" and polite.closed is None


async def test_to_wait_in_vain_ends_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_memory, "PATIENCE_S", 0.0)
    bench = Tight(10 * KIB)
    small, _ = bench.session()
    small.receive(begun(500))
    large, wire = bench.session()
    opened(large, 8)
    bench.look()
    assert large.closed and b"error-code:1610" in wire.sent and not small.closed


async def test_queues_that_hold_most_leave_connections_a_quarter() -> None:
    bench = Tight(10 * KIB)
    bench.memory.queues = 9 * KIB
    session, _ = bench.session()
    opened(session, 1)
    bench.look()
    assert not held(session) and not session.closed
    session.receive(begun(900))
    session.receive(b"\n" + b"x" * 90)
    bench.look()
    assert 2048 < bench.memory.sessions < 2560
    assert held(session) and not session.closed


async def test_many_are_looked_at_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_memory, "PIECE", 10)
    monkeypatch.setattr(connection_memory, "LOOK_S", 3600.0)  # none by itself, however slow the machine is
    seen: list[Session] = []
    monkeypatch.setattr(Session, "held", property(lambda session: seen.append(session) or 7))
    bench = Tight(1000 * KIB)
    for _ in range(25):
        bench.session()[0].receive(begun(5))
    bench.look()
    assert len(seen) == 10 and bench.memory.sessions == 0
    for _ in range(4):
        await asyncio.sleep(0)
    assert len(seen) == 25 and bench.memory.sessions == 175


async def test_who_is_gone_is_forgotten_and_without_a_bound_nobody_is_noted() -> None:
    bench = Tight(10 * KIB)
    session, _ = bench.session()
    session.receive(begun(9000))
    bench.look()
    session.lost()
    assert not bench.edge.holding.sessions and not bench.edge.holding._held
    free = Bench()
    free.session()[0].receive(begun(9000))
    assert not free.edge.holding.sessions


async def test_an_edge_looks_by_itself() -> None:
    bench = Tight(1000 * KIB)
    session, _ = bench.session()
    session.receive(begun(500))
    await eventually(lambda: bench.memory.sessions > 0)
    session.receive(b"\0")
    await eventually(lambda: not (bench.memory.sessions or bench.edge.holding._armed))
    bench.edge.beats.stop()
