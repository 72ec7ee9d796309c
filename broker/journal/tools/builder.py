"""A new journal folder from what lives elsewhere: messages, small state, large bodies.

Rule: what is built here is an ordinary journal that an ordinary broker starts from; it has an identity, positions and
lsns of its own. A folder that holds anything is refused. Must not know where things come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.config.settings import JournalSettings
from broker.core.errors import JournalError
from broker.core.records import MetaRecord, RunRecord
from broker.seams.files import Files

from ..journal import Journal

_COMMIT: Final = 4 << 20
"""Bytes appended between two commits."""


class Builder:
    """run() and body() in any order, then finish(); abandon() when that cannot be reached."""

    def __init__(self, files: Files, folder: str, settings: JournalSettings) -> None:
        """Raises JournalError when the folder is not empty."""
        if files.listdir(folder):
            raise JournalError(f"{folder}: is not empty; name a folder that does not exist yet")
        self._journal = Journal.open(files, folder, settings)
        self._bodies: set[int] = set()

    def has_body(self, id: int) -> bool:
        return id in self._bodies

    def body(self, id: int, pieces: Iterable[bytes]) -> None:
        """Stores a large body, before the run that names it."""
        writer = self._journal.blobs.receive(id)
        for piece in pieces:
            writer.write(piece)
        writer.finish(sync=True)
        self._bodies.add(id)

    def run(self, record: RunRecord) -> None:
        """Its messages live in all its queues."""
        self._journal.append(record)
        if self._journal.inflight_bytes > _COMMIT:
            self._commit()

    def _commit(self) -> None:
        batch = self._journal.seal()
        if batch is not None:
            self._journal.write(batch)
            self._journal.committed(batch)

    def finish(self, metas: Iterable[MetaRecord], clean: bool) -> None:
        """`clean`: nothing may have been delivered of what is here."""
        self._commit()
        self._journal.append_snapshot(metas)
        self._commit()
        self._journal.close(clean)

    def abandon(self) -> None:
        """Leaves an incomplete folder behind, which is not to be used."""
        self._journal.close(clean=False)
