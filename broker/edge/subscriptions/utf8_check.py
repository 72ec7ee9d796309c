"""Is a large MESSAGE text? Asked before its first byte leaves, for clients that read text messages of a WebSocket only.

A text message must be valid UTF-8 to its last byte (RFC 6455 §5.6): a browser ends the connection over one that is not.
What is sent as text can't become binary half way, so the body is read once more than other clients need; one that is
not text says so in its first piece, mostly.

Rule: one piece in memory at a time. A body that cannot be read is not text here: the session that sends it finds out
why.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

from broker.link.owner_port import BodyReader

PIECE = 256 * 1024

_utf8 = codecs.getincrementaldecoder("utf-8")


class TextCheck:
    """Of one body, by a reader of its own. done(text): once, unless it is closed before."""

    __slots__ = ("_decoder", "_done", "_left", "_reader")

    def __init__(self, reader: BodyReader, length: int, done: Callable[[bool], None]) -> None:
        self._reader = reader
        self._left = length
        self._done: Callable[[bool], None] | None = done
        self._decoder = _utf8()

    def start(self, head: bytes) -> None:
        """head: what stands in front of the body."""
        self._checked(head)

    def _checked(self, data: bytes) -> None:
        try:
            self._decoder.decode(data, final=not self._left)
        except UnicodeDecodeError:
            self._tell(False)
            return
        if self._left:
            self._reader.read(min(PIECE, self._left), self._arrived)
        else:
            self._tell(True)

    def _arrived(self, data: bytes | None, why: str) -> None:
        if not data:
            self._tell(False)
        elif self._done is not None:
            self._left -= len(data)
            self._checked(data)

    def _tell(self, text: bool) -> None:
        done, self._done = self._done, None
        self._reader.close()
        if done is not None:
            done(text)

    def close(self) -> None:
        """Nobody wants to know any more."""
        if self._done is not None:
            self._done = None
            self._reader.close()
