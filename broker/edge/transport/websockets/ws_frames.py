"""Frames of a WebSocket client (RFC 6455 §5): bytes in, payload out as it comes.

A frame's payload is handed on while it arrives, so a message of 30 MB needs no more memory than one of 30 bytes, and
what it may hold is for the STOMP parser to say. Messages are not put together: STOMP frames may be cut and joined in
any way. Control frames are small, and go to the `websockets` package in one piece.

    82 FE 01 00 <mask> SEND…     piece → "SEND…"    piece → "…"      the rest of the 256 bytes, as reads bring it

Rule: any cut of the same bytes gives the same payload; what was good before a violation has been handed on. Knows no
sockets and no STOMP.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from websockets.exceptions import ProtocolError

try:
    from websockets.speedups import apply_mask
except ImportError:  # a platform without its C part
    from websockets.utils import apply_mask

FIN, RSV, RSV1, CONTROL = 0x80, 0x70, 0x40, 0x08
MASKED = 0x80
SMALLEST_HEAD = 6
"""Two bytes and the masking key."""
MOST_OF_CONTROL = 125
FLUSH = b"\x00\x00\xff\xff"
"""What a sender leaves out behind each compressed message (RFC 7692 §7.2.1)."""


class TooLarge(Exception):
    """A frame of more than the limit. Nothing of it has been handed on; who goes on reading skips it."""


class Frames:
    """What one client sends.

    spoken   opcode of the first message with a payload of its own (TEXT or BINARY); 0: none has come.
    """

    __slots__ = (
        "_control", "_held", "_inflated", "_inside", "_last", "_left", "_limit", "_mask", "_window", "_zip", "spoken",
    )  # fmt: skip

    def __init__(self, limit: int, control: Callable[[bytes], bool], window: int = 0) -> None:
        """limit: bytes of a frame's payload; 0: any.  control: takes a whole control frame; False: nothing counts that
        comes behind it.  window: bits of the clients' deflate window; 0: they do not compress."""
        self._limit = limit
        self._control = control
        self._window = window
        self._held = b""
        """Beginning of a head, or of a control frame."""
        self._left = 0
        """Of the payload that is coming in."""
        self._mask = b""
        self._inside = False
        """The message goes on in another frame."""
        self._inflated = False
        self._last = False
        self._zip: zlib._Decompress | None = None
        self.spoken = 0

    def feed(self, data: bytes, out: list[bytes]) -> None:
        """Adds the payload of the next bytes to `out`. Raises ProtocolError (it has read its last then), TooLarge."""
        if self._held:
            data, self._held = self._held + data, b""
        pos, end = 0, len(data)
        while pos < end:
            if not self._left:
                start = self._head(data, pos, end)
                if start <= pos:
                    self._held = data[pos:] if start == pos else b""
                    return
                pos = start
            stop = min(pos + self._left, end)
            if stop > pos:
                self._payload(data[pos:stop], out)
                pos = stop
            if not self._left and self._last and self._inflated:
                self._end_of_message(out)

    def _head(self, data: bytes, pos: int, end: int) -> int:
        """Offset behind the next head, or control frame. `pos`: it has not come yet; -1: nothing counts any more."""
        if end - pos < 2:
            return pos
        first, length = data[pos], data[pos + 1] - MASKED
        if length < 0:
            raise ProtocolError("incorrect masking")
        start = pos + SMALLEST_HEAD
        if length > 125:
            start += 2 if length == 126 else 8
        if first & CONTROL and (length > MOST_OF_CONTROL or not first & FIN):
            raise ProtocolError("control frame too long" if first & FIN else "fragmented control frame")
        if start > end:
            return pos
        if first & CONTROL:
            stop = start + length
            if stop > end:
                return pos
            return stop if self._control(data[pos:stop]) else -1
        if length > 125:
            length = int.from_bytes(data[pos + 2 : start - 4], "big")
        self._check(first, length)
        self._last = first >= FIN
        self._inside = not self._last
        self._left = length
        self._mask = data[start - 4 : start]
        if self._limit and length > self._limit:
            self._limit = 0
            self._held = data[start:]
            raise TooLarge
        return start

    def _check(self, first: int, length: int) -> None:
        kind, rsv = first & 15, first & RSV
        if kind > 2:
            raise ProtocolError("invalid opcode")
        if kind and self._inside:
            raise ProtocolError("expected a continuation frame")
        if not kind and not self._inside:
            raise ProtocolError("unexpected continuation frame")
        if rsv and not (rsv == RSV1 and kind and self._window):
            raise ProtocolError("reserved bits must be 0")
        if length >> 63:
            raise ProtocolError("length of more than 63 bits")
        if kind:
            self.spoken = self.spoken or kind
            self._inflated = rsv == RSV1
            if self._inflated:
                self._zip = zlib.decompressobj(wbits=-self._window)

    def _payload(self, masked: bytes, out: list[bytes]) -> None:
        piece = apply_mask(masked, self._mask)
        self._left -= len(masked)
        if self._left and (turn := len(masked) & 3):
            self._mask = self._mask[turn:] + self._mask[:turn]
        out.append(self._inflate(piece) if self._inflated else piece)

    def _inflate(self, data: bytes) -> bytes:
        """As much as is in it: the caller bounds that by the size of what it feeds (1,000 times it, at worst)."""
        assert self._zip is not None
        try:
            return self._zip.decompress(data)
        except zlib.error:
            raise ProtocolError("decompression failed") from None

    def _end_of_message(self, out: list[bytes]) -> None:
        out.append(self._inflate(FLUSH))
        self._zip = None  # an idle connection owns none
        self._inflated = False
