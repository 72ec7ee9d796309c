"""Large bodies between an edge and an owner's files: the edge's half.

Rule: pieces of at most CHUNK bytes, at most WINDOW of them on one link that the owner has not written yet: small
commands never wait behind a body. A body belongs to one stream and one leader; when these are over it is sent again
from its beginning, as long as it is kept (body_spool.py), or else fails. One on its way to a client goes on where it
was, if whom it is for is known (downloads.py).
"""

# Example. Two clients send 10 MB each to owner A over one link, a third one sends small messages.
#     pump     a piece of 64 KiB of one body, one of the other, in turn, while less than 1 MiB is unwritten at A
#     batches  leave between the pieces: a small SEND waits for 1 MiB at most, not for 20 MB
#     written  A's file has so much: the window opens, and the clients' sockets are read on (on_drain)
#     stored   all of it is on A's disk: only now the SEND itself goes, with the body's number at A

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from broker.core.errors import CODES, Code
from broker.core.message import Blob
from broker.rpc.v1 import link_pb2 as pb

from ..owner_port import Away, Rotten
from .body_spool import Kept

CHUNK: Final = 64 * 1024
WINDOW: Final = 1024 * 1024
MOVED: Final = "another owner serves this destination now"
"""What an owner answers that does not lead the slot. Until 0.3 that text alone is enough: an owner older than 0.2 says
no more, and slots move while a cluster is upgraded."""
NOT_HELD: Final = "the message went with an owner of earlier times"
"""… when the consumer that a body is for does not hold the message (any more)."""
NOT_KEPT: Final = "its owner changed, and it could not be kept to be sent again"

Soon = Callable[[Callable[[], None]], object]
"""Runs the callback soon in this thread, never from within the call."""


class Carrier(Protocol):
    """The stream's side."""

    def send_body(self, body: pb.Body) -> None: ...


class BodyUp:
    """link.port.BodyWriter over a link. Until start() it only gathers (the slot has no owner at the moment).

    kept    all of it, so that it can be sent again; None: it cannot.
    opening   which one of its channel it was begun in.
    lost    called with a body that shall be sent again, from its beginning, to the leader of now."""

    __slots__ = (
        "_attempt",
        "_closed",
        "_done",
        "_ended",
        "_failed",
        "_kept",
        "_loaded",
        "_loading",
        "_lost",
        "_on_drain",
        "_pieces",
        "_size",
        "_soon",
        "_stored",
        "_sync",
        "_written",
        "hub",
        "id",
        "opening",
        "slot",
    )

    def __init__(
        self,
        slot: int,
        on_drain: Callable[[], None],
        soon: Soon,
        kept: Kept | None = None,
        lost: Callable[[BodyUp], None] | None = None,
    ) -> None:
        self.slot = slot
        self.id = 0
        self.opening = 0
        self.hub: BodyHub | None = None
        self._soon = soon
        self._on_drain = on_drain
        self._kept = kept
        self._lost = lost
        self._attempt = 0
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._loaded = 0
        """So much of it has been in `_pieces`, for this attempt."""
        self._loading = False
        self._written = 0
        self._sync: bool | None = None
        self._ended = False
        self._stored = False
        """It has been with an owner: from then on its message sees to it."""
        self._done: Callable[[Blob | None, str], None] | None = None
        self._failed = ""
        self._closed = False

    # ── the edge ───────────────────────────────────────────────────────────────────────────────────

    @property
    def pending(self) -> int:
        if self._failed or self._closed:
            return 0
        # The slower of owner and spool decides how fast the client is read.
        unwritten = self._size - self._written
        return unwritten if self._kept is None else max(unwritten, self._kept.pending)

    def write(self, data: bytes) -> None:
        if self._failed or self._closed:
            return
        # After a rewind pieces come from the spool; what the client sends meanwhile goes there, behind them.
        behind = self._loaded < self._size
        self._size += len(data)
        if self._kept is not None:
            self._kept.add(data)
        if not behind:
            self._put(data)
        elif self._kept is None or self._kept.lost:
            self.give_up(NOT_KEPT)
        if self.hub is not None:
            self.hub.pump()

    def finish(self, sync: bool, done: Callable[[Blob | None, str], None]) -> None:
        self._sync = sync
        self._done = done
        if self._failed:
            self._soon(self._tell_failed)
        elif self.hub is not None:
            self.hub.pump()

    def abort(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._done = None
        self._pieces.clear()
        self.release()
        if self.hub is not None and not self._failed:
            self.hub.close(self.id)

    # ── its message ────────────────────────────────────────────────────────────────────────────────

    def again(self, hub: BodyHub, done: Callable[[Blob | None, str], None]) -> bool:
        """The message has come to an owner that does not have the body. False: it cannot be sent again."""
        if not self._rewind():
            return False
        self._done = done
        hub.begin(self)
        return True

    def release(self) -> None:
        """It is not needed again."""
        if self._kept is not None:
            self._kept.close()

    # ── the link ───────────────────────────────────────────────────────────────────────────────────

    def start(self, hub: BodyHub, opening: int) -> None:
        """The slot has an owner: begin. opening: which of its openings that is."""
        self.opening = opening
        if not self._closed and not self._failed:
            hub.begin(self)

    def next_piece(self) -> bytes | None:
        if self._pieces:
            return self._pieces.popleft()
        # One piece under way from the spool: memory does not grow with the body.
        if self._loaded < self._size and not self._loading:
            self._load()
        return None

    def end_of_body(self) -> bool | None:
        """Whether to sync, once, when everything has been sent and finish() was called; else None."""
        if self._ended or self._pieces or self._loaded < self._size:
            return None
        # Said once; an attempt that begins anew says it again.
        self._ended = self._sync is not None
        return self._sync

    def written(self, nbytes: int) -> None:
        self._written += nbytes
        self._on_drain()

    def stored(self, blob: Blob) -> None:
        self._stored = True
        self._on_drain = _nothing  # who sends it has nothing to do with what becomes of it: no ring of objects
        if self._kept is not None:
            self._kept.drain_unheard()
        done, self._done = self._done, None
        if done is not None:
            done(blob if self._kept is None or self._kept.lost else KeptBlob(blob, self), "")

    def away(self, why: str) -> bool:
        """Its owner cannot store it, through no fault of the body. True: it is sent again, or its message knows."""
        # Nothing kept: a body that is half with an owner who is gone cannot be finished.
        if not self._rewind():
            self.failed(why)
            return False
        if not self._stored and self._lost is not None:
            self._lost(self)
        return True

    def failed(self, why: str) -> None:
        """It cannot be stored. The edge hears it with finish()."""
        if self._failed or self._closed:
            return
        self._failed = why
        self._pieces.clear()
        self.release()
        if self._done is not None:
            self._soon(self._tell_failed)
        else:
            self._soon(self._on_drain)

    def give_up(self, why: str) -> None:
        """As failed(), and the owner hears it."""
        if self.hub is not None and not self._failed and not self._closed:
            self.hub.close(self.id)
        self.failed(Away(why))

    @property
    def kept(self) -> bool:
        return self._kept is not None and not self._kept.lost

    # ── from the beginning ─────────────────────────────────────────────────────────────────────────

    def _rewind(self) -> bool:
        if self._failed or self._closed or not self.kept:
            return False
        self.hub = None
        self.id = 0
        # Reads from the spool that were under way belong to the last attempt.
        self._attempt += 1
        self._pieces.clear()
        self._loaded = self._written = 0
        self._loading = self._ended = False
        return True

    def _put(self, data: bytes) -> None:
        self._loaded += len(data)
        if len(data) <= CHUNK:
            self._pieces.append(data)
        else:
            self._pieces += [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]

    def _load(self) -> None:
        assert self._kept is not None
        self._loading = True
        if self._kept.lost:
            self._soon(partial(self._arrived, self._attempt, None))
        else:
            self._kept.read(self._loaded, partial(self._read, self._attempt))

    def _read(self, attempt: int, data: bytes | None) -> None:
        """Perhaps from within a pump."""
        self._soon(partial(self._arrived, attempt, data))

    def _arrived(self, attempt: int, data: bytes | None) -> None:
        if attempt != self._attempt or self._failed or self._closed:
            return
        self._loading = False
        if data is None:
            self.give_up(NOT_KEPT)
            return
        self._put(data)
        if self.hub is not None:
            self.hub.pump()

    def _tell_failed(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(None, self._failed)


class KeptBlob(Blob):
    """What is stored, and can be sent again until its message is answered."""

    __slots__ = ("body",)

    def __init__(self, blob: Blob, body: BodyUp) -> None:
        super().__init__(blob.id, blob.length)
        self.body = body


class BodyDown:
    """link.port.BodyReader over a link.

    length   bytes of all of it.    received   of these.
    lost     called with a body that shall go on with the leader of now; None: that is not possible."""

    __slots__ = ("_done", "_failed", "_parts", "_soon", "_wanted", "closed", "hub", "id", "length", "lost", "received")

    def __init__(self, soon: Soon, length: int, lost: Callable[[BodyDown], None] | None = None) -> None:
        self.id = 0
        self.hub: BodyHub | None = None
        self.length = length
        self.received = 0
        self.lost = lost
        self.closed = False
        self._soon = soon
        self._parts: list[bytes] = []
        self._wanted = 0
        self._done: Callable[[bytes | None, str], None] | None = None
        self._failed = ""

    # ── the edge ───────────────────────────────────────────────────────────────────────────────────

    def read(self, n: int, done: Callable[[bytes | None, str], None]) -> None:
        self._done, self._wanted = done, n
        if self._failed or (self.hub is None and self.lost is None):
            self._soon(self._tell_failed)
        elif self.hub is not None:
            self.hub.send(pb.Body(id=self.id, want=n))

    def close(self) -> None:
        self.closed = True
        self._done = self.lost = None
        if self.hub is not None and not self._failed:
            self.hub.close(self.id)

    # ── the link ───────────────────────────────────────────────────────────────────────────────────

    @property
    def wants(self) -> int:
        """Bytes that are waited for."""
        return self._wanted if self._done is not None else 0

    def data(self, piece: bytes) -> None:
        self._parts.append(piece)
        self.received += len(piece)
        self._wanted -= len(piece)

    def end(self) -> None:
        """All that was wanted is here, or there is no more."""
        parts, self._parts = self._parts, []
        done, self._done = self._done, None
        if done is not None:
            done(b"".join(parts), "")

    def away(self, why: str) -> None:
        """The edge that sends it cannot go on, through no fault of the body."""
        self.hub = None
        # Nobody holds its message: the message is gone, or was never delivered to a consumer.
        if self.lost is None:
            self.failed(why)
        else:
            self.lost(self)

    def again(self) -> bool:
        """It may go on. False: nothing is left to be asked for."""
        if self._done is not None and (self._wanted <= 0 or self.received >= self.length):
            self.end()  # all but these words had come
        return not self.closed and not self._failed and self.received < self.length

    def failed(self, why: str) -> None:
        if not self._failed:
            self._failed = why
            self._soon(self._tell_failed)

    def _tell_failed(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(None, self._failed or Away("the owner cannot be reached"))


class BodyHub:
    """All bodies of one stream."""

    __slots__ = ("_carrier", "_inflight", "_number", "_unwritten", "downs", "ups")

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._number = 0
        self._inflight = 0
        self._unwritten: dict[int, int] = {}
        self.ups: dict[int, BodyUp] = {}
        self.downs: dict[int, BodyDown] = {}

    def begin(self, body: BodyUp) -> None:
        self._number += 1
        body.id = self._number
        body.hub = self
        self.ups[body.id] = body
        # Window per link, counted per body: what a body that is closed had under way comes back.
        self._unwritten[body.id] = 0
        self.send(pb.Body(id=body.id, write=body.slot, slot=body.slot))
        self.pump()

    def open(self, body: BodyDown, slot: int, blob: Blob) -> None:
        self._number += 1
        body.id = self._number
        body.hub = self
        self.downs[body.id] = body
        self.send(pb.Body(id=body.id, slot=slot, read=pb.Blob(id=blob.id, length=blob.length)))

    def go_on(self, body: BodyDown, slot: int, consumer: int, message: int) -> None:
        """An owner that knows nothing of it has its message with this consumer."""
        if not body.again():
            return
        self._number += 1
        body.id = self._number
        body.hub = self
        self.downs[body.id] = body
        rest = pb.Body(
            id=body.id, slot=slot, read=pb.Blob(length=body.length), consumer=consumer, message=message,
            offset=body.received,
        )  # fmt: skip
        self.send(rest)
        if body.wants:
            self.send(pb.Body(id=body.id, want=body.wants))

    def send(self, body: pb.Body) -> None:
        self._carrier.send_body(body)

    def close(self, id: int) -> None:
        """The edge has no use for it any more."""
        self.ups.pop(id, None)
        self.downs.pop(id, None)
        self._inflight -= self._unwritten.pop(id, 0)
        self.send(pb.Body(id=id, close=True))
        self.pump()

    def withdraw(self, slot: int) -> None:
        """The slot is led by nobody here now: nothing would ever be published of what is kept for it here."""
        for id, body in [(id, body) for id, body in self.ups.items() if body.slot == slot and body.kept]:
            self.close(id)
            body.away("")

    def pump(self) -> None:
        """Sends pieces in turn, one of each body, as far as the window goes."""
        busy = True
        while busy:
            busy = False
            # A copy: sending may end a body.
            for body in list(self.ups.values()):
                if self._inflight < WINDOW and (piece := body.next_piece()) is not None:
                    busy = True
                    self._inflight += len(piece)
                    self._unwritten[body.id] += len(piece)
                    self.send(pb.Body(id=body.id, data=piece))
                if (sync := body.end_of_body()) is not None:
                    self.send(pb.Body(id=body.id, finish=sync))

    def on_body(self, message: pb.Body) -> None:
        """From the owner. An unknown id has been closed meanwhile."""
        kind = message.WhichOneof("kind")
        up, down = self.ups.get(message.id), self.downs.get(message.id)
        if up is not None:
            if kind == "written":
                # Never below zero, whatever an owner says.
                done = min(message.written, self._unwritten[up.id])
                self._unwritten[up.id] -= done
                self._inflight -= done
                up.written(done)
                self.pump()
            elif kind == "stored":
                self.ups.pop(message.id)
                self._inflight -= self._unwritten.pop(message.id, 0)
                up.stored(Blob(message.stored.id, message.stored.length))
            elif kind == "failed":
                self.ups.pop(message.id)
                self._inflight -= self._unwritten.pop(message.id, 0)
                if _moved(message):
                    up.away(Away(message.failed))
                else:
                    up.failed(_why(message))
                self.pump()
        elif down is not None:
            if kind == "data":
                down.data(message.data)
            elif kind == "end":
                down.end()
            elif kind == "failed":
                self.downs.pop(message.id)
                if _moved(message):
                    down.away(Away(message.failed))
                else:
                    down.failed(_why(message))

    def lost(self, why: str) -> None:
        """The stream is over."""
        why = Away(why)
        ups, self.ups = self.ups, {}
        downs, self.downs = self.downs, {}
        for up in ups.values():
            up.hub = None
            up.away(why)
        for down in downs.values():
            down.away(why)


def _why(body: pb.Body) -> str:
    """What the owner said: of its disk, mostly."""
    if body.code:
        return Away(body.failed, CODES.get(body.code, Code.INTERNAL))
    if body.fault == pb.Body.ROTTEN:
        return Rotten(body.failed)
    return Away(body.failed) if body.fault == pb.Body.NOT_HELD else body.failed


def _moved(body: pb.Body) -> bool:
    """Does the owner that said so not lead the slot."""
    return body.fault == pb.Body.MOVED or body.failed == MOVED


def _nothing() -> None:
    """Nobody waits for the disk."""
