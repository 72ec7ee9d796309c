"""The TCP shell: bytes both ways, half-close, back-pressure, goodbyes that arrive, ports that cannot be had."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import pytest

from broker.config.settings import Settings
from broker.core.errors import ConfigError
from broker.core.reasons import Reason
from broker.edge.access.listener import Listeners, listen_host
from broker.edge.transport import tcp
from tests.harness.shells import OFF, Edge, both_loops, closed, listening, run
from tests.harness.waiting import eventually

TCP = replace(OFF, port=0)


@both_loops
def test_bytes_go_both_ways_and_the_session_ends_once(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, TCP) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            for piece in (b"a", b"\0\n" * 100_000, b"end"):
                writer.write(piece)
                assert await reader.readexactly(len(piece)) == piece
            session = await edge.sessions.get()
            channel = session.channel
            host, port = writer.get_extra_info("sockname")
            assert channel.peer == f"{host}:{port}"
            assert (channel.transport_name, channel.framed, channel.tls_subject) == ("tcp", False, None)
            await closed(writer)
            await session.over.wait()
            assert session.calls.count("lost") == 1
            assert channel.reason is None
            channel.write(b"too late")
            channel.close(Reason.SHUTDOWN)

    run(kind, main())


@both_loops
def test_a_client_that_shuts_down_its_side_still_gets_its_answer(kind: str) -> None:
    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: None)

        def eof(session: object) -> None:
            asyncio.get_running_loop().call_soon(session.channel.write, b"late answer")
            asyncio.get_running_loop().call_soon(session.channel.close, Reason.CLIENT_DISCONNECT)

        edge.on_eof = eof
        async with listening(edge, TCP) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            writer.write(b"question")
            writer.write_eof()
            assert await reader.read() == b"late answer"
            session = await edge.sessions.get()
            await asyncio.wait_for(session.over.wait(), tcp.LINGER_S * 0.9)  # nobody waits for a peer that has ended
            await closed(writer)

    run(kind, main())


@both_loops
def test_the_last_frame_arrives_although_the_peer_is_still_sending(kind: str) -> None:
    """Unread input at close() would make the kernel send a reset, which eats the ERROR frame."""

    async def main() -> None:
        def refuse(session: object, data: bytes) -> None:
            session.channel.write(b"ERROR\n\n\0" * 1000)
            session.channel.close(Reason.PROTOCOL_ERROR)
            session.channel.close(Reason.INTERNAL)

        edge = Edge(on_receive=refuse)
        async with listening(edge, TCP) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            writer.write(b"x" * 3_000_000)
            await asyncio.wait_for(writer.drain(), 30)
            assert await reader.read() == b"ERROR\n\n\0" * 1000
            session = await edge.sessions.get()
            assert len(session.received) == 1  # nothing is received after close()
            await closed(writer)
            await session.over.wait()
            assert session.calls == ["lost"]

    run(kind, main())


@both_loops
def test_a_connection_closed_while_its_reading_is_paused_ends_with_its_peer(kind: str) -> None:
    async def main() -> None:
        def refuse(session: object, data: bytes) -> None:
            session.channel.pause_reading()
            session.channel.write(b"ERROR\n\n\0")
            session.channel.close(Reason.PROTOCOL_ERROR)

        edge = Edge(on_receive=refuse)
        async with listening(edge, TCP) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            writer.write(b"x")
            assert await reader.read() == b"ERROR\n\n\0"
            writer.write(b"y" * 2_000_000)
            await closed(writer)
            session = await edge.sessions.get()
            await asyncio.wait_for(session.over.wait(), tcp.LINGER_S * 0.9)

    run(kind, main())


@both_loops
def test_a_peer_that_never_ends_is_cut(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "LINGER_S", 0.05)

    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: s.channel.close(Reason.LOGIN_TIMEOUT))
        async with listening(edge, TCP) as listeners:
            _, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            writer.write(b"x")
            session = await edge.sessions.get()
            await asyncio.wait_for(session.over.wait(), 30)
            await closed(writer)

    run(kind, main())


@both_loops
def test_a_peer_that_reads_nothing_pauses_writing_and_is_cut_after_close(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp, "LINGER_S", 0.05)

    async def main() -> None:
        def flood(session: object, data: bytes) -> None:
            session.channel.write(b"y" * 20_000_000)

        edge = Edge(on_receive=flood)
        async with listening(edge, TCP) as listeners:
            with socket.create_connection(("127.0.0.1", listeners.ports["tcp"])) as client:
                client.send(b"x")
                session = await edge.sessions.get()
                await eventually(lambda: "pause" in session.calls)
                assert session.channel.buffered() > 128 * 1024
                session.channel.close(Reason.SLOW_CONSUMER)
                await asyncio.wait_for(session.over.wait(), 30)

    run(kind, main())


@both_loops
def test_writing_resumes_when_the_backlog_has_gone(kind: str) -> None:
    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: s.channel.write(b"y" * 20_000_000))
        async with listening(edge, TCP) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            writer.write(b"x")
            await reader.readexactly(20_000_000)
            session = await edge.sessions.get()
            await eventually(lambda: session.calls[-1:] == ["resume"])
            assert session.calls == ["pause", "resume"]
            await closed(writer)

    run(kind, main())


@both_loops
def test_pausing_reading_holds_the_producer_back_and_loses_nothing(kind: str) -> None:
    async def main() -> None:
        def pause(session: object, data: bytes) -> None:
            session.channel.pause_reading()
            session.channel.pause_reading()

        edge = Edge(on_receive=pause)
        async with listening(edge, TCP) as listeners:
            _, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            writer.write(b"z" * 1_000_000)
            session = await edge.sessions.get()
            await eventually(lambda: session.received)
            await asyncio.sleep(0.02)
            assert len(session.received) == 1
            edge.on_receive = lambda s, d: None
            session.channel.resume_reading()
            session.channel.resume_reading()
            await eventually(lambda: len(session.data) >= 1_000_000)
            assert session.data == b"z" * 1_000_000
            await closed(writer)

    run(kind, main())


@both_loops
def test_the_edge_may_close_a_connection_while_it_is_opened(kind: str) -> None:
    async def main() -> None:
        def refuse(channel: object) -> None:
            channel.write(b"ERROR\nmessage:Too many connections\n\n\0")
            channel.close(Reason.CONNECTION_LIMIT)

        edge = Edge(on_open=refuse)
        async with listening(edge, TCP) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            writer.write(b"CONNECT\n\n\0")
            assert (await reader.read()).startswith(b"ERROR")
            await closed(writer)
            session = await edge.sessions.get()
            await session.over.wait()
            assert (session.received, session.calls) == ([], ["lost"])

    run(kind, main())


@both_loops
def test_abort_ends_at_once(kind: str) -> None:
    async def main() -> None:
        edge = Edge(on_receive=lambda s, d: s.channel.abort())
        async with listening(edge, TCP) as listeners:
            _, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            writer.write(b"x")
            session = await edge.sessions.get()
            await session.over.wait()
            assert session.calls == ["lost"]
            await closed(writer)

    run(kind, main())


@both_loops
def test_frames_and_parts_are_plain_bytes_without_websocket(kind: str) -> None:
    async def main() -> None:
        def answer(session: object, data: bytes) -> None:
            session.channel.write_frames([b"a\0", b"\n", b"b\0"])
            session.channel.write_part(b"c", True, False)
            session.channel.write_part(b"d\0", False, True)

        async with listening(Edge(on_receive=answer), TCP) as listeners:
            reader, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            writer.write(b"x")
            assert await reader.readexactly(8) == b"a\0\nb\0cd\0"
            await closed(writer)

    run(kind, main())


@both_loops
def test_accepted_sockets_send_small_frames_at_once_and_notice_dead_peers(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        async with listening(edge, TCP) as listeners:
            _, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
            session = await edge.sessions.get()
            sock = session.channel._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            await closed(writer)

    run(kind, main())


@both_loops
def test_stop_accepting_keeps_what_is_open(kind: str) -> None:
    async def main() -> None:
        async with listening(Edge(), TCP) as listeners:
            port = listeners.ports["tcp"]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"1")
            await reader.readexactly(1)
            listeners.stop_accepting()
            await asyncio.sleep(0)
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"2")
            assert await reader.readexactly(1) == b"2"
            await closed(writer)

    run(kind, main())


@both_loops
def test_a_taken_port_names_the_setting_and_leaves_nothing_bound(kind: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as other:
            taken = other.getsockname()[1]
            listeners = Listeners(Edge(), Settings(edge=replace(TCP, ws_port=taken)), loop, "127.0.0.1")
            with pytest.raises(ConfigError, match=rf"port {taken} on 127\.0\.0\.1.*edge\.ws_port"):
                await listeners.start()
            await asyncio.sleep(0)
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])

    run(kind, main())


def test_an_address_of_another_machine_names_the_host_setting() -> None:
    async def main() -> None:
        listeners = Listeners(Edge(), Settings(edge=TCP), asyncio.get_running_loop(), "192.0.2.1")
        with pytest.raises(ConfigError, match=r"192\.0\.2\.1.*edge\.host"):
            await listeners.start()

    run("stdlib", main())


def test_without_a_host_strangers_are_let_in_only_when_there_are_users() -> None:
    assert listen_host(TCP, has_users=False) == "127.0.0.1"
    assert listen_host(TCP, has_users=True) == ""
    assert listen_host(replace(TCP, host="10.1.1.1"), has_users=False) == "10.1.1.1"


@pytest.mark.parametrize(
    ("host", "users", "warned"), [("", True, True), ("", False, False), ("127.0.0.1", True, False)]
)
def test_clear_text_that_others_reach_is_warned_of(host: str, users: bool, warned: bool, caplog) -> None:
    async def main() -> None:
        listeners = Listeners(Edge(), Settings(edge=TCP), asyncio.get_running_loop(), host, users)
        await listeners.start()
        await listeners.close()

    run("stdlib", main())
    texts = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert bool(texts) == warned
    if warned:
        assert "clear text" in texts[0] and "edge.port = -1" in texts[0] and "edge.host = 127.0.0.1" in texts[0]


@pytest.mark.parametrize(("host", "users", "refused"), [("", True, True), ("", False, False), ("::1", True, False)])
def test_clear_text_that_others_reach_can_be_refused(host: str, users: bool, refused: bool) -> None:
    async def main() -> None:
        settings = Settings(edge=replace(TCP, clear_text="refuse"))
        listeners = Listeners(Edge(), settings, asyncio.get_running_loop(), host, users)
        if refused:
            with pytest.raises(ConfigError, match=r"clear_text is refuse.*edge\.port = -1"):
                await listeners.start()
        else:
            await listeners.start()
        await listeners.close()

    run("stdlib", main())


@both_loops
def test_all_interfaces_are_one_socket_and_ipv4_peers_look_like_ipv4(kind: str) -> None:
    async def main() -> None:
        edge = Edge()
        listeners = Listeners(edge, Settings(edge=TCP), asyncio.get_running_loop(), "")
        await listeners.start()
        _, writer = await asyncio.open_connection("127.0.0.1", listeners.ports["tcp"])
        session = await edge.sessions.get()
        assert session.channel.peer.startswith("127.0.0.1:")
        await closed(writer)
        await session.over.wait()
        await listeners.close()

    run(kind, main())
