"""Large bodies between an edge and this owner's files: the owner's half.

Rule: one piece of a body that is read is under way at a time; what is written is counted back when it is in the file. A
body that is complete but not published yet survives its stream, because its Publish may come again on the next one; it
does not survive the epoch in which its slot is led here, because then that goes to another owner.
Must not know commands.
"""

# Example. Edge E uploads a body for slot 9, led here in epoch 4.
#     stored     the file is complete; `_stored` has it, no message names it yet
#     stream     breaks: it stays, for E sends the Publish that names it again on the next stream
#     publish    the Publish is here: the body is the log's now
#     told       E has repeated all it asks of 9 and did not name the body: it never heard that it was complete. It
#                goes
#     epoch 5    9 is led elsewhere: E's Publish goes there, so the file here goes (sweep)

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

from broker.core.message import Blob
from broker.rpc.v1 import link_pb2 as pb

from ..codec.codec import malformed
from ..owner_port import Away, BodyReader, BodyWriter, Rotten
from .edge_bodies import CHUNK, MOVED, NOT_HELD

NewBody = Callable[[int, Callable[[], None]], BodyWriter]
Found = Callable[[Blob | None], None]
FindBody = Callable[[int, int, int, Found], None]
"""(slot, consumer, message, found): the body of a message that the consumer holds; None if it does not."""


class OpenBody(Protocol):
    """A reader of the slot's body, from that byte on."""

    def __call__(self, slot: int, blob: Blob, offset: int = 0) -> BodyReader: ...


REMEMBERED = 1024
"""Published bodies whose ids are kept: a Publish that is sent again names one that was taken already."""


class BodyTarget(Protocol):
    """The way back to the edge."""

    def send_body(self, body: pb.Body) -> None: ...
    def epoch(self, slot: int) -> int | None:
        """In which the slot is led here, if the edge has opened it on its present stream; else None."""
        ...

    def find(self, slot: int, consumer: int, message: int, found: Found) -> None:
        """As FindBody; `consumer` by the edge's own number."""
        ...


class BodyUpload:
    """One body on its way to a file.    slot, epoch: for whom, and in which it was led here."""

    __slots__ = ("_target", "_told", "epoch", "finished", "id", "received", "slot", "writer")

    def __init__(self, id: int, slot: int, epoch: int, target: BodyTarget | None) -> None:
        self.id = id
        self.slot = slot
        self.epoch = epoch
        self.received = 0
        self.finished = False
        self.writer: BodyWriter | None = None
        self._told = 0
        self._target = target

    def drained(self) -> None:
        if self.writer is None or self._target is None:
            return
        done = self.received - self.writer.pending
        if done > self._told:
            self._target.send_body(pb.Body(id=self.id, written=done - self._told))
            self._told = done

    def orphan(self) -> None:
        """Nobody hears of it any more."""
        self._target = None


class Sought:
    """A BodyReader of what is looked for first."""

    __slots__ = ("_asked", "_closed", "_lost", "_reader")

    def __init__(self) -> None:
        self._reader: BodyReader | None = None
        self._asked: tuple[int, Callable[[bytes | None, str], None]] | None = None
        self._lost = self._closed = False

    def found(self, reader: BodyReader | None) -> None:
        if self._closed:
            if reader is not None:
                reader.close()
            return
        self._reader, self._lost = reader, reader is None
        asked, self._asked = self._asked, None
        if asked is not None:
            self.read(*asked)

    def read(self, n: int, done: Callable[[bytes | None, str], None]) -> None:
        if self._reader is not None:
            self._reader.read(n, done)
        elif self._lost:
            done(None, Away(NOT_HELD))
        else:
            self._asked = (n, done)

    def close(self) -> None:
        self._closed = True
        self._asked = None
        if self._reader is not None:
            self._reader.close()


class Outgoing:
    """One body on its way from a file."""

    __slots__ = ("_left", "_reader", "_target", "id")

    def __init__(self, id: int, reader: BodyReader, target: BodyTarget) -> None:
        self.id = id
        self._reader = reader
        self._target: BodyTarget | None = target
        self._left = 0

    def want(self, n: int) -> None:
        self._left = n
        self._next()

    def close(self) -> None:
        if self._target is not None:
            self._target = None
            self._reader.close()

    def _next(self) -> None:
        self._reader.read(min(CHUNK, self._left), self._arrived)

    def _arrived(self, data: bytes | None, why: str) -> None:
        target = self._target
        if target is None:
            return
        if data is None:
            lost = pb.Body.ROTTEN if isinstance(why, Rotten) else pb.Body.DISK
            fault = pb.Body.NOT_HELD if isinstance(why, Away) else lost
            target.send_body(pb.Body(id=self.id, failed=why, fault=fault))
            self.close()
            return
        self._left -= len(data)
        if data:
            target.send_body(pb.Body(id=self.id, data=data))
        if not data or self._left <= 0:
            target.send_body(pb.Body(id=self.id, end=not data))
        else:
            self._next()


class OwnerBodies:
    """All bodies of one edge."""

    def __init__(self, target: BodyTarget, new_body: NewBody, open_body: OpenBody) -> None:
        self._target = target
        self._new_body = new_body
        self._open_body = open_body
        self._incoming: dict[int, BodyUpload] = {}
        self._outgoing: dict[int, Outgoing] = {}
        self._stored: dict[int, BodyUpload] = {}
        """Blob id → complete and not published."""
        self._published: dict[int, None] = {}

    def on_body(self, message: pb.Body) -> None:
        """A step from the edge. Raises ProtocolViolation."""
        kind = message.WhichOneof("kind")
        if kind == "write":
            self._begin(message.id, message.write)
        elif kind == "read":
            self._read(message)
        elif kind == "close":
            self._close(message.id)
        elif kind == "want":
            outgoing = self._outgoing.get(message.id)
            # Unknown: closed meanwhile, on one side or the other.
            if outgoing is not None:
                outgoing.want(message.want)
        elif kind == "data" or kind == "finish":
            incoming = self._incoming.get(message.id)
            if incoming is None or incoming.writer is None:
                return  # refused, or failed: the edge hears it just now
            if kind == "data":
                incoming.received += len(message.data)
                incoming.writer.write(message.data)
            else:
                incoming.writer.finish(message.finish, partial(self._finished, incoming))
        else:
            raise malformed("an unknown kind of step of a large body")

    def publish(self, blob: Blob) -> bool:
        """A command refers to this body for the first time. False: it did before, or was not given to us."""
        stored = self._stored.pop(blob.id, None)
        if stored is not None:
            if self._incoming.get(stored.id) is stored:
                # Else it came on an earlier stream, and the number is another one's by now.
                del self._incoming[stored.id]
            self._published[blob.id] = None
            if len(self._published) > REMEMBERED:
                del self._published[next(iter(self._published))]
            return True
        return False

    def refused(self, blobs: list[int]) -> None:
        """What named these happens nowhere: their files go now, not when the edge's stream ends."""
        self._forget([blob for blob in blobs if blob in self._stored])

    def known(self, blob: Blob) -> bool:
        """Has a command referred to it before. What became of the file is that command's affair."""
        return blob.id in self._published

    def lost(self) -> None:
        """The stream is over: what is not complete never will be."""
        incoming, self._incoming = self._incoming, {}
        for body in incoming.values():
            body.orphan()
            if body.writer is not None and not body.finished:
                body.writer.abort()
        outgoing, self._outgoing = self._outgoing, {}
        for reading in outgoing.values():
            reading.close()

    def gone(self) -> None:
        """The edge is no more: nobody will publish what is complete."""
        self.lost()
        stored, self._stored = self._stored, {}
        for body in stored.values():
            if body.writer is not None:
                body.writer.abort()

    def sweep(self, served: Mapping[int, int]) -> None:
        """Of slots that are led elsewhere now (`served`: epochs of the rest) nothing will be published here."""
        self._forget([blob for blob, body in self._stored.items() if served.get(body.slot) != body.epoch])

    def told(self, slot: int) -> None:
        """The edge has repeated all it asks of the slot. That it never heard of a body which was complete when its
        stream ended is certain now."""
        stored = self._stored.items()
        self._forget([b for b, body in stored if body.slot == slot and self._incoming.get(body.id) is not body])

    def _forget(self, blobs: list[int]) -> None:
        """Nobody will publish these."""
        for blob in blobs:
            body = self._stored.pop(blob)
            if self._incoming.get(body.id) is body:
                del self._incoming[body.id]
            if body.writer is not None:
                body.writer.abort()

    def _begin(self, id: int, slot: int) -> None:
        if (epoch := self._target.epoch(slot)) is None:
            self._target.send_body(pb.Body(id=id, failed=MOVED, fault=pb.Body.MOVED))
            return
        # With the epoch in which it began: what becomes of it is decided by whether that still holds.
        incoming = self._incoming[id] = BodyUpload(id, slot, epoch, self._target)
        incoming.writer = self._new_body(slot, incoming.drained)

    def _finished(self, incoming: BodyUpload, blob: Blob | None, why: str) -> None:
        if self._incoming.get(incoming.id) is not incoming:
            # Closed, or its stream has ended meanwhile: nobody can publish it.
            if blob is not None and incoming.writer is not None:
                incoming.writer.abort()
            return
        incoming.drained()
        incoming.finished = True
        if blob is None:
            del self._incoming[incoming.id]
            code = why.code.number if isinstance(why, Away) else 0
            self._target.send_body(pb.Body(id=incoming.id, failed=why, code=code, fault=pb.Body.DISK))
            return
        # Asked at its end: it may have taken minutes.
        if self._target.epoch(incoming.slot) == incoming.epoch:
            self._stored[blob.id] = incoming
        elif incoming.writer is not None:
            del self._incoming[incoming.id]
            incoming.writer.abort()  # its Publish is refused, wherever it goes: that says best what has happened
        self._target.send_body(pb.Body(id=incoming.id, stored=pb.Blob(id=blob.id, length=blob.length)))

    def _read(self, message: pb.Body) -> None:
        if self._target.epoch(message.slot) is None:
            self._target.send_body(pb.Body(id=message.id, failed=MOVED, fault=pb.Body.MOVED))
            return
        reader: BodyReader
        if message.consumer:
            reader = Sought()
            found = partial(self._found, reader, message.slot, message.offset)
            self._target.find(message.slot, message.consumer, message.message, found)
        else:
            reader = self._open_body(message.slot, Blob(message.read.id, message.read.length))
        self._outgoing[message.id] = Outgoing(message.id, reader, self._target)

    def _found(self, reader: Sought, slot: int, offset: int, blob: Blob | None) -> None:
        reader.found(None if blob is None else self._open_body(slot, blob, offset))

    def _close(self, id: int) -> None:
        incoming = self._incoming.pop(id, None)
        if incoming is not None:
            incoming.orphan()
            for blob, stored in list(self._stored.items()):
                if stored is incoming:
                    del self._stored[blob]
            if incoming.writer is not None:
                incoming.writer.abort()
        outgoing = self._outgoing.pop(id, None)
        if outgoing is not None:
            outgoing.close()
