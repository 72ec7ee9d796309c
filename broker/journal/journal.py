"""The log of this process: open (recover), append, seal, write, read back, free.

Rule: `write` returning is the only promise of durability; nothing is believed before. Threads: append, seal,
committed, maintain and close in the loop's thread; write in one commit thread, one batch at a time and in
order; prepare in a helper thread; read in any. Must not know queues, engines or sessions.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.config.settings import JournalSettings
from broker.core.message import Blob, Run
from broker.seams.files import Files

from . import format as f
from .appender import Appender
from .appender import Batch as Batch
from .blobs import BlobStore
from .books import Books
from .compaction import Compactor
from .reader import Reader
from .recovery import Recovered, Scan
from .store import Store, segment_name, write_all


class Journal:
    """See docs/adr/0001 for how it is used and 0002 for what is on disk.

    recovered        what was found at open.
    blobs            large bodies.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._books = Books()
        self._appender = Appender(self._books, store.disk_id, store.settings.segment_bytes)
        self._reader = Reader(store)
        self.blobs = BlobStore(store, self._allocate_blob)
        self._compactor = Compactor(store, self._books, self._appender, self._reader.moved, self.blobs)
        self.recovered = Recovered(store, self._books)
        self._closed = False
        self.append = self._appender.append
        """append(record: LogRecord) -> None: encodes it, sets run.position; no IO."""

    @classmethod
    def open(cls, files: Files, folder: str, settings: JournalSettings) -> Journal:
        """Recovers what is there, or begins an empty journal.

        Raises CorruptJournal (nothing was changed), JournalFull, JournalDead, or JournalError when a running
        broker holds the folder."""
        store = Store(files, folder, settings)
        try:
            numbers = store.open()
            journal = cls(store)
            journal._recover(numbers)
        except BaseException:
            store.close()
            raise
        return journal

    def _recover(self, numbers: list[int]) -> None:
        scan = Scan(self._store, self._books, self._appender)
        scan.run(numbers)
        self.recovered = scan.recovered
        highest = self.blobs.recover({ref.id for ref in self._books.blobs.values() if ref.refs})
        self._appender.next_blob = max(self._appender.next_blob, highest + 1)
        if scan.torn is not None:
            self._cut(*scan.torn)
        for number in scan.surplus:
            self._store.remove(number)
        if scan.last is not None:
            self._appender.resume(scan.last, scan.end)
            if self._store.algorithms[scan.last.number] != f.PREFERRED:
                scan.last.size = scan.end  # full: the next segment has the checksum of this machine
        self._store.next_batch = self._appender.number + 1
        # The log must not look cleanly closed any more before anybody acts on it.
        self._appender.list_segments()
        batch = self.seal()
        assert batch is not None
        self.write(batch)
        self.committed(batch)

    def _cut(self, number: int, offset: int, end: int) -> None:
        """Keeps the torn bytes in a file of their own, then zeroes them."""
        store = self._store
        name = segment_name(number)
        with store.guard("cut a torn tail"):
            taken = set(store.files.listdir(store.folder))
            names = (f"{name}.broken" + (f".{i}" if i else "") for i in range(len(taken) + 1))
            copy = next(n for n in names if n not in taken)
            with store.pinned(number) as file:
                rubbish = file.pread(end - offset, offset)
                aside = store.files.open(store.path(copy), create=True)
                try:
                    write_all(aside, rubbish, 0)
                    aside.sync()
                finally:
                    aside.close()
                store.files.sync_dir(store.folder)
                write_all(file, bytes(end - offset), offset)
                file.sync()

    # ── writing ────────────────────────────────────────────────────────────────────────────────────

    @property
    def wants_snapshot(self) -> bool:
        """A segment was begun: set this False and append engine.snapshot() of all slots. All MetaRecords
        appended from then to the next seal() replace all earlier ones (once they are durable, together)."""
        return self._appender.wants_snapshot

    @wants_snapshot.setter
    def wants_snapshot(self, value: bool) -> None:
        self._appender.wants_snapshot = value

    @property
    def inflight_bytes(self) -> int:
        """Appended, not yet committed."""
        return self._appender.inflight

    def seal(self) -> Batch | None:
        """Everything appended since the last seal; None if there is nothing."""
        return self._appender.seal()

    def write(self, batch: Batch) -> None:
        """Puts the batch on stable storage. Commit thread.

        JournalFull: nothing counts as written; call again with the same batch when there is space.
        JournalDead: the disk failed; the process has to stop."""
        self._store.write(batch)

    def committed(self, batch: Batch) -> None:
        """write(batch) has returned. Loop thread."""
        self._appender.inflight -= batch.nbytes
        if batch.parts:
            self._compactor.committed = batch.parts[-1].number
        self._compactor.removed.update(batch.freed)

    # ── space ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def full(self) -> bool:
        """Refuse durable SENDs; settling goes on in the reserve."""
        return self._store.no_space or self._store.low_space

    @property
    def wants_prepare(self) -> bool:
        """Call prepare() in a helper thread."""
        return self._store.wants_prepare

    def prepare(self) -> None:
        """Zero-fills the segments to come (the next one, and the reserve). Without it, write() does so when a
        segment begins. No space sets `full`. Raises JournalDead."""
        self._store.prepare()

    def maintain(self) -> bool:
        """One bounded step of freeing and compaction; what it appends goes with the next seal().

        True: call again soon. False: nothing to do, or it waits for a commit."""
        return self._compactor.step()

    def forget_blob(self, blob: Blob) -> None:
        """The message of this large body has been dealt with: if no record refers to it, the file goes."""
        if self._books.unused_blob(blob.id):
            self._appender.removals.append(self.blobs.path(blob.id))

    def disk_bytes(self) -> int:
        """Bytes of all segments in use."""
        return sum(book.size for book in self._books.segments.values())

    def live_bytes(self) -> int:
        """Estimate of the bytes of live messages among them."""
        return sum(book.live_bytes() for book in self._books.segments.values())

    # ── reading ────────────────────────────────────────────────────────────────────────────────────

    def read(self, positions: Sequence[int], budget: int) -> list[Run]:
        """Runs of the first positions that fit `budget` bytes; any thread (see reader.Reader.read)."""
        return self._reader.read(positions, budget)

    def _allocate_blob(self) -> int:
        number = self._appender.next_blob
        self._appender.next_blob = number + 1
        return number

    def close(self, clean: bool) -> None:
        """`clean`: writes what was appended and says that nothing was left undone."""
        if self._closed:
            return
        self._closed = True
        try:
            if clean and not self._store.dead:
                self._appender.end_cleanly()
                batch = self.seal()
                assert batch is not None
                if self._store.follows(batch):  # else an earlier write was refused and never repeated
                    self.write(batch)
                    self.committed(batch)
        finally:
            self._store.close()
