"""Dialing: one attempt, and its outcome is told within the bound."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time

import grpc
import pytest

from broker.config.settings import ClusterSettings
from broker.rpc.dialer import GrpcDialer, _explained
from broker.rpc.server import GrpcServer
from broker.seams.stream import EndKind
from tests.harness.broker import free_ports
from tests.unit.rpc.stream_world import Doors, End, joined, stranger


async def test_nobody_listens_is_told_as_refused_and_fast():
    (port,) = free_ports(1)
    dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop())
    await refused_after(dialer, port)  # the first dial of a process also starts gRPC
    assert min([await refused_after(dialer, port) for _ in range(5)]) < 0.1


async def refused_after(dialer: GrpcDialer, port: int) -> float:
    end, begun = End(), time.monotonic()
    stream = dialer.dial(f"127.0.0.1:{port}", "edge", end)
    stream.send(b"ignored")
    await end.until(lambda e: e.closed)
    took = time.monotonic() - begun
    assert await end.end() == f"refused: nobody listens at 127.0.0.1:{port}"
    assert stream.pending == 0
    return took


async def test_a_listener_that_never_answers_is_unreachable_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop(), dial_timeout_s=0.2)
        end, begun = End(), time.monotonic()
        dialer.dial(f"127.0.0.1:{silent.getsockname()[1]}", "edge", end)
        assert (await end.end()).startswith("unreachable: ")
        assert 0.15 < time.monotonic() - begun < 5


async def test_a_listener_that_comes_back_is_reached_at_the_next_dial():
    """A fresh channel each: no back-off of an earlier failure."""
    (port,) = free_ports(1)
    dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop())
    for _ in range(3):
        await refused_after(dialer, port)
    doors = Doors()
    server = GrpcServer(ClusterSettings(port=port), doors)
    await server.start()
    begun = time.monotonic()
    await joined(dialer, doors, f"127.0.0.1:{port}")
    assert time.monotonic() - begun < 0.9  # gRPC's first back-off is a second
    await dialer.close()
    await server.stop()


async def test_a_peer_that_is_late_by_seconds_is_reached():
    with stranger() as (process, port):
        dialer = GrpcDialer(ClusterSettings(), asyncio.get_running_loop())
        for seconds in (1.5, 3.0):
            os.kill(process.pid, signal.SIGSTOP)
            end = End()
            dialer.dial(f"127.0.0.1:{port}", "edge", end).send(b"hello")
            await asyncio.sleep(seconds)
            os.kill(process.pid, signal.SIGCONT)
            await end.until(lambda e: e.closed or e.messages)
            assert end.closed == []
        await dialer.close()


@pytest.mark.parametrize(
    ("code", "details", "kind", "text"),
    [
        (grpc.StatusCode.UNAVAILABLE, "Connection refused", EndKind.REFUSED, "refused: nobody listens at o:1"),
        (grpc.StatusCode.UNAVAILABLE, "Socket closed", EndKind.LOST, "lost: UNAVAILABLE Socket closed"),
        (grpc.StatusCode.INTERNAL, "Connection refused", EndKind.LOST, "lost: INTERNAL Connection refused"),
        (grpc.StatusCode.UNIMPLEMENTED, "no such", EndKind.FOREIGN, "foreign: no such"),
        (grpc.StatusCode.CANCELLED, None, EndKind.LOST, "lost: CANCELLED "),
    ],
)
def test_why_it_ended_is_of_a_kind(code, details, kind, text):
    """Only "nobody listens" says that a process is dead: whoever hears it suspects its owner at once."""
    error = grpc.RpcError()
    error.code, error.details = (lambda: code), (lambda: details)
    ended = _explained(error, "o:1")
    assert (str(ended), ended.kind) == (text, kind)
