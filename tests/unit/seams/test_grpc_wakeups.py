"""Wake-ups of gRPC: none is left behind, and the callback finds the one it takes."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import termios

import grpc.aio
import pytest

from broker.seams.grpc_wakeups import drained, whole_wakeups


def unread(wakeups: socket.socket) -> int:
    return struct.unpack("i", fcntl.ioctl(wakeups, termios.FIONREAD, bytes(4)))[0]


@pytest.mark.parametrize("count", [1, 2, 250])
def test_the_callback_takes_the_last_byte(count):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.send(b"1" * count)
        assert drained(ours, lambda word: (word, ours.recv(1), unread(ours)))("x") == ("x", b"1", 0)


def test_who_finds_nothing_calls_all_the_same():
    """Of several loops in one process one takes the byte; gRPC's callback bears that."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            drained(ours, lambda: ours.recv(1))()


async def test_what_others_register_is_as_before():
    loop, heard = asyncio.get_running_loop(), asyncio.Event()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        loop.add_reader(ours, heard.set)
        with whole_wakeups():
            pass
        assert "add_reader" not in vars(loop)
        theirs.send(b"1")
        await heard.wait()
        loop.remove_reader(ours)


def test_the_callback_of_real_grpc_is_such_a_one_and_calls_come_through(monkeypatch):
    """With what a loop makes first; else the cure is none, and nobody would notice."""
    registered: list[str] = []
    plain = asyncio.SelectorEventLoop.add_reader

    def add_reader(loop, wakeups, callback, *args):
        registered.append(getattr(callback, "__qualname__", repr(callback)))
        plain(loop, wakeups, callback, *args)

    monkeypatch.setattr(asyncio.SelectorEventLoop, "add_reader", add_reader)

    async def main() -> list[bytes]:
        async def echo(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            return request

        with whole_wakeups():
            server = grpc.aio.server()
        handlers = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Test", handlers)])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary("/Test/Echo")
            answers = [await call(b"%d" % n) for n in range(20)]
        await server.stop(None)
        return answers

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        assert runner.run(main()) == [b"%d" % n for n in range(20)]
    ours = [name for name in registered if "drained" in name]
    assert len(ours) == 1 and not [name for name in registered if "_handle_events" in name], registered
