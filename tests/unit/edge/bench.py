"""An edge between an owner and sockets that the test turns by hand.

Rule: nothing here decides or waits; what was asked for is kept, and answered when the test says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from broker.config.settings import EdgeSettings, EngineSettings, Settings, WireSettings
from broker.core.address import Outcome
from broker.core.commands import Subscribe
from broker.core.effects import Deliver
from broker.core.message import BLOB, Blob, Run
from broker.core.reasons import Reason
from broker.edge.access.auth import TableAuthenticator
from broker.edge.edge import Edge
from broker.edge.session.session import Session
from broker.edge.transport.channel import Channel, next_connection_id
from broker.edge.transport.timers import TimerWheel
from broker.seams.clock import SystemClock


class Writer:
    """A large body on its way in: finished when the test says so."""

    pending = 0

    def __init__(self) -> None:
        self.data = b""
        self.finished: Callable[[Blob | None, str], None] | None = None

    def write(self, data: bytes) -> None:
        self.data += data

    def finish(self, sync: bool, done: Callable[[Blob | None, str], None]) -> None:
        self.finished = done

    def abort(self) -> None:
        self.finished = None


class Reader:
    """A large body on its way out, one piece per call of `turn`."""

    def __init__(self, length: int) -> None:
        self.left = length
        self.waiting: tuple[int, Callable[[bytes | None, str], None]] | None = None
        self.closed = False

    def read(self, n: int, done: Callable[[bytes | None, str], None]) -> None:
        self.waiting = (n, done)

    def close(self) -> None:
        self.closed = True

    def turn(self) -> None:
        assert self.waiting is not None
        (n, done), self.waiting = self.waiting, None
        self.left -= n
        done(b"b" * n, "")


class Port:
    """Keeps what sessions ask for; answers when the test says so."""

    shares_wildcards = True
    at_once = None

    def __init__(self) -> None:
        self.commands: list[Any] = []
        self.held: Callable[[int, int], Sequence[int]] = lambda slot, consumer: ()
        self.readers: list[Reader] = []
        self.whole: list[tuple[int, int, Outcome]] = []
        self.writers: list[Writer] = []

    def attach(self, listener: object) -> None: ...

    def submit(self, commands: list[Any]) -> None:
        self.commands += commands

    def write_body(self, slot: int, on_drain: Callable[[], None]) -> Writer:
        self.writers.append(Writer())
        return self.writers[-1]

    def read_body(self, slot: int, blob: Blob, consumer: int = 0, message: int = 0) -> Reader:
        self.readers.append(Reader(blob.length))
        return self.readers[-1]

    def arrived(self, consumer: int, message: int, outcome: Outcome = Outcome.ACK) -> None:
        self.whole.append((consumer, message, outcome))

    def last(self, kind: type) -> Any:
        return [command for command in self.commands if type(command) is kind][-1]


class Wire:
    """A Channel that remembers."""

    framed = False
    texts = False
    tls_subject = None
    certificate = None
    user = ""
    tls_name = ""
    reason: Reason | None = None
    transport_name = "tcp"
    peer = "127.0.0.1:1"

    def __init__(self) -> None:
        self.id = next_connection_id()
        self.sent = b""
        self.closed: Reason | str | None = None
        self.waiting = 0

    def write(self, data: bytes) -> None:
        assert self.closed is None
        self.sent += data

    def write_part(self, data: bytes, first: bool, last: bool, text: bool = False) -> None:
        self.write(data)

    def take_authorization(self) -> None:
        """It is no WebSocket."""

    def held(self) -> int:
        return self.buffered()

    def buffered(self) -> int:
        return self.waiting

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def close(self, reason: Reason) -> None:
        self.closed = reason

    def abort(self) -> None:
        self.closed = "aborted"

    def take(self) -> bytes:
        sent, self.sent = self.sent, b""
        return sent


class Bench:
    """One edge, and sessions that are connected."""

    def __init__(
        self, acceptors: dict[str, Any] | None = None, engine: EngineSettings | None = None, **edge: Any
    ) -> None:
        self.port = Port()
        settings = Settings(
            edge=EdgeSettings(**edge),
            wire=WireSettings(large_body_bytes=1000),
            acceptors=acceptors or {},
            engine=engine or EngineSettings(),
        )
        beats = TimerWheel(asyncio.get_running_loop())
        self.edge = Edge(
            settings,
            self.port,
            SystemClock(),
            beats,
            TableAuthenticator({}, SystemClock(), open_when_empty=True),
            "boot",
        )

    def session(self, port: str = "tcp") -> tuple[Session, Wire]:
        wire = Wire()
        wire.transport_name = port
        channel: Channel = wire  # type: ignore[assignment]
        session = self.edge.open(channel)
        session.receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
        assert wire.take().startswith(b"CONNECTED")
        return session, wire

    def subscribed(self, session: Session, id: str = "1") -> int:
        session.receive(b"SUBSCRIBE\nid:%b\ndestination:/queue/q%b\n\n\0" % (id.encode(), id.encode()))
        consumer: int = self.port.last(Subscribe).consumer
        return consumer

    def deliver(self, consumer: int, *bodies: bytes, cost: int = 0) -> None:
        run = Run(range(1, len(bodies) + 1), b"\n", [body + b"\0" for body in bodies], sum(map(len, bodies)))
        self.edge.on_effects([Deliver(consumer, run, cost or run.nbytes)])

    def deliver_large(self, consumer: int, length: int) -> Reader:
        run = Run(range(1, 2), b"", [b"content-length:%d\n\n" % length], length, BLOB, blob=Blob(1, length))
        self.edge.on_effects([Deliver(consumer, run, length)])
        return self.port.readers[-1]
