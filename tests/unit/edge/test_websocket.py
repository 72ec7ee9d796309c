"""The WebSocket shell, seen by a good client (the websockets package) and by a raw socket: what comes in and goes out,
and how it ends."""

from __future__ import annotations

import asyncio
import struct

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from broker.core.reasons import Reason
from broker.edge.transport import tcp
from tests.harness.shells import Edge, both_loops, closed, listening, run
from tests.harness.waiting import eventually

from .ws_client import BINARY, CLOSE, CONT, PING, PONG, STOMP, TEXT, WS, Raw, masked, url


@both_loops
@pytest.mark.parametrize(
    ("offered", "chosen"),
    [(STOMP, "v12.stomp"), (STOMP[:2], "v11.stomp"), (["mqtt", *STOMP[:1]], "v10.stomp"), (["mqtt"], None)],
)  # fmt: skip
def test_the_highest_stomp_subprotocol_offered_is_echoed(
    kind: str, offered: list[str] | None, chosen: str | None
) -> None:
    async def main() -> None:
        async with listening(Edge(), WS) as listeners, connect(url(listeners), subprotocols=offered) as client:
            assert client.subprotocol == chosen

    run(kind, main())


@both_loops
def test_text_and_binary_come_in_and_go_out_by_their_content(kind: str) -> None:
    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: s.channel.write_frames([b"ascii\0", "grüße\0".encode(), b"\xff\0", b"\n"]))
        async with listening(edge, WS) as listeners, connect(url(listeners), subprotocols=STOMP) as client:
            await client.send("text é")
            assert [await client.recv() for _ in range(4)] == ["ascii\0", "grüße\0", b"\xff\0", "\n"]
            await client.send(b"binary \xff")
            await client.recv()
            session = await edge.sessions.get()
            assert session.received == ["text é".encode(), b"binary \xff"]
            assert (session.channel.transport_name, session.channel.framed) == ("ws", True)

    run(kind, main())


@both_loops
def test_all_of_a_session_is_of_the_kind_that_the_client_spoke_first(kind: str) -> None:
    """@stomp/stompjs with forceBinaryWSFrames sends its heart-beats as text all the same."""

    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: s.channel.write_frames([b"MESSAGE\n\n\0", b"\n"]))
        async with listening(edge, WS) as listeners, connect(url(listeners)) as client:
            for sent in (b"CONNECT", "\n", b"SEND"):
                await client.send(sent)
                assert [await client.recv(), await client.recv()] == [b"MESSAGE\n\n\0", b"\n"]

    run(kind, main())


@both_loops
def test_messages_of_one_read_are_one_receive_and_fragments_do_not_wait_for_the_end(kind: str) -> None:
    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: None)
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners)
            raw.writer.write(masked(TEXT, b"SEND\n") + masked(BINARY, b"\nbo") + masked(TEXT, b"dy\0SEND", fin=False))
            session = await edge.sessions.get()
            await eventually(lambda: session.received)
            assert session.received == [b"SEND\n\nbody\0SEND"]
            raw.writer.write(masked(PING, b"?") + masked(CONT, b"\n\n\0"))
            assert await raw.frame() == (0x80 | PONG, b"?")
            assert session.received[1:] == [b"\n\n\0"]
            await closed(raw.writer)

    run(kind, main())


@both_loops
def test_a_frame_cut_anywhere_is_the_same_frame(kind: str) -> None:
    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: None)
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners)
            stream = masked(TEXT, b"a" * 200) + masked(BINARY, b"\xff" * 3)
            for i in range(len(stream)):
                raw.writer.write(stream[i : i + 1])
                await raw.writer.drain()
                await asyncio.sleep(0)
            session = await edge.sessions.get()
            await eventually(lambda: len(session.data) >= 203)
            assert session.data == b"a" * 200 + b"\xff" * 3
            await closed(raw.writer)

    run(kind, main())


@both_loops
@pytest.mark.parametrize("compression", ["deflate", None])
def test_frames_of_every_length_arrive_whole(kind: str, compression: str | None) -> None:
    sizes = [0, 1, 125, 126, 1023, 1024, 65535, 65536, 300_000]

    async def main() -> None:
        def answer(session: object, data: bytes) -> None:
            session.channel.write_frames([b"m" * n for n in sizes])

        async with (
            listening(Edge(on_receive=answer), WS) as listeners,
            connect(url(listeners), compression=compression) as client,
        ):
            await client.send("x" * 5000)
            assert [len(await client.recv()) for _ in sizes] == sizes

    run(kind, main())


@both_loops
def test_compression_works_both_ways_and_keeps_no_context(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, WS) as listeners, connect(url(listeners), compression="deflate") as client:
            extension = client.response.headers["Sec-WebSocket-Extensions"]
            assert "server_no_context_takeover" in extension
            assert "client_no_context_takeover" in extension
            await client.send("frame " * 2000)
            echoed = ""
            while len(echoed) < 12_000:
                echoed += await client.recv()
            assert echoed == "frame " * 2000

    run(kind, main())


@both_loops
@pytest.mark.parametrize("text", [True, False])
def test_a_large_body_is_one_message_and_heart_beats_stay_out_of_it(kind: str, text: bool) -> None:
    async def main() -> None:
        def answer(session: object, data: bytes) -> None:
            channel = session.channel
            assert channel.texts
            channel.write_part(b"MESSAGE\n\n", True, False, text)
            channel.write_frames([b"\n"])
            channel.write_part(b"body", False, False)
            channel.write_part(b"\0", False, True)
            channel.write_frames([b"\n"])

        async with listening(Edge(on_receive=answer), WS) as listeners, connect(url(listeners)) as client:
            await client.send("x")
            assert await client.recv() == ("MESSAGE\n\nbody\0" if text else b"MESSAGE\n\nbody\0")
            assert await client.recv() == "\n"

    run(kind, main())


@both_loops
@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.CLIENT_DISCONNECT, 1000),
        (Reason.SHUTDOWN, 1001),
        (Reason.PROTOCOL_ERROR, 1002),
        (Reason.LOGIN_FAILED, 1008),
        (Reason.FRAME_TOO_LARGE, 1009),
        (Reason.INTERNAL, 1011),
    ],
)
def test_the_error_frame_comes_before_the_close_frame(kind: str, reason: Reason, code: int) -> None:
    async def main() -> None:
        def refuse(session: object, data: bytes) -> None:
            session.channel.write_frames([b"ERROR\n\n\0"])
            session.channel.close(reason)

        edge = Edge(on_receive=refuse)
        async with listening(edge, WS) as listeners, connect(url(listeners)) as client:
            await client.send("NONSENSE\n\n\0")
            assert await client.recv() == "ERROR\n\n\0"
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert (client.close_code, client.close_reason) == (code, reason.value)
            session = await edge.sessions.get()
            await session.over.wait()
            assert session.calls == ["lost"]
            assert session.channel.reason is None

    run(kind, main())


@both_loops
def test_a_client_that_closes_is_answered_and_the_session_is_told(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners)
            raw.writer.write(masked(TEXT, b"last words") + masked(CLOSE, struct.pack("!H", 1000) + b"bye"))
            frames = [await raw.frame()]
            assert frames[-1] == (0x80 | CLOSE, struct.pack("!H", 1000) + b"bye")
            assert await raw.reader.read() == b""
            session = await edge.sessions.get()
            await session.over.wait()
            assert (session.data, session.calls, session.channel.reason) == (b"last words", ["eof", "lost"], None)
            await closed(raw.writer)

    run(kind, main())


@both_loops
def test_a_client_that_vanishes_ends_the_session(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners)
            raw.writer.write(masked(TEXT, b"half", fin=False))
            await closed(raw.writer)
            session = await edge.sessions.get()
            await session.over.wait()
            assert session.calls.count("lost") == 1

    run(kind, main())


@both_loops
def test_a_client_that_does_not_answer_the_close_is_cut(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "LINGER_S", 0.05)

    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: s.channel.close(Reason.SHUTDOWN))
        async with listening(edge, WS) as listeners:
            raw = await Raw.open(listeners)
            raw.writer.write(masked(TEXT, b"x"))
            session = await edge.sessions.get()
            raw.writer.write(masked(TEXT, b"still talking"))
            await asyncio.wait_for(session.over.wait(), 30)
            assert session.data in (b"x", b"xstill talking")  # one read or two: after close() nothing comes
            assert len(session.received) == 1
            await closed(raw.writer)

    run(kind, main())
