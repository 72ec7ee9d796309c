"""How many Python functions a broker calls for one message: a measure of speed without noise, the same on any machine.

A real broker of this process, on uvloop and real sockets, serves clients of another thread that wait for each answer
before they go on. Calls of the loop's thread and of the one that commits count; those of C functions do not, nor do
log lines and the looks of the watchdog, which a busy machine may cause.

    .venv/bin/python -m tests.harness.calls unbatched      # by function
"""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest import mock

from broker.app.standalone import Standalone
from broker.config.settings import AdminSettings, EdgeSettings, JournalSettings, Settings
from broker.edge.transport import fair_reading
from broker.edge.transport.fair_reading import SHORT_FOR_S
from broker.seams.loop_watchdog import Mark, StepKindStats

WARM, COUNTED = 50, 200
"""Messages before counting begins, and counted ones."""

BYTE_S = 2e-7
"""Seconds a byte of a long read costs: 66 bytes of a frame to a queue of its own take 13 µs."""

SLOWNESS = {each.__code__ for each in (Mark.look, StepKindStats.took_long, StepKindStats.tell)}
"""What is called where steps take long, and else is not."""

_lock = threading.Lock()
"""One count at a time: the profiler belongs to threads."""


class Calls:
    """By function, while `on`."""

    def __init__(self) -> None:
        self.on = False
        self.by: Counter[CodeType] = Counter()

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if self.on and event == "call" and code not in SLOWNESS and "/logging/" not in code.co_filename:
            self.by[code] += 1

    def begin(self, frame: FrameType, event: str, what: Any) -> None:
        """In a new thread: the one that commits counts, those that do something now and then do not."""
        sys.setprofile(self.see if threading.current_thread().name == "journal" else None)

    def each(self, messages: int) -> float:
        return sum(self.by.values()) / messages

    def table(self, messages: int) -> str:
        """The most called first."""
        rows = []
        for code, count in self.by.most_common():
            where = code.co_filename.rpartition("/broker/")[2] or code.co_filename
            rows.append(f"{count / messages:8.2f}  {where}:{code.co_firstlineno} {code.co_qualname}")
        return "\n".join(rows)


class Client:
    """A connection of the other thread."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.ask(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", b"CONNECTED")

    def send(self, frames: bytes) -> None:
        self._socket.sendall(frames)

    def expect(self, begin: bytes, frames: int = 1) -> bytes:
        """So many whole frames."""
        got = b""
        while got.count(b"\0") < frames:
            piece = self._socket.recv(1 << 16)
            assert piece, f"closed after {got!r}"
            got += piece
        assert got.lstrip().startswith(begin), got
        return got

    def ask(self, frames: bytes, begin: bytes) -> bytes:
        self.send(frames)
        return self.expect(begin)

    def subscribe(self, destination: str, ack: str = "auto", id: int = 1) -> None:
        frame = f"SUBSCRIBE\nid:{id}\ndestination:{destination}\nack:{ack}\nreceipt:s\n\n\0"
        self.ask(frame.encode(), b"RECEIPT")

    def close(self) -> None:
        self._socket.close()


Work = Callable[[int], Iterator[None]]
"""Talks to the broker at this port. Between its two stops are the calls that count, of COUNTED messages."""


def unbatched(port: int) -> Iterator[None]:
    """Non-durable, one message under way, one header of which differs from the one before."""
    consumer, producer = Client(port), Client(port)
    consumer.subscribe("/queue/calls")
    for n in range(WARM + COUNTED):
        if n == WARM:
            yield
        producer.send(b"SEND\ndestination:/queue/calls\nn:%d\ncontent-length:5\n\nhello\0" % n)
        consumer.expect(b"MESSAGE")
    yield
    for client in (consumer, producer):
        client.close()


def persistent(port: int) -> Iterator[None]:
    """Durable, a receipt each, one message under way, nobody consumes."""
    client = Client(port)
    for n in range(WARM + COUNTED):
        if n == WARM:
            yield
        frame = b"SEND\ndestination:/queue/calls\npersistent:true\nreceipt:r%d\ncontent-length:5\n\nhello\0" % n
        client.ask(frame, b"RECEIPT")
    yield
    client.close()


def individual(port: int) -> Iterator[None]:
    """client-individual, each message acknowledged with a receipt before the next one is sent."""
    consumer, producer = Client(port), Client(port)
    consumer.subscribe("/queue/calls", "client-individual")
    for n in range(WARM + COUNTED):
        if n == WARM:
            yield
        producer.send(b"SEND\ndestination:/queue/calls\nn:%d\ncontent-length:5\n\nhello\0" % n)
        message = consumer.expect(b"MESSAGE")
        id = message.partition(b"\nack:")[2].partition(b"\n")[0]
        consumer.ask(b"ACK\nid:%b\nreceipt:a\n\n\0" % id, b"RECEIPT")
    yield
    for client in (consumer, producer):
        client.close()


def topic(port: int) -> Iterator[None]:
    """A topic with ten subscribers."""
    consumers, producer = [Client(port) for _ in range(10)], Client(port)
    for consumer in consumers:
        consumer.subscribe("/topic/calls")
    for n in range(WARM + COUNTED):
        if n == WARM:
            yield
        producer.send(b"SEND\ndestination:/topic/calls\nn:%d\ncontent-length:5\n\nhello\0" % n)
        for consumer in consumers:
            consumer.expect(b"MESSAGE")
    yield
    for client in (*consumers, producer):
        client.close()


def in_turn(port: int) -> Iterator[None]:
    """One read of COUNTED messages to 100 queues in turn, consumed by one connection. Few, but the read is a whole."""
    consumer, producer = Client(port), Client(port)
    for n in range(100):
        consumer.subscribe(f"/queue/turn{n}", id=n)
    frames = [
        b"SEND\ndestination:/queue/turn%d\nn:%d\ncontent-length:5\n\nhello\0" % (n % 100, n) for n in range(COUNTED)
    ]
    for _ in range(3):
        producer.send(b"".join(frames))
        consumer.expect(b"MESSAGE", COUNTED)
    time.sleep(2 * SHORT_FOR_S)  # nobody else sends little: turns are long, as in a flood that is alone
    yield
    producer.send(b"".join(frames))
    consumer.expect(b"MESSAGE", COUNTED)
    yield
    for client in (consumer, producer):
        client.close()


WORK: dict[str, Work] = {
    work.__name__: work for work in (unbatched, persistent, individual, topic, in_turn)
}  # fmt: skip


def count(work: Work, folder: Path, dialect: str = "artemis") -> Calls:
    """Calls of a standalone broker for COUNTED messages. Raises what `work` has raised."""
    import uvloop

    calls = Calls()

    async def serve() -> None:
        broker = Standalone(
            Settings(
                data=str(folder),
                edge=EdgeSettings(host="127.0.0.1", port=0, ws_port=-1, dialect=dialect),
                journal=JournalSettings(min_free_bytes=0),
                admin=AdminSettings(port=-1),
            )
        )
        await broker.start()
        loop = asyncio.get_running_loop()
        try:
            port = next(iter(broker.listeners.ports.values()))
            await loop.run_in_executor(None, talk, work(port), calls)
        finally:
            await broker.stop()

    # How a long read is cut depends on how fast the machine is just then: here a byte costs what it costs.
    with _lock, mock.patch.object(fair_reading.Rounds, "spent", _spent):
        threading.setprofile(calls.begin)
        sys.setprofile(calls.see)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve())
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    return calls


_measured = fair_reading.Rounds.spent


def _spent(rounds: Any, reader: Any, began: float, nbytes: int) -> None:
    """As if all of them had cost the same."""
    with mock.patch.object(rounds, "_now", lambda: began + nbytes * BYTE_S):
        _measured(rounds, reader, began, nbytes)


def talk(work: Iterator[None], calls: Calls) -> None:
    """In the clients' thread, whose own calls do not count."""
    sys.setprofile(None)
    next(work)
    calls.on = True
    next(work)
    calls.on = False
    next(work, None)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        found = count(WORK[sys.argv[1]], Path(scratch))
        print(found.table(COUNTED))
        print(f"{found.each(COUNTED):8.2f}  calls a message: {sys.argv[1]}")
