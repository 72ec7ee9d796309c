"""Large bodies that rest compressed: deflated on their way to the owner, inflated on their way to a client.

The content-length in the run's record is that of the body, the blob's length that of the file: where they differ, the
file is compressed. So owners, journals and replicas need not know, and a body is read whatever its port was told.

Rule: streamed both ways, a piece in memory at a time, however much a piece inflates to. Must not know frames.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from zlib import compressobj, decompressobj, error

from broker.core.message import Run
from broker.link.owner_port import BodyReader, BodyWriter

from ..transport.timers import TimerWheel

LEVEL = 1
"""Of zlib: the fastest. Text shrinks to about a third of what a slow level leaves over."""
PIECE = 64 * 1024
"""Compressed bytes read at a time."""

Read = Callable[[bytes | None, str], None]


class Deflating:
    """BodyWriter onto another one."""

    __slots__ = ("_plain", "_stored", "_writer", "_zip")

    def __init__(self, writer: BodyWriter) -> None:
        self._writer = writer
        self._zip = compressobj(LEVEL)
        self._plain = 0
        self._stored = 0

    @property
    def pending(self) -> int:
        return self._writer.pending

    def write(self, data: bytes) -> None:
        self._plain += len(data)
        self._store(self._zip.compress(data))

    def _store(self, data: bytes) -> None:
        if data:
            self._stored += len(data)
            self._writer.write(data)

    def finish(self, sync: bool, done: Callable[..., None]) -> None:
        self._store(self._zip.flush())
        if self._stored == self._plain:
            self._store(b"\0")  # the two lengths must differ; nobody reads behind the end of the stream
        self._writer.finish(sync, done)

    def abort(self) -> None:
        self._writer.abort()


class Inflating:
    """BodyReader onto another one; never more than what is asked for in memory at a time."""

    __slots__ = ("_beats", "_reader", "_tail", "_zip")

    def __init__(self, reader: BodyReader, beats: TimerWheel) -> None:
        self._reader = reader
        self._beats = beats
        self._zip = decompressobj()
        self._tail = b""

    def read(self, n: int, done: Read) -> None:
        try:
            data = self._zip.decompress(self._tail, n)
        except error as why:
            self._beats.soon(partial(done, None, f"the file does not inflate ({why})"))
            return
        self._tail = self._zip.unconsumed_tail
        if data or self._zip.eof:
            self._beats.soon(partial(done, data, ""))  # not from within the call: a fast client would nest them
        else:
            self._reader.read(PIECE, partial(self._arrived, n, done))

    def _arrived(self, n: int, done: Read, data: bytes | None, why: str) -> None:
        if data:
            self._tail += data
            self.read(n, done)
        else:
            done(data, why)

    def close(self) -> None:
        self._reader.close()


def length_of(run: Run) -> int:
    """Bytes of a large body, as its receiver counts them."""
    return int(run.records[0][run.records[0].rindex(b":") + 1 : -2])
