"""WebSocket clients that break the rules: their close codes, and what they cost."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest

from broker.core.reasons import Reason
from tests.harness.shells import Edge, both_loops, closed, listening, run
from tests.harness.waiting import eventually

from .ws_client import BINARY, CLOSE, CONT, PING, PONG, TEXT, WS, Raw, masked


def deflated(payload: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return (packer.compress(payload) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate"
MiB = 1 << 20


@both_loops
@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (masked(TEXT, b"x", mask=False), 1002),
        (masked(3, b"reserved opcode"), 1002),
        (masked(TEXT, b"x", rsv1=True), 1002),
        (masked(PING, b"p" * 126), 1002),
        (masked(PING, b"p", fin=False), 1002),
        (masked(CONT, b"of nothing"), 1002),
        (masked(TEXT, b"a", fin=False) + masked(TEXT, b"b"), 1002),
        (masked(CLOSE, b"\x03"), 1002),
        (masked(CLOSE, struct.pack("!H", 1005)), 1002),
        (masked(CLOSE, struct.pack("!H", 1000) + b"\xff"), 1007),
        (struct.pack("!BBQ", 0x82, 0xFF, 1 << 63) + b"\0\0\0\0", 1002),
    ],
    ids=[
        "nomask", "opcode", "rsv1", "longping", "fragping", "cont", "interleaved", "shortclose", "badcode",
        "closeutf8", "petabyte",
    ],
)  # fmt: skip
def test_violations_close_with_their_code(kind: str, stream: bytes, code: int) -> None:
    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: None)
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners)
            raw.writer.write(stream)
            assert await raw.close_code() == code
            session = await edge.sessions.get()
            await session.over.wait()
            assert session.calls == ["eof", "lost"]
            assert session.channel.reason is Reason.WEBSOCKET_PROTOCOL

    run(kind, main())


@both_loops
def test_a_message_of_any_size_is_handed_on_as_it_comes(kind: str) -> None:
    """What it may hold is for STOMP to say: strangers get 64 KiB there."""

    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: None)
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners)
            message = masked(TEXT, b"0123456789" * MiB)
            raw.writer.write(message[: 5 * MiB])
            session = await edge.sessions.get()
            await eventually(lambda: len(session.data) == 5 * MiB - 14)
            raw.writer.write(message[5 * MiB :] + masked(PING, b""))
            assert await raw.frame() == (0x80 | PONG, b"")
            assert session.data == b"0123456789" * MiB
            assert max(map(len, session.received)) <= MiB
            await closed(raw.writer)

    run(kind, main())


@both_loops
@pytest.mark.parametrize("rest", [b"x" * 1001, b"x" * 400], ids=["whole", "on its way"])
def test_a_frame_over_the_limit_is_refused_by_an_error_frame(kind: str, rest: bytes) -> None:
    """Before the close frame; what was good in front of it counts, and the client's own close frame is found behind."""

    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: None)
        async with listening(edge, replace(WS, ws_max_message_bytes=1000)) as listeners:
            raw = await Raw.open(listeners)
            raw.writer.write(masked(TEXT, b"good" * 250) + masked(TEXT, b"x" * 1001)[: 8 + len(rest)])
            assert await raw.frame() == (0x81, b"ERROR\n\n\0")
            raw.writer.write(b"x" * (1001 - len(rest)))
            assert await raw.close_code() == 1009
            session = await edge.sessions.get()
            await session.over.wait()
            assert (session.data, session.calls) == (b"good" * 250, ["FRAME_TOO_LARGE", "lost"])

    run(kind, main())


@both_loops
def test_what_was_good_before_a_violation_is_received(kind: str) -> None:
    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: None)
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners)
            raw.writer.write(masked(TEXT, b"good") + masked(TEXT, b"bad", mask=False) + masked(TEXT, b"after"))
            assert await raw.close_code() == 1002
            assert (await edge.sessions.get()).received == [b"good"]

    run(kind, main())


@both_loops
def test_a_compressed_bomb_reaches_the_session_piece_by_piece(kind: str) -> None:
    """Which ends it at the first piece that breaks a rule of STOMP; nothing more is inflated then."""

    async def main() -> None:
        def one(session: object, data: bytes) -> None:
            session.channel.close(Reason.FRAME_TOO_LARGE)

        edge = Edge(on_receive=one)
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners, DEFLATE)
            raw.writer.write(masked(BINARY, deflated(b"\0" * 50 * MiB), rsv1=True))
            assert await raw.close_code() == 1009
            session = await edge.sessions.get()
            assert [len(piece) <= 1.1 * MiB for piece in session.received] == [True]

    run(kind, main())


@both_loops
def test_many_small_bombs_reach_the_session_piece_by_piece(kind: str) -> None:
    """Each message is legal; together one read would inflate to far more than a session should get at once."""

    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: None)
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners, DEFLATE)
            bomb = masked(BINARY, deflated(b"\0" * 64 * 1024), rsv1=True)
            count = 1000
            raw.writer.write(bomb * count + masked(PING, b""))
            assert await raw.frame() == (0x80 | PONG, b"")
            session = await edge.sessions.get()
            assert len(session.data) == count * 64 * 1024
            assert max(map(len, session.received)) <= 1.1 * MiB, "one step"
            await closed(raw.writer)

    run(kind, main())


@both_loops
def test_an_endless_message_of_fragments_is_streamed_not_gathered(kind: str) -> None:
    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: None)
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners)
            raw.writer.write(masked(BINARY, b"f" * 60_000, fin=False))
            for _ in range(50):
                raw.writer.write(masked(CONT, b"f" * 60_000, fin=False))
            raw.writer.write(masked(PING, b""))
            assert await raw.frame() == (0x80 | PONG, b"")
            session = await edge.sessions.get()
            assert len(session.data) == 51 * 60_000
            assert max(map(len, session.received)) <= MiB
            await closed(raw.writer)

    run(kind, main())


@both_loops
def test_a_client_that_pings_and_never_reads_does_not_fill_our_memory(kind: str) -> None:
    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: None)
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners)
            raw.reader._transport.pause_reading()
            session = await edge.sessions.get()
            pings = masked(PING, b"p" * 125) * 1000
            for _ in range(120):  # 15 MB of pongs
                raw.writer.write(pings)
                await raw.writer.drain()
            raw.writer.write(masked(TEXT, b"done"))
            await eventually(lambda: session.received)
            assert session.channel.buffered() < 1 * MiB
            session.channel.abort()
            await session.over.wait()
            raw.reader._transport.resume_reading()
            await closed(raw.writer)

    run(kind, main())
