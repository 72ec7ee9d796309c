"""Low disk is said early: at the start, when it is near, when it has come, and when it is over.

Rule: says, and decides nothing; what is refused is the journal's affair. A broker whose disk is full stays ready:
consumers have to come to it, or nobody makes room.
"""

from __future__ import annotations

import logging
from typing import Final

from broker.core.errors import JournalError
from broker.journal.journal import Journal, Space
from broker.owner.commit.io_thread import Io

log = logging.getLogger("stampede")

LOOK_S: Final = 5.0
"""The volume is looked at this often where nothing is written; others may fill it too."""


class SpaceWatch:
    """`io`: a thread for the system call, which may hang with the disk."""

    def __init__(self, journal: Journal, io: Io) -> None:
        self._journal = journal
        self._io = io
        self._said = Space.ENOUGH
        self._asking = False

    def look(self) -> None:
        """Says what has changed, and asks again."""
        self._say()
        if not self._asking:
            self._asking = True
            self._io.submit(self._journal.look_at_space, self._looked)

    def _looked(self, _: object, error: BaseException | None) -> None:
        self._asking = False
        if error is not None and not isinstance(error, JournalError):
            raise error
        self._say()

    def _say(self) -> None:
        now = self._journal.space
        before, self._said = self._said, now
        if now is before:
            return
        if now is Space.FULL:
            log.warning("disk full: %s. Durable messages are refused (ERROR 1601), consumers go on", self.text())
        elif now is Space.NEAR:
            small = self._journal.free_bytes < self._journal.refuses_below
            log.warning("%s: %s", "the volume is too small" if small else "disk nearly full", self.text())
        else:
            log.info("enough space on the disk again: %s", self.text())

    def text(self) -> str:
        """With numbers."""
        journal = self._journal
        return (
            f"{journal.free_bytes:,} bytes free for {journal.folder}; below {journal.refuses_below:,} SEND is refused "
            "(journal.min_free_bytes, and prepared segments of journal.segment_bytes)"
        )

    def details(self) -> dict[str, str]:
        """For /readyz."""
        space = self._journal.space
        if space is Space.ENOUGH:
            return {}
        return {"disk": f"{'full' if space is Space.FULL else 'nearly full'}: {self.text()}"}
