"""The duplicate ids that one address remembers.

Rule: an id is a digest of 16 bytes, whatever its length; the eldest go first. What becomes of a message whose id is
known is decided in duplicates.py.
"""

from __future__ import annotations

from base64 import b64encode
from collections import deque
from collections.abc import Iterable


class Ids:
    """Of one address, oldest first: about 150 bytes each."""

    __slots__ = ("_known", "_order", "_passing")

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._order: deque[bytes] = deque()
        self._passing: set[bytes] = set()
        """Those of messages that are not durable."""

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._known

    def add(self, digests: Iterable[bytes], size: int, durable: bool = True) -> None:
        """Remembers at most `size`. durable: their messages are, so the log is told of them."""
        known, order = self._known, self._order
        for digest in digests:
            if digest not in known:
                known.add(digest)
                order.append(digest)
                if not durable:
                    # Not written into a snapshot, for their messages die with the process.
                    self._passing.add(digest)
        # By as many as came, so it is bounded by one command; also what a smaller setting leaves too many of.
        while len(order) > size:
            eldest = order.popleft()
            known.discard(eldest)
            self._passing.discard(eldest)

    def packed(self) -> str:
        """Those of durable messages as text, for the log; empty: there are none."""
        return as_text([digest for digest in self._order if digest not in self._passing])


def as_text(digests: Iterable[bytes]) -> str:
    """As text, for the log."""
    return b64encode(b"".join(digests)).decode()
