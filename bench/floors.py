"""What this machine itself takes for what a broker cannot do without: writes into sockets, and messages of gRPC.

    .venv/bin/python bench/floors.py sockets      one process writes 1,500 bytes to each of 500 connections, 40 rounds/s
    .venv/bin/python bench/floors.py grpc         two processes echo 200 bytes at 5,000/s over one stream of grpc.aio

Rule: nothing of the broker is at work but its options for gRPC and its loop. Figures are medians of `--runs`; CPU is
that of the processes named, threads and kernel included, and not that of who reads, or beats the time.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SECONDS = 3.0
CONNECTIONS, ROUNDS_PER_S, BYTES = 500, 40, 1500
PER_S, ECHOED = 5000, 200
SERVICE, METHOD = "bench.Floor", "Echo"


def child(part: str, *arguments: object, keep: tuple[int, ...] = ()) -> subprocess.Popen[str]:
    line = [sys.executable, __file__, part, *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True, pass_fds=keep)


# ---------------------------------------------------------------- sockets


def read_all(port: int) -> None:
    """Reads what comes on all connections, until the other side goes."""
    poll, connections = select.epoll(), {}
    for _ in range(CONNECTIONS):
        connection = socket.create_connection(("127.0.0.1", port))
        connections[connection.fileno()] = connection
        poll.register(connection, select.EPOLLIN)
    while True:
        for number, _ in poll.poll():
            if not connections[number].recv(65536):
                return


def sockets() -> float:
    """Microseconds of CPU for one send()."""
    with socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS) as listener:
        reader = child("read", listener.getsockname()[1])
        connections = [listener.accept()[0] for _ in range(CONNECTIONS)]
    for connection in connections:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data, rounds = b"x" * BYTES, round(SECONDS * ROUNDS_PER_S)
    began, before = time.monotonic(), time.process_time()
    for number in range(rounds):
        time.sleep(max(0.0, began + number / ROUNDS_PER_S - time.monotonic()))
        for connection in connections:
            connection.send(data)
    took = time.process_time() - before
    for connection in connections:
        connection.close()
    reader.communicate(timeout=30)
    return took / (rounds * CONNECTIONS) * 1e6


# ---------------------------------------------------------------- gRPC


def beat(pipe: int, messages: int, per_s: int) -> None:
    """A byte for each message that is due: the loop that sends it is woken up as by a client's socket."""
    due = time.monotonic()
    for _ in range(messages):
        due += 1 / per_s
        time.sleep(max(0.0, due - time.monotonic()))
        os.write(pipe, b"x")


async def answer_echoes() -> None:
    """Prints its port, and the seconds of CPU that the first stream took when that ends."""
    import grpc

    from broker.config.settings import ClusterSettings
    from broker.rpc.options import SERVER, keepalive

    done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def echo(messages: AsyncIterator[bytes], context: Any) -> None:
        before = time.process_time()
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(message)
        done.set_result(time.process_time() - before)

    server = grpc.aio.server(options=[*SERVER, *keepalive(ClusterSettings())])
    handlers = {METHOD: grpc.stream_stream_rpc_method_handler(echo)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    print(await done, flush=True)
    await server.stop(0)


async def ask_echoes(port: int) -> tuple[float, float]:
    """(seconds of CPU of this process, p50 in seconds of a message there and back)."""
    import grpc

    from broker.config.settings import ClusterSettings
    from broker.rpc.options import CLIENT, keepalive

    options = [*CLIENT, *keepalive(ClusterSettings())]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        stream: Any = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
        await stream.wait_for_connection()
        total, waits = round(SECONDS * PER_S), []

        async def receive() -> None:
            while len(waits) < total:
                sent_at = float((await stream.read())[:20])
                waits.append(time.monotonic() - sent_at)

        due, write_to = os.pipe()
        os.set_blocking(due, False)
        ready, beats = asyncio.Event(), 0

        def on_beat() -> None:
            nonlocal beats
            beats += len(os.read(due, 65536))
            ready.set()

        loop = asyncio.get_running_loop()
        loop.add_reader(due, on_beat)
        before, receiving = time.process_time(), asyncio.create_task(receive())
        with child("beat", write_to, total, PER_S, keep=(write_to,)):
            for sent in range(total):
                while sent == beats:
                    ready.clear()
                    await ready.wait()
                await stream.write(b"%-*.9f" % (ECHOED, time.monotonic()))
            await receiving
        took = time.process_time() - before
        loop.remove_reader(due)
        await stream.done_writing()
        return took, statistics.median(waits)


def on_our_loop(work: Any) -> Any:
    """gRPC has its settings before it is imported, as in the broker."""
    import uvloop

    from broker.seams.grpc_core import prepare

    prepare()
    return uvloop.run(work)


def grpc_echo() -> tuple[float, float, float]:
    """Microseconds: CPU of both processes for a message there and back, CPU of the one that asks, p50 of the way."""
    with child("answer") as answering:
        assert answering.stdout is not None
        ours, p50 = on_our_loop(ask_echoes(int(answering.stdout.readline())))
        theirs = float(answering.stdout.readline())
    messages = round(SECONDS * PER_S)
    return (ours + theirs) / messages * 1e6, ours / messages * 1e6, p50 * 1e6


# ---------------------------------------------------------------- what is printed


def tell_sockets(runs: int) -> None:
    took = statistics.median(sockets() for _ in range(runs))
    print(f"send() of {BYTES:,} bytes to {CONNECTIONS} sockets, {ROUNDS_PER_S} rounds/s: {took:.1f} µs of CPU each")


def tell_grpc(runs: int) -> None:
    found = [grpc_echo() for _ in range(runs)]
    both, asks, p50 = (statistics.median(column) for column in zip(*found, strict=True))
    print(
        f"{ECHOED} bytes there and back over grpc.aio, {PER_S:,}/s: {both:.0f} µs of CPU in both processes "
        f"({asks:.0f} in the one that asks), p50 {p50:.0f} µs"
    )


FLOORS: dict[str, Callable[[int], None]] = {"sockets": tell_sockets, "grpc": tell_grpc}


def main() -> None:
    parts = {"read": read_all, "beat": beat, "answer": lambda: on_our_loop(answer_echoes())}
    if len(sys.argv) > 1 and sys.argv[1] in parts:
        parts[sys.argv[1]](*map(int, sys.argv[2:]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("floors", nargs="*", help="sockets, grpc; none: both")
    parser.add_argument("--runs", type=int, default=3, help="the median counts (3)")
    options = parser.parse_args()
    for name in options.floors or FLOORS:
        if name not in FLOORS:
            parser.error(f"no floor '{name}'; there are {', '.join(FLOORS)}")
        FLOORS[name](options.runs)


if __name__ == "__main__":
    main()
