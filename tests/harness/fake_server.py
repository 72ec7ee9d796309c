"""A STOMP server in a few lines, on loopback, made of broker.wire's server side.

It routes SENDs to the subscribers of the same destination, answers receipts, and can be told to misbehave.
"""

from __future__ import annotations

import asyncio

from websockets.asyncio.server import serve

from broker.config.settings import WireSettings
from broker.edge.requests.management import split
from broker.wire.connection import Connection, Role
from broker.wire.events import Acks, BodyData, BodyEnd, BodyStart, Frame, Head, Sends, Violation
from broker.wire.versions import Version
from broker.wire.writer import connected_frame, encode_frame, receipts, rewrite_lines


class Peer:
    """One client connection as the server sees it."""

    def __init__(self, server, writer):
        self.server = server
        self.writer = writer
        self.wire = Connection(Role.SERVER, WireSettings(large_body_bytes=server.large_body_bytes))
        self.version = Version.V12
        self.subscriptions = {}
        self.large = None
        self.transactions = {}

    def handle(self, event):
        seen = self.server.seen
        match event:
            case Sends(head=head, records=records):
                for record in records:
                    body = (head.lines + record).partition(b"\n\n")[2][:-1]
                    seen.append(("SEND", said(head, record), body))
                    if "transaction" in head.headers:
                        self.transactions[head.headers["transaction"]].append((head, record))
                    else:
                        self.server.route(head.headers["destination"], head.lines + record)
                self.answer(event.receipts or [])
            case Acks(ids=ids):
                seen.extend(("ACK", {"id": id.decode()}, b"") for id in ids)
                self.answer(event.receipts or [])
            case BodyStart():
                self.large = (event, [])
            case BodyData():
                self.large[1].append(event.data)
            case BodyEnd():
                start, pieces = self.large
                body = b"".join(pieces)
                seen.append(("SEND", said(start.head, b"\n\0"), body))
                lines = start.head.lines + b"content-length:%d\n\n%b\0" % (len(body), body)
                self.server.route(start.head.headers["destination"], lines)
                self.answer([start.receipt] if start.receipt else [])
            case Violation():
                seen.append(("VIOLATION", {"code": event.code.name, "detail": event.detail}, b""))
                self.writer.close()
            case Frame():
                self.frame(event)

    def frame(self, frame):
        self.server.seen.append((frame.command, dict(frame.headers), frame.body))
        if frame.command in self.server.refuse:
            self.error("refused", frame)
            return
        if frame.command in ("CONNECT", "STOMP"):
            if not self.server.accept:
                return
            self.version = Version(frame.headers.get("accept-version", "1.0"))
            self.wire.accept_login(self.version)
            headers = [("version", self.version.value), ("server", "Fake/1"), ("session", "7")]
            self.write(connected_frame([*headers, ("heart-beat", self.server.heartbeat)]))
            return
        match frame.command:
            case "SUBSCRIBE":
                self.subscriptions[frame.headers["id"]] = frame.headers["destination"]
                for body, headers in self.server.stored.pop(frame.headers["destination"], []):
                    self.server.publish(frame.headers["destination"], body, headers)
            case "UNSUBSCRIBE":
                del self.subscriptions[frame.headers["id"]]
            case "BEGIN":
                self.transactions[frame.headers["transaction"]] = []
            case "COMMIT":
                for head, record in self.transactions.pop(frame.headers["transaction"]):
                    self.server.route(head.headers["destination"], head.lines + record)
        self.answer([frame.receipt] if frame.receipt else [])
        if frame.command == "DISCONNECT":
            self.writer.close()

    def error(self, message, frame=None):
        headers = [("message", message), ("error-code", "1203")]
        if frame is not None and frame.receipt:
            headers.append(("receipt-id", frame.receipt.decode()))
        self.write(encode_frame("ERROR", headers, b"do something else", self.version))
        self.writer.close()

    def answer(self, raw):
        if self.server.hold_receipts:
            self.server.held.extend((self, receipt) for receipt in raw)
            self.server.moved.set()
        else:
            self.write(receipts(raw))

    def write(self, data):
        if data and not self.writer.is_closing():
            self.writer.write(data)


class MessageWriter:
    """What a StreamWriter is to a TCP peer; each write becomes a WebSocket message, text where it can be."""

    def __init__(self):
        self.frames = []
        self.closing = False

    def write(self, data):
        try:
            self.frames.append(data.decode())
        except UnicodeDecodeError:
            self.frames.append(data)

    def take(self):
        frames, self.frames = self.frames, []
        return frames

    def close(self):
        self.closing = True

    def is_closing(self):
        return self.closing

    async def wait_closed(self):
        pass


def said(head: Head, record: bytes) -> dict[str, str]:
    """All headers of a SEND: what is relayed, and what only a broker acts on."""
    return split(head.lines + record)[0] | head.headers


class FakeServer:
    """`async with FakeServer() as server: connect(server.url)`

    seen: (command, headers, body) of every frame.    refuse: commands answered with ERROR.
    stored: {destination: [(body, headers)]} for the first subscriber.
    hold_receipts: keep them in `held` until release().    accept: answer CONNECT at all.
    """

    def __init__(self, heartbeat="0,0", large_body_bytes=65536, tls=None, websocket=False):
        self.tls = tls
        self.websocket = websocket
        self.heartbeat = heartbeat
        self.large_body_bytes = large_body_bytes
        self.seen = []
        self.refuse = set()
        self.accept = True
        self.hold_receipts = False
        self.held = []
        self.stored = {}
        self.peers = []
        self.number = 0
        self.moved = asyncio.Event()

    async def __aenter__(self):
        if self.websocket:
            versions = ["v12.stomp", "v11.stomp"]
            self._server = await serve(self._serve_websocket, "127.0.0.1", 0, ssl=self.tls, subprotocols=versions)
        else:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = next(iter(self._server.sockets)).getsockname()[1]
        scheme = ("wss" if self.tls else "ws") if self.websocket else ("stomp+ssl" if self.tls else "stomp")
        self.url = f"{scheme}://localhost:{self.port}" if self.tls else f"{scheme}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for peer in self.peers:
            peer.writer.close()
            try:
                await peer.writer.wait_closed()
            except OSError:
                pass
        await asyncio.gather(*self._tasks(), return_exceptions=True)

    def _tasks(self):
        return [peer.task for peer in self.peers]

    async def _serve(self, reader, writer):
        peer = Peer(self, writer)
        peer.task = asyncio.current_task()
        self.peers.append(peer)
        try:
            while data := await reader.read(65536):
                for event in peer.wire.receive(data):
                    peer.handle(event)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def _serve_websocket(self, socket):
        self.offered = socket.request.headers["Sec-WebSocket-Protocol"]
        peer = Peer(self, MessageWriter())
        peer.task = asyncio.current_task()
        self.peers.append(peer)
        async for data in socket:
            for event in peer.wire.receive(data):
                peer.handle(event)
            for frame in peer.writer.take():
                await socket.send(frame)
            if peer.writer.is_closing():
                return

    def route(self, destination, lines):
        """MESSAGE to every subscriber. `lines`: relayed header lines, empty line, body, NUL."""
        for peer in self.peers:
            for id, wanted in peer.subscriptions.items():
                if wanted == destination:
                    self.number += 1
                    head = b"MESSAGE\nsubscription:%b\nmessage-id:m%d\nack:a%d\n"
                    message = head % (id.encode(), self.number, self.number) + lines
                    peer.write(rewrite_lines(message, peer.version))

    def publish(self, destination, body, headers=()):
        """A message from nowhere."""
        whole = encode_frame("X", [("destination", destination), *headers], body, Version.V12)
        self.route(destination, whole[2:])

    def release(self):
        """Sends the receipts that were held back."""
        self.hold_receipts = False
        for peer, receipt in self.held:
            peer.write(receipts([receipt]))
        self.held.clear()

    async def until_held(self, count):
        """Waits until so many receipts are held back."""
        while len(self.held) < count:
            self.moved.clear()
            await self.moved.wait()

    def frames(self, command):
        return [(headers, body) for name, headers, body in self.seen if name == command]
