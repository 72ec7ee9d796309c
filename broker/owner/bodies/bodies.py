"""Large bodies: pieces go to a file and come back from it, in a thread of their own.

Rule: no process ever holds a whole body; at most PIECES of it are under way.
Must not know frames: it moves bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from broker.core.errors import CorruptJournal, JournalDead, JournalError
from broker.core.message import Blob
from broker.journal.bodies.blobs import BlobStore, BlobWriter
from broker.journal.bodies.bodies import BodyFile

from ..commit.io_thread import Io


class FileBodyWriter:
    """link.port.BodyWriter over a blob file. `broken` makes what is said of a disk that has failed: that is not the
    same as one that is full."""

    __slots__ = ("_broken", "_error", "_io", "_on_drain", "_writer", "pending")

    def __init__(
        self, store: BlobStore, io: Io, on_drain: Callable[[], None], broken: Callable[[str], str] = str
    ) -> None:
        self._broken = broken
        self._writer: BlobWriter = store.create()
        self._io = io
        self._on_drain = on_drain
        self._error = ""
        self.pending = 0

    def write(self, data: bytes) -> None:
        self.pending += len(data)
        # The sender looks at `pending` and pauses: what is under way is bounded there, not by refusing here.
        self._io.submit(partial(self._writer.write, data), partial(self._written, len(data)))

    def _written(self, n: int, _: Any, error: BaseException | None) -> None:
        self.pending -= n
        if error is not None and not self._error:
            self._error = self._text(error)
        self._on_drain()

    def _text(self, error: BaseException | None) -> str:
        text = str(error) or type(error).__name__
        return self._broken(text) if isinstance(error, JournalDead) else text

    def finish(self, sync: bool, done: Callable[[Blob | None, str], None]) -> None:
        def finished(blob: Blob | None, error: BaseException | None) -> None:
            # The first error counts; pieces that came behind it were written in vain, and the file goes.
            if self._error or error is not None:
                self.abort()
                done(None, self._error or self._text(error))
            else:
                done(blob, "")

        self._io.submit(partial(self._writer.finish, sync), finished)

    def abort(self) -> None:
        self._io.submit(self._writer.abort, _ignore)


class FileBodyReader:
    """link.port.BodyReader over a blob file; opened at once, so the file may be unlinked meanwhile.

    The first read looks at all of it, a few pieces per turn of the thread: who has got the first byte gets the last.
    A file that cannot be opened is told by the first read too: it is the affair of one consumer, not of the owner, in
    whose turn this is made. `lost` makes what is said of a body that is damaged or missing."""

    __slots__ = ("_checked", "_error", "_io", "_length", "_lost", "_offset", "_reader")

    def __init__(self, store: BlobStore, io: Io, blob: Blob, lost: Callable[[str], str] = str, offset: int = 0) -> None:
        self._reader: BodyFile | None = None
        self._error = ""
        self._io = io
        self._offset, self._checked = offset, 0
        self._length = blob.length
        self._lost = lost
        try:
            self._reader = store.open(blob.id, blob.length)
        except CorruptJournal as error:
            self._error = lost(str(error))
        except JournalError as error:
            self._error = str(error)

    def read(self, n: int, done: Callable[[bytes | None, str], None]) -> None:
        def arrived(data: bytes | None, error: BaseException | None) -> None:
            if error is not None or data is None:
                self._failed(error, done)
            else:
                self._offset += len(data)
                done(data, "")

        def checked(end: int, error: BaseException | None) -> None:
            if error is not None:
                self._failed(error, done)
            else:
                self._checked = end
                self.read(n, done)

        if self._reader is None:
            self._io.submit(_nothing, lambda *_: done(None, self._error))
        elif self._checked < self._length:
            # In steps through the thread's queue, so other bodies are served in between. A consumer that has got half
            # of a body when rot is found could not be told so: STOMP has no way to take a MESSAGE back.
            self._io.submit(partial(self._reader.check, self._checked), checked)
        else:
            self._io.submit(partial(self._reader.read, self._offset, n), arrived)

    def _failed(self, error: BaseException | None, done: Callable[[bytes | None, str], None]) -> None:
        done(None, self._lost(str(error)) if isinstance(error, CorruptJournal) else str(error))

    def close(self) -> None:
        if self._reader is not None:
            self._io.submit(self._reader.close, _ignore)


def _nothing() -> None:
    """Answers come from the loop, never from within the call."""


def _ignore(_: Any, __: BaseException | None) -> None:
    """A failed clean-up is found again as an orphan at the next start."""
