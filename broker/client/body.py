"""A large body on its way in: pieces wait here until the application asks for them.

Pieces are held in memory up to a bound; above it the connection stops reading, unless the application waits for a
receipt that stands behind this body on the wire: then the rest goes to an unnamed temporary file, so that neither
memory nor the wait is unbounded.

Rule: one producer (the connection), one reader; pieces come out in order, each once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from broker.seams.files import OsFile, temporary_file

from .errors import ClientError

FILE_PIECE = 256 * 1024


class BodyStream:
    """Pieces of one body.

    discarded  the application does not want it (any more): pieces are dropped as they come.
    """

    __slots__ = ("_account", "_arrived", "_done", "_error", "_file", "_held", "_pieces", "_read", "_written",
                 "discarded")  # fmt: skip

    def __init__(self, account: Callable[[int], None]) -> None:
        """`account` is told by how many bytes the memory held here grows or shrinks."""
        self._account = account
        self._pieces: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._done = False
        self._error: Callable[[], ClientError] | None = None
        self._file: OsFile | None = None
        self._written = self._read = 0
        self._held = 0
        self.discarded = False

    def feed(self, piece: bytes, to_disk: bool) -> None:
        """Takes the next piece. `to_disk`: memory is full, but reading must go on."""
        if self.discarded:
            return
        if self._file is None and not to_disk:
            self._pieces.append(piece)
            self._held += len(piece)
            self._account(len(piece))
        else:
            if self._file is None:
                self._file = temporary_file()
            self._spill(self._file, piece)
        self._arrived.set()

    def _spill(self, file: OsFile, piece: bytes) -> None:
        # Written in the loop: it goes to the page cache, which costs less than a thread per piece.
        while piece:
            done = file.pwrite(piece, self._written)
            self._written += done
            piece = piece[done:]

    def end(self) -> None:
        """All pieces have come."""
        self._done = True
        self._arrived.set()

    def fail(self, error: Callable[[], ClientError]) -> None:
        """The connection is over before the end of the body; `error` makes what is to be raised."""
        if not self._done:
            self._error = error
            self._arrived.set()

    def discard(self) -> None:
        """Forgets what is here and what is still to come."""
        self.discarded = True
        self._pieces.clear()
        held, self._held = self._held, 0
        if self._file is not None:
            self._file.close()
            self._file = None
        self._account(-held)

    async def next(self) -> bytes:
        """The next piece; b"" at the end. Raises ConnectionLost or ServerError when it cannot be completed."""
        while True:
            if self._pieces:
                piece = self._pieces.popleft()
                self._held -= len(piece)
                self._account(-len(piece))
                return piece
            if self._file is not None and self._read < self._written:
                piece = self._file.pread(FILE_PIECE, self._read)
                self._read += len(piece)
                return piece
            if self._error is not None:
                raise self._error()
            if self._done:
                self.discard()
                return b""
            self._arrived.clear()
            await self._arrived.wait()
