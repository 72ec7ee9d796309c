"""Channels and servers of gRPC, as they are made for everybody."""

from __future__ import annotations

import asyncio
import socket

import grpc
import grpc.aio
import pytest

from broker.seams import grpc_ends


@pytest.mark.parametrize("first", ["server", "channel", "channel with TLS"])
def test_whatever_is_the_first_of_its_loop_has_its_wakeups_taken_whole(monkeypatch, first):
    registered: list[str] = []
    plain = asyncio.SelectorEventLoop.add_reader

    def add_reader(loop, wakeups, callback, *args):
        if isinstance(wakeups, socket.socket):
            registered.append(callback.__qualname__)
        plain(loop, wakeups, callback, *args)

    async def main() -> None:
        monkeypatch.setattr(asyncio.SelectorEventLoop, "add_reader", add_reader)
        if first == "server":
            await grpc_ends.server([]).stop(None)
        else:
            credentials = grpc.ssl_channel_credentials() if "TLS" in first else None
            await grpc_ends.channel("127.0.0.1:1", credentials, []).close()
        monkeypatch.undo()

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(main())
    assert [name for name in registered if "drained" in name], registered
    assert not [name for name in registered if "_handle_events" in name], registered


async def test_a_call_comes_through_both_and_options_hold():
    async def echo(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        return request

    server = grpc_ends.server([("grpc.max_receive_message_length", 10)])
    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Test", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc_ends.channel(f"127.0.0.1:{port}", None, []) as channel:
        call = channel.unary_unary("/Test/Echo")
        assert await call(b"1234567890") == b"1234567890"
        with pytest.raises(grpc.RpcError, match="larger than max"):
            await call(b"12345678901")
    await server.stop(None)
