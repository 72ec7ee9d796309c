"""What one read of a client may cost before others have their turn: frames weighed by what they are, and fair turns."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from broker.core.commands import Publish
from broker.edge.session.session import BURST
from broker.edge.transport.fair_reading import FIRST, LEAST, PORTIONS, ROUND_S, Rounds

from .bench import Bench


async def test_what_was_cheap_before_lets_no_dear_frames_in_at_once() -> None:
    """The bytes of a large body cost so little that 256 KiB were a portion: of small frames that all differ, too."""
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)
    frames = [b"SEND\ndestination:/queue/%d\nreceipt:%d\n\nx\0" % (n, n) for n in range(500)]
    session.receive(b"".join(frames))
    sent = [each for each in bench.port.commands if type(each) is Publish]
    assert len(sent) <= BURST + 1
    while len(sent) < 500:
        before = len(sent)
        await asyncio.sleep(0)
        sent = [each for each in bench.port.commands if type(each) is Publish]
        assert len(sent) - before <= BURST + 1
    assert [each.address for each in sent] == [str(n) for n in range(500)]
    session.receive(b"".join(frames[:300]) + b"DISCONNECT\n\n\0")
    for _ in range(20):
        await asyncio.sleep(0)
    sent = [each for each in bench.port.commands if type(each) is Publish]
    assert len(sent) == 800 and session.leaving, "and what stands behind them comes last"


@pytest.mark.parametrize(("lines", "size", "most"), [(90, 1, 12), (80, 600, 4), (2, 10_000, 14)])
async def test_frames_with_many_headers_or_long_ones_count_as_several(lines: int, size: int, most: int) -> None:
    """Header blocks of 60 KB took 5 ms each, and 128 of them a turn would still take 0.1 s."""
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)

    def frame(n: int) -> bytes:
        pairs = (b"h%d-%d:%b\n" % (n, line, b"\\c" * (size // 2 or 1)) for line in range(lines))
        return b"SEND\ndestination:/queue/%d\n%b\n\0" % (n, b"".join(pairs))

    def sent() -> list[str]:
        return [each.address for each in bench.port.commands if type(each) is Publish]

    session.receive(b"".join(map(frame, range(40))))
    assert 0 < len(sent()) <= most
    for _ in range(80):
        before = len(sent())
        await asyncio.sleep(0)
        assert len(sent()) - before <= most
    assert sent() == [str(n) for n in range(40)]


async def test_single_acks_of_a_read_come_in_pieces() -> None:
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)
    session.wire.receive(b"".join(b"ACK\nid:%d\n\n\0" % n for n in range(9000)))
    assert session.wire.more
    taken = 9000 - session.wire.held // len(b"ACK\nid:9999\n\n\0")
    assert taken <= 16 * BURST + 1024


@pytest.mark.parametrize(
    ("frame", "most"),
    [
        (b"SEND\ndestination:/queue/q\ncontent-length:1\n\nx\0", 64 * BURST + 4096),
        (b"SEND\ndestination:/queue/q\n\nx\0", 16 * BURST + 16),
    ],
)
async def test_like_frames_are_counted_as_well(frame: bytes, most: int) -> None:
    """4 MiB of them, which compressed are 4 KiB of a WebSocket, were one step of 0.4 s."""
    bench = Bench()
    session, _ = bench.session()
    session.receive(frame * 40_000)

    def sent() -> int:
        return sum([len(each.run.records) for each in bench.port.commands if type(each) is Publish])

    before = 0
    for _ in range(60):
        assert sent() - before <= most
        before = sent()
        await asyncio.sleep(0)
    assert sent() == 40_000


@pytest.mark.parametrize("line", [b"\n", b"\r\n", b"\n\r\n", b"\n\n\n\r\n"])
async def test_empty_lines_are_passed_together(line: bytes) -> None:
    """4 MiB of them took 0.9 s of computing, each by itself, and 3.5 s with LF and CR LF by turns."""
    bench = Bench()
    session, _ = bench.session()
    lines = 0

    def traced(frame: Any, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return traced

    before = session.wire.eols
    sys.settrace(traced)
    try:
        session.wire.receive(line * 50_000 + b"SEND\ndestination:/queue/q\n\nx\0")
    finally:
        sys.settrace(None)
    assert session.wire.eols - before == 50_000 * line.count(b"\n")
    assert lines < 1000


async def test_and_counted() -> None:
    """4 MiB with LF and CR LF by turns take 0.1 s even so."""
    wire = Bench().session()[0].wire
    before = wire.eols
    wire.receive(b"\n\r\n" * 1_000_000)
    assert wire.more and wire.eols - before < 2048 * BURST
    while wire.more:
        assert not wire.receive(b"")
    assert wire.eols - before == 2_000_000 and not wire.held


async def test_those_who_go_on_with_a_read_share_the_time_of_a_turn() -> None:
    """Each had a call of its own in every turn: forty of them made turns of 132 ms."""
    bench = Bench()
    now, log = 0.0, []
    bench.edge.rounds = Rounds(bench.edge.beats.soon, lambda: now)
    submit = bench.port.submit

    def slow(commands: list[Any]) -> None:
        nonlocal now
        now += 0.002
        log.extend(dict.fromkeys(each.session for each in commands))
        submit(commands)

    sessions = [bench.session()[0] for _ in range(20)]
    # What is learned of the first ones counts as some more. With receipts none is carried out beside others.
    frames = b"".join([b"SEND\ndestination:/queue/%d\nreceipt:r\n\nx\0" % n for n in range(4 * BURST - 16)])
    bench.port.submit = slow  # type: ignore[method-assign]
    for session in sessions:
        session.receive(frames)
    longest = 0.0
    while len(log) < 4 * 20:
        began = now
        await asyncio.sleep(0)
        longest = max(longest, now - began)
    assert longest < ROUND_S + 0.002
    order = [session.id for session in sessions]
    assert log == order * 4, "in turn"
    assert not any(session.inbound.parked for session in sessions)


async def test_who_goes_on_with_a_read_rests_while_its_owner_has_no_room() -> None:
    bench = Bench()
    session, _ = bench.session()
    bench.port.submit = lambda commands: bench.port.commands.extend(commands) or True  # type: ignore[method-assign]
    frames, learning = 3 * BURST - 8, 8  # what is learned of the first ones counts as some more
    session.receive(b"".join([b"SEND\ndestination:/queue/%d\nreceipt:r\n\nx\0" % n for n in range(frames)]))
    for sent in (1, 2, 3):
        for _ in range(5):
            await asyncio.sleep(0)
        assert sent * BURST - learning <= len(bench.port.commands) <= min(sent * (BURST + 1), frames)
        bench.edge.on_relief()
    assert session.inbound.reading


async def test_bytes_that_have_only_come_say_nothing_of_what_they_cost() -> None:
    """Of 60 KB most waited in the session: as if they were cheap, the next portion was the largest that there is."""
    bench = Bench()
    now = 0.0
    rounds = bench.edge.rounds = Rounds(bench.edge.beats.soon, lambda: now)
    session, _ = bench.session()
    frame = b"SEND\ndestination:/queue/%d\n\nx\0"
    reader = SimpleNamespace(portion=FIRST)
    began = rounds.began()
    session.receive(b"".join([frame % n for n in range(1000, 3000)]))
    now += ROUND_S / PORTIONS
    rounds.spent(reader, began, 2000 * len(frame % 1000))
    assert LEAST <= reader.portion <= (BURST + 1) * len(frame % 1000)


@pytest.mark.parametrize("end", [b"", b"DISCONNECT\n\n\0"])
async def test_who_goes_while_frames_wait_for_their_turn_has_sent_them(end: bytes) -> None:
    """TLS knows no half-closed connection: it is lost while most of 2,000 SENDs wait, and 735 of them came."""
    bench = Bench()
    session, _ = bench.session()
    bench.subscribed(session)
    frames = [b"SEND\ndestination:/queue/%d\n\nx\0" % n for n in range(500)]
    session.receive(b"".join(frames) + end)
    session.lost()
    sent = [each.address for each in bench.port.commands if type(each) is Publish]
    assert sent == [str(n) for n in range(500)]
    assert type(bench.port.commands[-1]) is not Publish, "its end comes behind them"
