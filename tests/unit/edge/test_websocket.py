"""The WebSocket shell, seen by a well-behaved client (the websockets package) and by a raw socket that is not."""

from __future__ import annotations

import asyncio
import struct
import zlib
from dataclasses import replace

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from broker.core.reasons import Reason
from broker.edge import tcp
from broker.edge.upgrade import origin_allowed
from tests.harness.shells import OFF, Edge, both_loops, closed, listening, run
from tests.harness.waiting import eventually

WS = replace(OFF, ws_port=0)
STOMP = ["v10.stomp", "v11.stomp", "v12.stomp"]
TEXT, BINARY, CONT, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10


def url(listeners: object, path: str = "/") -> str:
    return f"ws://127.0.0.1:{listeners.ports['ws']}{path}"


def masked(opcode: int, payload: bytes, fin: bool = True, rsv1: bool = False, mask: bool = True) -> bytes:
    """A client frame. The masking key is zero, so the payload stays readable."""
    first = opcode | (0x80 if fin else 0) | (0x40 if rsv1 else 0)
    bit, key = (0x80, b"\0\0\0\0") if mask else (0, b"")
    length = len(payload)
    if length < 126:
        head = struct.pack("!BB", first, bit | length)
    elif length < 65536:
        head = struct.pack("!BBH", first, bit | 126, length)
    else:
        head = struct.pack("!BBQ", first, bit | 127, length)
    return head + key + payload


class Raw:
    """A WebSocket client that sends what it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, listeners: object, *headers: str, greet: bool = True) -> Raw:
        raw = cls(*await asyncio.open_connection("127.0.0.1", listeners.ports["ws"]))
        if greet:
            assert "101" in (await raw.request(*headers)).splitlines()[0]
        return raw

    async def request(self, *headers: str, path: str = "/") -> str:
        key = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
        lines = [f"GET {path} HTTP/1.1", "Host: h", "Upgrade: websocket", "Connection: Upgrade", key]
        self.writer.write("\r\n".join([*lines, "Sec-WebSocket-Version: 13", *headers, "", ""]).encode())
        return (await self.reader.readuntil(b"\r\n\r\n")).decode()

    async def frame(self) -> tuple[int, bytes]:
        """(first byte, payload) of the next server frame, which must not be masked."""
        first, length = await self.reader.readexactly(2)
        assert length < 128
        if length == 126:
            (length,) = struct.unpack("!H", await self.reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", await self.reader.readexactly(8))
        return first, await self.reader.readexactly(length)

    async def close_code(self) -> int:
        """Skips to the close frame, answers it, and sees the connection end."""
        while True:
            first, payload = await self.frame()
            if first == 0x80 | CLOSE:
                break
        self.writer.write(masked(CLOSE, payload))
        assert await self.reader.read() == b""
        await closed(self.writer)
        return struct.unpack("!H", payload[:2])[0]


# Good clients


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


# The end


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


# The HTTP request


@both_loops
@pytest.mark.parametrize(
    ("origin", "allowed", "ok"),
    [
        (None, "", True),
        ("http://127.0.0.1:8080", "", True),
        ("http://localhost", "", True),
        ("https://evil.example", "", False),
        ("null", "", False),
        ("https://app.example", "https://app.example, https://b.example/", True),
        ("https://b.example", "https://app.example, https://b.example/", True),
        ("http://localhost", "https://app.example", False),
    ],
)
def test_pages_of_foreign_origins_are_refused(kind: str, origin: str | None, allowed: str, ok: bool) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, replace(WS, ws_allowed_origins=allowed)) as listeners:
            if ok:
                async with connect(url(listeners), origin=origin) as client:
                    await client.ping()
            else:
                with pytest.raises(InvalidStatus) as refused:
                    await connect(url(listeners), origin=origin)
                assert refused.value.response.status_code == 403
                assert b"edge.ws_allowed_origins" in refused.value.response.body
                session = await edge.sessions.get()
                await session.over.wait()
                assert session.channel.reason is Reason.WEBSOCKET_PROTOCOL

    run(kind, main())


@pytest.mark.parametrize(
    ("origin", "host", "local", "ok"),
    [
        ("https://app.example", "app.example", ("10.0.0.5", 61614), True),
        ("https://app.example:8443", "APP.example:61614", ("10.0.0.5", 61614), True),
        ("https://evil.example", "app.example", ("10.0.0.5", 61614), False),
        ("https://app.example", "app.example", ("127.0.0.1", 61614), True),  # through a proxy on this machine
        ("http://evil.example", "evil.example:61614", ("127.0.0.1", 61614), False),  # DNS rebinding
        ("http://evil.example", "evil.example:61614", ("::1", 61614), False),
        ("http://evil.example", "evil.example", ("127.0.0.1", 80), False),  # a port that Host leaves out
        ("https://evil.example", "evil.example", ("127.0.0.1", 443), False),
        ("http://[::1]:80", "[::1]:61614", ("::1", 61614), True),
        ("http://app.localhost", "whatever", ("10.0.0.5", 61614), True),
        ("http://localhost.evil.example", "app.example", ("10.0.0.5", 61614), False),
        ("http://", "", ("10.0.0.5", 61614), False),
        ("http://[broken", "[broken", ("10.0.0.5", 61614), False),
    ],
)
def test_without_a_list_pages_of_the_same_host_may_connect(
    origin: str, host: str, local: tuple[str, int], ok: bool
) -> None:
    assert origin_allowed(origin, host, "", local) is ok


@both_loops
def test_only_the_configured_path_upgrades(kind: str) -> None:
    async def main() -> None:
        async with listening(Edge(), replace(WS, ws_path="/stomp")) as listeners:
            async with connect(url(listeners, "/stomp?x=1")) as client:
                await client.ping()
            with pytest.raises(InvalidStatus) as refused:
                await connect(url(listeners, "/other"))
            assert refused.value.response.status_code == 404

    run(kind, main())


@both_loops
def test_a_browser_that_looks_in_is_told_what_this_is(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, WS) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["ws"])
            writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nAccept: text/html\r\n\r\n")
            page = (await reader.read()).decode()
            assert page.startswith("HTTP/1.1 426 ")
            assert "Upgrade: websocket" in page
            assert "STOMP" in page.partition("\r\n\r\n")[2]
            session = await edge.sessions.get()
            await closed(writer)
            await session.over.wait()
            assert session.channel.reason is None

    run(kind, main())


@both_loops
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"CONNECT\naccept-version:1.2\n\n\0", b""),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n", b""),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"v" * 4000) for i in range(9)), b"431"),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", b"405"),
    ],
    ids=["stomp", "tls", "headers", "path", "nokey", "post"],
)
def test_bad_requests_are_refused_and_named(kind: str, request_bytes: bytes, status: bytes) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, WS) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["ws"])
            writer.write(request_bytes)
            answer = await reader.read()
            assert answer[9:12] == status
            await closed(writer)
            session = await edge.sessions.get()
            await session.over.wait()
            assert (session.received, session.calls) == ([], ["eof", "lost"])
            assert session.channel.reason is Reason.WEBSOCKET_PROTOCOL

    run(kind, main())


@both_loops
@pytest.mark.parametrize(("reason", "status"), [(Reason.LOGIN_TIMEOUT, b"408"), (Reason.CONNECTION_LIMIT, b"503")])
def test_closing_before_the_handshake_is_an_http_answer(kind: str, reason: Reason, status: bytes) -> None:
    async def main() -> None:
        def refuse(channel: object) -> None:
            channel.write_frames([b"ERROR\n\n\0"])  # nobody can read it yet
            channel.close(reason)

        async with listening(Edge(on_open=refuse), WS) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["ws"])
            assert (await reader.read())[9:12] == status
            await closed(writer)

    run(kind, main())


# Abuse


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
            assert [len(piece) <= 5 * MiB for piece in session.received] == [True]

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
            assert max(map(len, session.received)) <= 5 * MiB
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
