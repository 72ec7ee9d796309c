"""Whether a backup copies the folder while a broker works in it: then no large body is removed.

Both take the same advisory lock: a backup for as long as it copies bodies, the broker for the moment in which it
removes some. A process that dies lets go of it, so nothing is left behind that would have to be cleaned up.

Rule: the broker never waits for it. What it may not remove now it removes later (Store.clear); when the disk is nearly
full it removes all the same, and the backup says that it has failed. Segments need no lock: an open file stays
readable.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.seams.files import Files

NAME: Final = "backup.lock"


class BlobGuard:
    """The broker's end."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._path = f"{folder}/{NAME}"

    @contextmanager
    def removing(self) -> Iterator[bool]:
        """Held meanwhile. False: nothing may be removed now."""
        try:
            held = self._files.lock(self._path)
        except OSError:  # somebody has it, or nobody knows
            yield False
            return
        try:
            yield True
        finally:
            held.close()
