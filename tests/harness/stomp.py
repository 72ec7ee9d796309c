"""A STOMP client over a blocking socket that sends any bytes and shows frames as they came.

Rule: small enough to be checked by eye; header values stay as they stood on the wire (see `unescape`). It never
corrects what it is told to send.
"""

from __future__ import annotations

import itertools
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from .waiting import PATIENCE_S

LEAVE_S = 1.0
"""A client that leaves waits so long for the broker to say that it has seen it; usually a millisecond is enough."""

JOINED_S = 0.005
"""What nobody reads or speaks behind leaves after so long: a test may look elsewhere."""
JOINED_BYTES = 65_536

Headers = dict[str, object] | Iterable[tuple[str, object]]

_ESCAPES = {"\\n": "\n", "\\r": "\r", "\\c": ":", "\\\\": "\\"}


def unescape(value: str) -> str:
    """A 1.2 header value decoded."""
    out, rest = "", value
    while rest:
        out += _ESCAPES.get(rest[:2], rest[:1])
        rest = rest[2:] if rest[:2] in _ESCAPES else rest[1:]
    return out


def build(command: str, headers: Headers = (), body: bytes = b"") -> bytes:
    """A frame, written as given: nothing is escaped or added."""
    pairs = headers.items() if isinstance(headers, dict) else headers
    lines = [command, *(f"{name}:{value}" for name, value in pairs)]
    return "\n".join(lines).encode() + b"\n\n" + body + b"\0"


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame as it came. `pairs`: all header lines, raw; `headers`: first of each name, raw."""

    command: str
    pairs: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    def __getitem__(self, name: str) -> str:
        return self.headers[name]

    def get(self, name: str, default: str | None = None) -> str | None:
        return self.headers.get(name, default)


class ClosedByBroker(Exception):
    """The broker ended the connection where a frame was expected."""


class Neighbours:
    """What one client sends before anybody reads, or anybody else speaks: it leaves as one write (cut="joined")."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._client: Client | None = None
        self._data = bytearray()
        self._timer: threading.Timer | None = None

    def add(self, client: Client, data: bytes) -> None:
        with self._lock:
            if self._client is not client:
                self.leave()
                self._client = client
                self._timer = threading.Timer(JOINED_S, self.leave)
                self._timer.daemon = True
                self._timer.start()
            self._data += data
            if len(self._data) > JOINED_BYTES:
                self.leave()

    def leave(self) -> None:
        with self._lock:
            client, timer, data = self._client, self._timer, bytes(self._data)
            if client is not None and timer is not None:
                self._client, self._timer, self._data = None, None, bytearray()
                timer.cancel()
                client.write(data)


_neighbours = Neighbours()
_made: weakref.WeakSet[Client] = weakref.WeakSet()


def close_all() -> None:
    """Ends every connection that is still there. What a test leaves open, the garbage collector finds later, in the
    middle of somebody else's test, and its ResourceWarning fails that one."""
    for client in list(_made):
        client.close()


class Client:
    """One connection.

    cut       whole: a write for each frame; bytewise: one for each byte (TCP_NODELAY is set); joined: one for all that
              stands between two reads, so that the broker reads several frames at once.
    source    own address, for instance 127.0.0.2.    receive_buffer  SO_RCVBUF in bytes, 0 = the system's.
    """

    def __init__(
        self,
        port: int,
        version: str = "1.2",
        *,
        host: str = "127.0.0.1",
        cut: str = "whole",
        timeout: float = PATIENCE_S,
        tls: ssl.SSLContext | None = None,
        receive_buffer: int = 0,
        source: str = "",
    ) -> None:
        self.version = version
        self.cut = cut
        self.timeout = timeout
        raw = socket.socket()
        try:
            if receive_buffer:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            if source:
                raw.bind((source, 0))
            raw.settimeout(timeout)
            raw.connect((host, port))
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket: socket.socket = tls.wrap_socket(raw, server_hostname="localhost") if tls else raw
        except BaseException:
            raw.close()
            raise
        _made.add(self)
        self.sync_queues: tuple[str, ...] = ("/queue/harness.sync",)
        """Where sync() goes: in a cluster one queue of each owner."""
        self.eols = 0
        """Heart-beats (and other empty lines) seen so far."""
        self._buffer = bytearray()
        self._early: deque[Frame] = deque()
        self._numbers = itertools.count(1)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ── out ────────────────────────────────────────────────────────────────────────────────────────

    def raw(self, data: bytes) -> None:
        """Any bytes. A broker that has closed meanwhile is no error here: what it said is still to be read."""
        if self.cut == "joined":
            _neighbours.add(self, data)
            return
        _neighbours.leave()
        if self.cut == "bytewise":
            self.write(*(data[i : i + 1] for i in range(len(data))))
        else:
            self.write(data)

    def write(self, *pieces: bytes) -> None:
        """A write for each."""
        self._socket.settimeout(self.timeout)
        try:
            for piece in pieces:
                self._socket.sendall(piece)
        except (ConnectionResetError, BrokenPipeError):
            pass

    @property
    def socket(self) -> socket.socket:
        """For what a test does by itself: all that clients have said is in front of it."""
        _neighbours.leave()
        return self._socket

    def send(self, command: str, headers: Headers = (), body: bytes = b"") -> None:
        """A frame as given; see build()."""
        self.raw(build(command, headers, body))

    def ask(self, command: str, headers: Headers = (), body: bytes = b"") -> Frame:
        """A frame with a fresh receipt header; returns its RECEIPT. MESSAGEs that come before it wait for read()."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        receipt = f"r-{next(self._numbers)}"
        self.send(command, [*pairs, ("receipt", receipt)], body)
        early: list[Frame] = []
        while (frame := self.read()).command == "MESSAGE":
            early.append(frame)
        self._early += early
        assert (frame.command, frame.get("receipt-id")) == ("RECEIPT", receipt), f"expected {receipt}, got {frame}"
        return frame

    def connect(self, headers: Headers = ()) -> Frame:
        """CONNECT as a client of `version` does; returns CONNECTED."""
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        if self.version != "1.0":
            pairs = [("accept-version", self.version), ("host", "localhost"), *pairs]
        self.send("CONNECT", pairs)
        return self.expect("CONNECTED")

    def subscribe(self, destination: str, id: str = "1", ack: str = "auto", **headers: object) -> None:
        """SUBSCRIBE with a receipt; underscores in keyword names stand for hyphens."""
        pairs: list[tuple[str, object]] = [("id", id), ("destination", destination), ("ack", ack)]
        pairs += [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.ask("SUBSCRIBE", pairs)

    def publish(self, destination: str, body: bytes = b"", **headers: object) -> None:
        """SEND with content-length and a receipt; returns when the RECEIPT has come."""
        pairs: list[tuple[str, object]] = [("destination", destination), ("content-length", len(body))]
        pairs += [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.ask("SEND", pairs, body)

    def settle(self, command: str, message: Frame, **headers: object) -> None:
        """ACK or NACK of a MESSAGE as this version writes it, without a receipt."""
        if self.version == "1.2":
            pairs: list[tuple[str, object]] = [("id", message["ack"])]
        else:
            pairs = [("message-id", message["message-id"])]
            if "subscription" in message.headers:
                pairs.append(("subscription", message["subscription"]))
        self.send(command, [*pairs, *((name.replace("_", "-"), value) for name, value in headers.items())])

    def ack(self, message: Frame, **headers: object) -> None:
        self.settle("ACK", message, **headers)

    def nack(self, message: Frame, **headers: object) -> None:
        self.settle("NACK", message, **headers)

    def sync(self) -> list[Frame]:
        """Two round trips through every owner and disk: whatever was due to this client has come. Returns it.

        Durable, because a delivery may wait for a commit; the messages stay in a queue that nobody reads."""
        came: list[Frame] = []
        for queue in self.sync_queues * 2:
            receipt = f"sync-{next(self._numbers)}"
            self.send("SEND", [("destination", queue), ("persistent", "true"), ("receipt", receipt)])
            while (frame := self.read()).get("receipt-id") != receipt:
                came.append(frame)
        return came

    # ── in ─────────────────────────────────────────────────────────────────────────────────────────

    def read(self, timeout: float | None = None) -> Frame:
        """The next frame. Raises TimeoutError, or ClosedByBroker when the connection has ended."""
        if self._early:
            return self._early.popleft()
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while (frame := self._take()) is None:
            self._fill(end)
        return frame

    def swallow(self, take: Callable[[bytes], object], timeout: float | None = None) -> Frame:
        """The next frame, whose body is too large to keep: `take` gets its pieces as they come, and `body` is empty.
        `timeout`: seconds for all of it."""
        if self._early:
            frame = self._early.popleft()
            take(frame.body)
            return replace(frame, body=b"")
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while (head := self._head()) is None:
            self._fill(end)
        start, command, pairs, headers = head
        del self._buffer[:start]
        left = int(headers["content-length"])
        while left:
            if not self._buffer:
                self._fill(end)
            piece = bytes(self._buffer[:left])
            del self._buffer[: len(piece)]
            left -= len(piece)
            take(piece)
        while not self._buffer:
            self._fill(end)
        assert self._buffer[0] == 0, f"no NUL behind the body of {command} {pairs}"
        del self._buffer[:1]
        return Frame(command, pairs, headers, b"")

    def expect(self, command: str, headers: dict[str, str] | None = None, timeout: float | None = None) -> Frame:
        """The next frame, which must be this one."""
        frame = self.read(timeout)
        assert frame.command == command, f"expected {command}, got {frame}"
        for name, value in (headers or {}).items():
            assert frame.get(name) == value, f"expected {name}:{value}, got {frame}"
        return frame

    def messages(self, count: int, timeout: float | None = None) -> list[Frame]:
        """The next frames, all of them MESSAGE."""
        return [self.expect("MESSAGE", timeout=timeout) for _ in range(count)]

    def nothing(self) -> None:
        """No frame is due to this client."""
        came = self.sync()
        assert came == [], f"unexpected: {came}"

    def ended(self, timeout: float | None = None) -> None:
        """The broker closes the connection now, without another frame."""
        try:
            frame = self.read(timeout)
        except ClosedByBroker:
            return
        raise AssertionError(f"the connection is still open: {frame}")

    def close(self) -> None:
        self.socket.close()

    def leave(self) -> None:
        """Ends the connection, and returns when the broker has nothing of it any more: what its subscriptions held
        must not go to them when the next client sends to the same queue. A broker that does not read this (half a
        frame stands before it, the sender is blocked) is not waited for longer than LEAVE_S."""
        if self.socket.fileno() >= 0:
            end = time.monotonic() + LEAVE_S
            try:
                self.send("DISCONNECT", {"receipt": "harness-leaves"})
                while self.read(max(end - time.monotonic(), 0)).get("receipt-id") != "harness-leaves":
                    pass
            except (OSError, ClosedByBroker, TimeoutError, ValueError, AssertionError):
                pass  # it ended otherwise, or what it reads is no frame: that was the test's affair
        self.close()

    def _fill(self, end: float) -> None:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no frame in time; so far: {bytes(self._buffer[:500])!r}")
        self.socket.settimeout(left)
        try:
            data = self.socket.recv(1 << 18)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise ClosedByBroker(f"{error}; unread: {bytes(self._buffer[:500])!r}") from None
        if not data:
            raise ClosedByBroker(f"unread: {bytes(self._buffer[:500])!r}")
        self._buffer += data

    def _head(self) -> tuple[int, str, list[tuple[str, str]], dict[str, str]] | None:
        """Where the body of the next frame begins, and what stands before it: command, pairs, headers."""
        buffer = self._buffer
        blank = 0
        while buffer[blank : blank + 1] == b"\n":
            blank += 1
        if blank:
            self.eols += blank
            del buffer[:blank]
        end = buffer.find(b"\n\n", 0, 1 << 17)
        if end < 0:
            return None
        command, *lines = buffer[:end].decode().split("\n")
        pairs = [(name, value) for name, _, value in (line.partition(":") for line in lines)]
        return end + 2, command, pairs, dict(reversed(pairs))

    def _take(self) -> Frame | None:
        """Cuts one whole frame off the buffer. A body is content-length octets, or ends at the first NUL."""
        head = self._head()
        if head is None:
            return None
        start, command, pairs, headers = head
        buffer = self._buffer
        stop = start + int(headers["content-length"]) if "content-length" in headers else buffer.find(b"\0", start)
        if stop < start or len(buffer) <= stop:
            return None
        assert buffer[stop] == 0, f"no NUL behind the body of {command} {pairs}"
        body = bytes(buffer[start:stop])
        del buffer[: stop + 1]
        return Frame(command, pairs, headers, body)
