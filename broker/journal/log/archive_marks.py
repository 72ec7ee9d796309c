"""How far archives have got: name → slot → offset. What lies behind is kept for them (history.keep).

Rule: a mark never goes back, and is on the disk before it counts: what it allows to be freed is gone for good.
The file is written aside, synced, renamed. Must not know who archives.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from broker.core.errors import CorruptJournal

from .store import Store, read_all, write_all

NAME = "archives"

Table = dict[str, dict[int, int]]


class ArchiveMarks:
    """`names`: the table; to be read only."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.names: Table = {}

    def load(self) -> None:
        """Raises CorruptJournal when the file makes no sense."""
        store = self._store
        with store.guard("read the marks of archives"):
            if NAME not in store.files.listdir(store.folder):
                return
            file = store.files.open(store.path(NAME))
            try:
                data = read_all(file, file.size(), 0)
            finally:
                file.close()
        try:
            self.names = msgspec.json.decode(data, type=dict[str, dict[int, int]])
        except msgspec.DecodeError as error:
            raise CorruptJournal(
                f"{store.path(NAME)}: {error}; remove it; archives may have missed something then"
            ) from error

    def adopt(self, table: Table) -> None:
        """It is saved: from now on it is what counts."""
        self.names = table

    def advanced(self, name: str, offsets: Mapping[int, int]) -> Table:
        """The table with these marks of `name`; nothing is changed."""
        known = self.names.get(name, {})
        # A new table, which counts when save() has returned: the old one is what is on the disk until then.
        return self.names | {name: known | {s: max(offset, known.get(s, 0)) for s, offset in offsets.items()}}

    def without(self, name: str) -> Table:
        return {other: marks for other, marks in self.names.items() if other != name}

    def save(self, table: Table) -> None:
        """On stable storage when it returns. Any thread, one at a time. Raises JournalFull | JournalDead."""
        store = self._store
        data = msgspec.json.encode(table)
        with store.guard("write the marks of archives"):
            file = store.files.open(store.path(NAME + ".tmp"), create=True)
            try:
                # A longer file may be left of an attempt that crashed before its rename.
                file.truncate(0)
                write_all(file, data, 0)
                file.sync()
            finally:
                file.close()
            store.files.rename(store.path(NAME + ".tmp"), store.path(NAME))
            store.files.sync_dir(store.folder)

    def lowest(self) -> dict[int, int] | None:
        """slot → the offset from which on a reader needs it; None: none needs anything."""
        found: dict[int, int] = {}
        for marks in self.names.values():
            for slot, offset in marks.items():
                found[slot] = min(offset, found.get(slot, offset))
        # An archive that names no slot needs nothing yet, but is there: {} keeps nothing, None says that nobody
        # archives.
        return found if self.names else None
