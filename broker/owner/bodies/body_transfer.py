"""A large body from a file of this owner to a file of another one.

Rule: one piece is read at a time and a bounded number is under way; `then` is called exactly once.
Must not know why it travels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from broker.core.message import Blob

PIECE: Final = 64 * 1024
WINDOW: Final = 1024 * 1024

Then = Callable[["Blob | None", str], None]
"""then(the body there, "") or then(None, why)."""


class BodyPieces(Protocol):
    """bodies.FileBodyReader."""

    def read(self, n: int, done: Callable[[bytes | None, str], None]) -> None: ...
    def close(self) -> None: ...


class BodySink(Protocol):
    """The port's BodyWriter."""

    @property
    def pending(self) -> int: ...

    def write(self, data: bytes) -> None: ...
    def finish(self, sync: bool, done: Then) -> None: ...
    def abort(self) -> None: ...


class Carry:
    """One of them under way; begins at once. `sink(on_drain)` makes the other end.

    unread   it was our end that failed."""

    def __init__(self, source: BodyPieces, sink: Callable[[Callable[[], None]], BodySink], then: Then) -> None:
        self._source = source
        self._then = then
        self._reading = False
        self._over = self.unread = False
        self._sink = sink(self._go_on)
        self._go_on()

    def drop(self) -> None:
        """What has come there is not needed any more."""
        self._sink.abort()

    def _go_on(self) -> None:
        # Three callers (begin, a piece has come, the sink has drained) and one condition: whoever is last goes on.
        if not self._reading and not self._over and self._sink.pending <= WINDOW:
            self._reading = True
            self._source.read(PIECE, self._arrived)

    def _arrived(self, data: bytes | None, why: str) -> None:
        self._reading = False
        if data is None:
            self._over = self.unread = True
            self._source.close()
            self._sink.abort()
            self._then(None, why)
        elif data:
            self._sink.write(data)
            self._go_on()
        else:
            self._over = True
            self._source.close()
            # Synced there before `then`: the message that names it is published next, and must not be durable without
            # it (I3).
            self._sink.finish(True, self._then)
