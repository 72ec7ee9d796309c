"""What an edge keeps of large bodies until their messages are safe: the next leader may have to be sent them again.

Rule: bounded: of a body at most SPILL bytes stay in memory, the rest goes to a file without a name, which ends with the
process whatever happens to that; all bodies together take at most `limit`. One that does not fit there, or whose file
fails, is not kept: it goes on its way all the same. Must not know which owner leads.
"""

# Example. A client sends 80 MB for slot 9. The edge passes each piece on to the owner and keeps it, too:
#     1 MiB     in memory; then to a file without a name, piece by piece
#     owner     is gone at 50 MB: the next one gets the 50 from the file, then what the client sends meanwhile behind
#               it
#     answered  the SEND is safe with all in-sync replicas: closed, and the kernel frees the file
# If the edge dies, so do its clients' connections: nobody waits for the body, and a file without a name is gone with
# it.

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from broker.core.metrics import Metric
from broker.journal.log.store import read_all, write_all
from broker.owner.commit.io_thread import Io
from broker.seams.files import File

log = logging.getLogger("stampede.link")

SPILL = 1024 * 1024
"""Of a body in memory, before it is written. Most never come to it, and need no file."""
MANY_BYTES = 64 * 1024 * 1024
"""With so much of all bodies in memory ..."""
PIECE = 128 * 1024
"""... so little of each stays there. Also what is read back at a time."""


class BodySpool:
    """All bodies an edge keeps. io: a thread for their files. new_file: one that is gone when it is closed."""

    def __init__(self, io: Io, new_file: Callable[[], File], limit: int) -> None:
        self.io = io
        self.new_file = new_file
        self.nbytes = 0
        self.in_memory = 0
        self.given_up = 0
        self._limit = limit
        self._warned = False

    def keep(self, on_drain: Callable[[], None]) -> Kept:
        """A new body. on_drain: some of it was written."""
        return Kept(self, on_drain)

    def room(self, nbytes: int) -> bool:
        return self.nbytes + nbytes <= self._limit

    @property
    def spill(self) -> int:
        # Many bodies at a time: of each less stays in memory, and files are made earlier.
        return SPILL if self.in_memory < MANY_BYTES else PIECE

    def gave_up(self, why: str) -> None:
        """A body is not kept."""
        self.given_up += 1
        if not self._warned:
            # Once: it goes on for as long as it lasts, and the metric counts.
            self._warned = True
            log.warning("a large body is not kept, so it is refused if its owner changes: %s", why)

    def metrics(self) -> list[Metric]:
        return [
            Metric("stomp_kept_body_bytes", "gauge", "Of large bodies whose messages are not safe yet.",
                   [({}, float(self.nbytes))]),
            Metric("stomp_kept_bodies_given_up_total", "counter", "Large bodies that could not be kept.",
                   [({}, float(self.given_up))]),
        ]  # fmt: skip


class Kept:
    """One body, from its first byte on.

    size      bytes of it so far.    pending   of these on their way to the file.
    lost      it is not kept (any more)."""

    __slots__ = ("_file", "_flushed", "_keeper", "_on_drain", "_tail", "lost", "pending", "size")

    def __init__(self, keeper: BodySpool, on_drain: Callable[[], None]) -> None:
        self.size = self.pending = 0
        self.lost = False
        self._keeper = keeper
        self._on_drain = on_drain
        self._flushed = 0
        """What lies before it is in the file, or on its way; what lies behind it in `_tail`."""
        self._tail: list[bytes] = []
        self._file: _Spill | None = None

    def drain_unheard(self) -> None:
        """Nobody waits for what is written any more."""
        self._on_drain = _nothing

    def __del__(self) -> None:
        """A message that was never sent on its way is not answered either."""
        # The last resort, not the rule: an entry that is dropped somewhere must not keep its bytes counted for ever.
        self.close()

    def add(self, data: bytes) -> None:
        if self.lost:
            return
        keeper = self._keeper
        # Not kept is not refused: it goes on its way, and fails only if its owner changes now.
        if not keeper.room(len(data)):
            self._give_up("all of them together take as much as they may (cluster.kept_body_bytes)")
            return
        self.size += len(data)
        keeper.nbytes += len(data)
        keeper.in_memory += len(data)
        self._tail.append(data)
        if self.size - self._flushed >= keeper.spill:
            self._write()

    def read(self, offset: int, done: Callable[[bytes | None], None]) -> None:
        """Some bytes from there on; None when they cannot be had. There must be some, and it must not be lost."""
        if self._file is not None and offset < self._flushed:
            n = min(PIECE, self._flushed - offset)
            self._keeper.io.submit(partial(self._file.read, n, offset), partial(self._read, n, done))
        else:
            start = offset - self._flushed
            done(b"".join(self._tail)[start : start + PIECE])

    def close(self) -> None:
        """Nobody needs it any more."""
        if self.lost:
            return
        self.lost = True
        keeper = self._keeper
        keeper.nbytes -= self.size
        keeper.in_memory -= self.size - self._flushed
        self._tail = []
        self.pending = 0
        if self._file is not None:
            keeper.io.submit(self._file.close, _ignore)

    def _give_up(self, why: str) -> None:
        self.close()
        self._keeper.gave_up(why)

    def _write(self) -> None:
        if self._file is None:
            self._file = _Spill(self._keeper.new_file)
        data, self._tail = b"".join(self._tail), []
        # Counted as written when it is handed to the thread: reads go through the same thread, behind it.
        at, self._flushed = self._flushed, self.size
        self.pending += len(data)
        self._keeper.in_memory -= len(data)
        self._keeper.io.submit(partial(self._file.write, data, at), partial(self._written, len(data)))

    def _written(self, nbytes: int, _: Any, error: BaseException | None) -> None:
        if self.lost:
            return
        self.pending -= nbytes
        if error is not None:
            self._give_up(f"it cannot be written: {error}")
        self._on_drain()

    def _read(self, wanted: int, done: Callable[[bytes | None], None], data: Any, error: BaseException | None) -> None:
        if self.lost or error is not None or len(data) != wanted:
            if not self.lost:
                self._give_up(f"it cannot be read back: {error or 'its file is too short'}")
            done(None)
        else:
            done(data)


class _Spill:
    """The file; made with the first write. For the thread."""

    __slots__ = ("_file", "_new")

    def __init__(self, new: Callable[[], File]) -> None:
        self._new = new
        self._file: File | None = None

    def write(self, data: bytes, offset: int) -> None:
        if self._file is None:
            self._file = self._new()
        write_all(self._file, data, offset)

    def read(self, n: int, offset: int) -> bytes:
        assert self._file is not None
        return read_all(self._file, n, offset)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _ignore(_: Any, __: BaseException | None) -> None:
    """It has no name: nothing can be left of it."""


def _nothing() -> None:
    """For whom nobody listens."""
