"""Where the body of a large send comes from: a file, or an asynchronous stream.

Rule: the length is known before the first piece is asked for; no body is ever whole in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

from broker.seams.files import OsFile, open_for_reading, temporary_file

from .errors import ClientError

FILE_PIECE = 256 * 1024


class Source:
    """`length` bytes from a file or a stream."""

    __slots__ = ("_file", "_stream", "length")

    def __init__(self, length: int, file: OsFile | None, stream: AsyncIterable[bytes] | None) -> None:
        self.length = length
        self._file = file
        self._stream = stream

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body. A file that shrinks meanwhile gives fewer bytes than its length."""
        if self._stream is not None:
            async for piece in self._stream:
                yield piece
            return
        file, offset = self._file, 0
        while file is not None and offset < self.length:
            # A disk may take its time: not in the loop.
            piece = await asyncio.to_thread(file.pread, min(FILE_PIECE, self.length - offset), offset)
            if not piece:
                return
            offset += len(piece)
            yield piece

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


async def open_source(source: str | Path | AsyncIterable[bytes], length: int | None) -> Source:
    """Raises ClientError when the file cannot be read."""
    if isinstance(source, str | Path):
        if length is not None:
            raise ClientError("length is for streams; a file has its own")
        try:
            file = open_for_reading(str(source))
        except OSError as error:
            raise ClientError(f"cannot read {source}: {error.strerror}") from error
        return Source(file.size(), file, None)
    if length is not None:
        return Source(length, None, source)
    file = temporary_file()
    try:
        return Source(await _copy(source, file), file, None)
    except BaseException:
        file.close()
        raise


async def _copy(stream: AsyncIterable[bytes], file: OsFile) -> int:
    offset = 0
    async for piece in stream:
        while piece:
            done = await asyncio.to_thread(file.pwrite, piece, offset)
            offset += done
            piece = piece[done:]
    return offset
