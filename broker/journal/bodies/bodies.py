"""One large body in its file: the bytes, and behind them a checksum of each piece.

    bytes of the body; CRC u32 of each PIECE of them; magic `STMPBODY`, algorithm u8, 3 × pad, PIECE u32, length u64,
    CRC-32 of the checksums and all before it in this footer

Files that older releases wrote have the bytes only, and nothing to check them by but their length.

Rule: what does not check is never returned (CorruptJournal, which names the file). An error of the disk in such a file
is the affair of one message, and no end of the journal. Must not know who wants it, or why.
"""

from __future__ import annotations

import zlib
from array import array
from struct import Struct
from typing import Final

from broker.core.errors import CorruptJournal
from broker.seams.files import File

from ..log import format as f
from ..log.store import read_all

PIECE: Final = 256 * 1024
FOOTER: Final = Struct("<8sB3xIQI")
MAGIC: Final = b"STMPBODY"
_STEP: Final = 16
"""Pieces looked at per call of check()."""


class Sums:
    """Checksums of a body that comes in parts of any size."""

    __slots__ = ("_crc", "_crcs", "_extend", "_filled", "_length")

    def __init__(self) -> None:
        self._extend = f.EXTENDERS[f.PREFERRED]
        self._crcs = array("I")
        self._crc = self._filled = self._length = 0

    def add(self, data: bytes) -> None:
        self._length += len(data)
        start = 0
        while start < len(data):
            part = (
                # A part that lies within one piece is summed up without a copy, which is the usual size of what a
                # socket gives.
                data if not start and len(data) <= PIECE - self._filled else data[start : start + PIECE - self._filled]
            )
            self._crc = self._extend(self._crc, part)
            start += len(part)
            self._filled += len(part)
            if self._filled == PIECE:
                self._close()

    def _close(self) -> None:
        self._crcs.append(self._crc)
        self._crc = self._filled = 0

    def trailer(self) -> bytes:
        """What stands behind the body; once."""
        if self._filled:
            self._close()
        # A checksum for each 256 KiB: a consumer that reads 1 MB out of 10 GB is told of rot there and need not read
        # the rest.
        head = self._crcs.tobytes() + FOOTER.pack(MAGIC, f.PREFERRED, PIECE, self._length, 0)[:-4]
        return head + zlib.crc32(head).to_bytes(4, "little")


class BodyFile:
    """For reading. `name`: what errors call it; `length`: of the body, as its message says; -1: not known."""

    __slots__ = ("_crcs", "_extend", "_file", "_known", "_length", "name")

    def __init__(self, file: File, name: str, length: int = -1) -> None:
        self.name = name
        self._file = file
        self._length = length
        self._known = False
        self._crcs: array[int] | None = None
        self._extend = f.EXTENDERS[f.PREFERRED]

    def size(self) -> int:
        """Bytes of the body. Raises CorruptJournal."""
        self._learn()
        return self._length

    def read(self, offset: int, n: int) -> bytes:
        """At most n bytes; whole pieces are checked once more. Raises CorruptJournal."""
        self._learn()
        data = self._bytes(offset, min(n, self._length - offset)) if offset < self._length else b""
        # Only whole pieces have a checksum: a part of one comes unchecked.
        if self._crcs is not None and not offset % PIECE and (len(data) == PIECE or offset + len(data) == self._length):
            self._compare(offset, data)
        return data

    def check(self, offset: int) -> int:
        """Looks at some of it, from that multiple of PIECE on; returns where to go on, the size at the end. Raises
        CorruptJournal."""
        self._learn()
        if self._crcs is None:
            return self._length
        end = min(offset + _STEP * PIECE, self._length)
        while offset < end:
            data = self._bytes(offset, min(PIECE, self._length - offset))
            self._compare(offset, data)
            offset += len(data)
        return offset

    def _compare(self, offset: int, data: bytes) -> None:
        assert self._crcs is not None
        for at in range(0, len(data), PIECE):
            piece = data if len(data) <= PIECE else data[at : at + PIECE]
            if self._extend(0, piece) != self._crcs[(offset + at) // PIECE]:
                raise CorruptJournal(
                    f"{self.name}: damaged between offsets {offset + at} and {offset + at + len(piece)}"
                )

    def _bytes(self, offset: int, n: int) -> bytes:
        try:
            data = read_all(self._file, n, offset)
        except OSError as error:
            raise CorruptJournal(
                f"{self.name}: cannot be read at offset {offset}: {error.strerror or error}"
            ) from error
        if len(data) < n:
            raise CorruptJournal(f"{self.name}: ends at offset {offset + len(data)}, {n - len(data)} bytes too early")
        return data

    def _learn(self) -> None:
        """Finds the checksums."""
        if self._known:
            return
        size = self._file.size()
        found = self._footer(size)
        if found is None:
            if size < self._length:
                raise CorruptJournal(f"{self.name}: has {size} bytes instead of {self._length}")
            # Longer than its message says and no footer that checks: not an old file without checksums but a damaged
            # one.
            if size > self._length >= 0:
                raise CorruptJournal(f"{self.name}: its checksums are damaged")
            self._length = size
        else:
            length, self._crcs, algorithm = found
            if self._length not in (-1, length):
                raise CorruptJournal(f"{self.name}: holds {length} bytes, and its message says {self._length}")
            if algorithm not in f.EXTENDERS:
                raise CorruptJournal(f"{self.name}: needs CRC-32C: install google-crc32c")
            self._length, self._extend = length, f.EXTENDERS[algorithm]
        self._known = True

    def _footer(self, size: int) -> tuple[int, array[int], int] | None:
        if size < FOOTER.size:
            return None
        magic, algorithm, piece, length, crc = FOOTER.unpack(self._bytes(size - FOOTER.size, FOOTER.size))
        count = -(-length // PIECE)
        if magic != MAGIC or piece != PIECE or length + 4 * count + FOOTER.size != size:
            return None
        tail = self._bytes(length, size - length)
        return (length, array("I", tail[: 4 * count]), algorithm) if zlib.crc32(tail[:-4]) == crc else None

    def close(self) -> None:
        self._file.close()
