"""Large bodies that a leader sends ahead of their messages, on their way into files.

Rule: `whole` is said only of what is on stable storage, or of what nobody will ever ask for. Half a body is worth
nothing: it goes with its stream, as does a whole one that no message has named when its slot is followed elsewhere.
Must not know messages.
"""

# Example. Body 0x2a of 10 MB for a message of slot 9: begin → the file, `taken(0)`; 160 chunks, each answered when it
# is written; the last one makes the file synced, and `taken(whole)` is said. Only then the leader sends the item that
# names it. If the stream breaks before that item has come, the file goes: nobody will ever name it here, and another
# leader sends it anew under the same number.

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from ..commit.io_thread import Io


class IncomingWriter(Protocol):
    def write(self, data: bytes) -> None: ...
    def finish(self, sync: bool) -> Any: ...
    def abort(self) -> None: ...


class IncomingStore(Protocol):
    """What it asks of the journal's large bodies."""

    def has(self, id: int) -> bool: ...
    def receive(self, id: int) -> IncomingWriter: ...


class _Body:
    """slot of its message (-1: not known); length of it all; written: bytes in the file; whole: on stable storage."""

    __slots__ = ("length", "received", "slot", "whole", "writer", "written")

    def __init__(self, writer: IncomingWriter, slot: int, length: int) -> None:
        self.writer = writer
        self.slot = slot
        self.length = length
        self.received = 0
        self.written = 0
        self.whole = False


class IncomingBodies:
    """The bodies of one stream. acknowledge(id, bytes, whole) after each piece; failed(why), once, if the
    disk refuses."""

    __slots__ = ("_acknowledge", "_bodies", "_failed", "_io", "_store")

    def __init__(
        self,
        store: IncomingStore,
        io: Io,
        acknowledge: Callable[[int, int, bool], None],
        failed: Callable[[str], None],
    ) -> None:
        self._store = store
        self._io = io
        self._acknowledge = acknowledge
        self._failed = failed
        self._bodies: dict[int, _Body] = {}

    def whole(self, id: int) -> bool:
        """May a message that names it be logged."""
        body = self._bodies.get(id)
        # A copy may be here from an earlier stream, named by a message that is: then nothing has to travel.
        return self._store.has(id) or (body is not None and body.whole)

    def chunk(self, id: int, data: bytes) -> None:
        """A piece. What belongs to no body is ignored."""
        body = self._bodies.get(id)
        # A leader that says too little and sends too much must not fill the disk.
        if body is None or body.received + len(data) > body.length:
            return
        body.received += len(data)
        self._io.submit(partial(body.writer.write, data), partial(self._written, id, body, len(data)))

    def begin(self, id: int, length: int, slot: int) -> None:
        self._drop_referred()
        if self.whole(id):
            self._acknowledge(id, length, True)
            return
        body = self._bodies[id] = _Body(self._store.receive(id), slot, length)
        if length:
            self._acknowledge(id, 0, False)
        else:
            self._finish(id, body)

    def left(self, slot: int) -> None:
        """Nobody will name the slot's bodies on this stream: the leader of now sends them anew. The files go before
        those come; the old leader, who cannot use the answer, is not left waiting for it."""
        for id in [id for id, body in self._bodies.items() if body.slot == slot]:
            body = self._bodies.pop(id)
            if not self._store.has(id):
                self._io.submit(body.writer.abort, _ignore)
                # The old leader's other slots share this stream, and what waits there for an answer holds their
                # window.
                if not body.whole:
                    self._acknowledge(id, body.length, True)

    def _drop_referred(self) -> None:
        """What messages refer to by now is the journal's."""
        for id in [id for id, body in self._bodies.items() if body.whole and self._store.has(id)]:
            del self._bodies[id]

    def _written(self, id: int, body: _Body, nbytes: int, _: Any, error: BaseException | None) -> None:
        if self._bodies.get(id) is not body:
            return
        if error is not None:
            self._fail(error)
            return
        body.written += nbytes
        if body.written < body.length:
            self._acknowledge(id, body.written, False)
        else:
            self._finish(id, body)

    def _finish(self, id: int, body: _Body) -> None:
        self._io.submit(partial(body.writer.finish, True), partial(self._finished, id, body))

    def _finished(self, id: int, body: _Body, _: Any, error: BaseException | None) -> None:
        if self._bodies.get(id) is not body:
            return
        if error is not None:
            self._fail(error)
            return
        body.whole = True
        self._acknowledge(id, body.length, True)

    def _fail(self, error: BaseException) -> None:
        self.abort()
        self._failed(str(error) or type(error).__name__)

    def abort(self) -> None:
        """The stream is over: what no message refers to goes."""
        bodies, self._bodies = self._bodies, {}
        for id, body in bodies.items():
            if not self._store.has(id):
                self._io.submit(body.writer.abort, _ignore)


def _ignore(_: Any, __: BaseException | None) -> None:
    """A file that could not be removed is an orphan, which the next start removes."""
