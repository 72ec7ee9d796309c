"""The log of this process: open (recover), append, seal, write, read back, free.

Rule: `write` returning is the only promise of durability; nothing is believed before. Threads: append, seal,
committed, maintain and close in the loop's thread; write in one commit thread, one batch at a time and in
order; prepare and clear in a helper thread; read in any. Must not know queues, engines or sessions.
"""

# A message's way through the log, and what a crash leaves at each point:
#
#     append      record has its place and is in the index     crash: nothing of it was ever there; nobody was told
#     seal        the batch is closed                          crash: the same
#     write       commit thread: bytes, fsync                  crash within: a torn tail, cut at the next start. Right
#                                                              behind it: the message is there although nobody was
#                                                              told, which is allowed (a client that got no receipt
#                                                              sends it again)
#     committed   loop thread: receipts may go (persist, then tell), `durable` and `inflight` say so
#     maintain    later: its segment is freed when the message is settled, or copied on

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any, Final

from broker.config.settings import JournalSettings
from broker.core.message import Blob, Run
from broker.core.records import Item, MetaRecord, RunRecord
from broker.seams.files import Files

from .bodies.blobs import BlobStore
from .compaction.compaction import Compactor
from .log import format as f
from .log.appender import Appender
from .log.appender import Batch as Batch
from .log.archive_marks import ArchiveMarks
from .log.copying_guard import BlobGuard
from .log.items import Member, lsns_of
from .log.lineage import Lineage
from .log.live_index import LiveIndex
from .log.reader import Reader
from .log.store import Store, read_all, write_all
from .reads.history import History
from .recovery.live_messages import Settled, settled_of
from .recovery.recovery import Recovered, RecoveryScan
from .replica.digest import DigestReader
from .replica.replica import Replica
from .replica.seeds import SeedReader, Survey

NEAR_SEGMENTS: Final = 4
"""The disk is nearly full when so many segments more would fill it."""


class Space(Enum):
    """What is left of the disk: FULL refuses SENDs."""

    ENOUGH = 0
    NEAR = 1
    FULL = 2


class Journal:
    """See docs/adr/0001 for how it is used and 0002 for what is on disk.

    recovered        what was found at open.
    blobs            large bodies.
    history, marks   what others read of the log, and what is kept for them.
    replicated       slots led here whose items are wanted: Batch.items holds what was appended of them, and the
                     tail keeps it. A group then is of one such slot only.
    """

    def __init__(self, store: Store, tail_bytes: int = 0) -> None:
        self._store = store
        self._live_index = LiveIndex()
        self._appender = Appender(self._live_index, store.disk_id, store.settings.segment_bytes, tail_bytes)
        self._logs = self._appender.logs
        self._replica = Replica(self._appender)
        self._reader = Reader(store)
        self.replicated = self._appender.replicated
        self.blobs = BlobStore(store, self._allocate_blob, lambda id: id in self._live_index.blobs)
        self._compactor = Compactor(store, self._live_index, self._appender, self._reader.moved, self.blobs)
        self.history = History(store, self._live_index, self._appender, self._compactor)
        self.marks = ArchiveMarks(store)
        self.recovered = Recovered(store, self._live_index)
        self._closed = False
        # The bound method itself: a call less for each record, and this is the hottest call of the owner.
        self.append, self.seal, self.write = self._appender.append, self._appender.seal, self._store.write
        self.append_in_pieces = self._appender.in_pieces
        """append(record: LogRecord) -> None: encodes it, sets run.position; no IO."""

    @classmethod
    def open(
        cls, files: Files, folder: str, settings: JournalSettings, tail_bytes: int = 0, alone: bool = False,
        watch: Callable[[float], None] | None = None,
    ) -> Journal:  # fmt: skip
        """Recovers what is there, or begins an empty journal. `tail_bytes`: of items kept for followers, all slots
        together. `alone`: nobody else has what is here, so a large body that is lost is no reason not to start.
        `watch`: hears how much of the log has been read, and may end it by raising (see Scan).

        Raises CorruptJournal (nothing was changed), JournalFull, JournalDead, or JournalError when a running
        broker holds the folder."""
        store = Store(files, folder, settings)
        try:
            numbers = store.open()
            journal = cls(store, tail_bytes)
            journal._recover(numbers, alone, watch)
        except BaseException:
            # The lock above all: the next attempt must not find the folder in use by ourselves.
            store.close()
            raise
        return journal

    def _recover(self, numbers: list[int], alone: bool, watch: Callable[[float], None] | None) -> None:
        scan = RecoveryScan(self._store, self._live_index, self._appender, watch)
        scan.run(numbers)
        self.recovered = scan.recovered
        if self._appender.tail.limit:
            self._fill_tail(scan)
        self.marks.load()
        found, idle = self.blobs.recover(set(self._live_index.blobs), alone, keep=bool(self.marks.names))
        for blob in found:
            self._appender.blob_seen(blob)
        # Only behind everything that may refuse: a journal that does not open has not been changed.
        if scan.torn is not None:
            self._cut(*scan.torn)
        for number in scan.surplus:
            self._store.remove(number)
        if scan.last is not None:
            # Behind the last batch, in the zeroes. Bodies, tail and torn bytes have been dealt with.
            self._appender.resume(scan.last, scan.end)
            if self._store.algorithms[scan.last.number] != f.PREFERRED:
                scan.last.full_at(scan.end)  # full: the next segment has the checksum of this machine
        if idle:
            self._compactor.rest(idle)
        self._store.expect(self._appender.number + 1)
        # The log must not look cleanly closed any more before anybody acts on it.
        # CLEAN must not be the last record of a session that has begun: a crash right now would look like a clean
        # close, and what was delivered in it would come again without `redelivered` (I6).
        self._appender.list_segments()
        for slot in sorted(self._logs.seeding):
            # The copy was not complete and is forgotten: said once more, so that what follows is not part of it.
            self.reset_slot(slot)
            self.end_seed(slot, [], 0)
        self._live_index.be_patient()
        batch = self.seal()
        assert batch is not None
        self.write(batch)
        self.committed(batch)

    def _fill_tail(self, scan: RecoveryScan) -> None:
        """Takes the items of the last batches into the tail."""
        tail, preferred = self._appender.tail, f.CHECKSUMS[f.PREFERRED]
        for number, start, end in scan.recent:
            with self._store.pinned(number) as file, self._store.guard("read the journal"):
                data = read_all(file, end - start, start)
            # A GROUP stays one item: followers take it whole.
            for at, size, kind, _, slot, _, lsn in f.top_records(data, 0, len(data)):
                if kind == f.RESET:
                    tail.drop(slot)
                elif kind in (f.RUN, f.SETTLE, f.META, f.GROUP) and (found := lsns_of(data, at, size, kind, slot, lsn)):
                    of, first, last = found
                    item = data[at - f.RECORD.size : at + size]
                    if self._store.algorithms[number] != f.PREFERRED:
                        item = f.resealed(item, preferred)
                    tail.add(first, (of, last, item))

    def _cut(self, number: int, offset: int, end: int) -> None:
        """Keeps the torn bytes in a file of their own, then zeroes them."""
        store = self._store
        with store.guard("cut a torn tail"), store.pinned(number) as file:
            # Nobody was told of these bytes, but somebody may want to know what they were.
            store.set_aside(number, file.pread(end - offset, offset))
            # Zeroed, or the next batch, if it is shorter, would leave their rest behind it, and that would look
            # like rot.
            write_all(file, bytes(end - offset), offset)
            file.sync()

    # ── writing ────────────────────────────────────────────────────────────────────────────────────

    wants_snapshot: bool = property(attrgetter("_appender.wants_snapshot"))  # type: ignore[assignment]
    """A segment was begun, and enough of the log lies behind the last snapshot: call begin_snapshot(). Read without a
    call of Python, like all that is asked with every commit."""

    def begin_snapshot(self) -> None:
        """The small state of all slots, led, followed, or being copied, comes in pieces from here on, whatever else is
        appended in between. These are no items: each replica has its own."""
        self._appender.begin_snapshot()

    def add_snapshot(self, metas: Iterable[MetaRecord]) -> None:
        """A piece of it: what is so now, of one slot or several."""
        self._appender.add_snapshot(metas)

    def end_snapshot(self) -> None:
        """Nothing is missing: all MetaRecords since its beginning replace all earlier ones, once the next seal() is
        durable. Before that it replaces nothing."""
        self._appender.end_snapshot()

    def append_snapshot(self, metas: Iterable[MetaRecord]) -> None:
        """All of it at once."""
        self.begin_snapshot()
        self.add_snapshot(metas)
        self.end_snapshot()

    inflight_bytes: int = property(attrgetter("_appender.inflight"))  # type: ignore[assignment]
    """Appended, not yet committed."""

    unfinished: tuple[Any, ...] = property(  # type: ignore[assignment]
        attrgetter("_appender.inflight", "_appender.parts", "_appender.freed", "_appender.removals")
    )
    """What waits for a seal, or is sealed and not committed. Read without a call of Python: every turn asks."""

    @property
    def idle(self) -> bool:
        """Nothing waits for a seal, and all that was sealed is committed."""
        return not any(self.unfinished)

    def committed(self, batch: Batch) -> None:
        """write(batch) has returned. Loop thread."""
        self._appender.landed(batch.nbytes)
        self.history.reach(batch.ends)
        self._compactor.landed(batch.parts[-1].number if batch.parts else None)

    wants_clear: bool = property(attrgetter("_store.has_dead"))  # type: ignore[assignment]
    """Call clear() in a helper thread. Read without a call of Python: every commit asks."""

    def clear(self) -> list[int] | None:
        """Removes some of what committed batches have said to be dead; for cleared(). None: nothing may go now. Raises
        JournalDead."""
        return self._store.clear()

    def cleared(self, segments: list[int]) -> None:
        """clear() has returned that. Loop thread."""
        self._compactor.gone(segments)

    # ── space ──────────────────────────────────────────────────────────────────────────────────────

    full: bool = property(attrgetter("_store.full"))  # type: ignore[assignment]
    """Refuse durable SENDs; settling, which makes room, goes on in the reserve."""

    @property
    def free_bytes(self) -> int:
        """Of the volume, when it was last looked at: after some writes, and by look_at_space()."""
        return self._store.free

    @property
    def refuses_below(self) -> int:
        """With less than that free, SENDs are refused, or soon will be: the reserve, and segments still to be made."""
        settings = self._store.settings
        return settings.min_free_bytes + self._store.missing * settings.segment_bytes

    @property
    def space(self) -> Space:
        """What is left of the disk."""
        if self.full:
            return Space.FULL
        near = self.refuses_below + NEAR_SEGMENTS * self._store.settings.segment_bytes
        return Space.NEAR if self._store.free < near else Space.ENOUGH

    def look_at_space(self) -> None:
        """In a helper thread. Raises JournalDead."""
        self._store.check_space()

    @property
    def folder(self) -> str:
        return self._store.folder

    @property
    def wants_prepare(self) -> bool:
        """Call prepare() in a helper thread."""
        # Whoever is refused writes nothing that would look at the space again: prepare() does.
        store = self._store
        return (store.missing > 0 or store.full) and not store.dead

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
        if self._live_index.unused_blob(blob.id):
            self._appender.removals.append(self.blobs.doom(blob.id))

    def disk_bytes(self) -> int:
        """Bytes of all segments in use."""
        return sum(usage.size for usage in self._live_index.segments.values())

    def live_bytes(self) -> int:
        """Estimate of the bytes of live messages among them."""
        return sum(usage.live_bytes() for usage in self._live_index.segments.values())

    def mind_backups(self) -> None:
        """From now on the folder may be copied while it is in use (backup.py)."""
        self._store.keep_bodies(BlobGuard(self._store.files, self._store.folder))

    # ── replication ────────────────────────────────────────────────────────────────────────────────

    @property
    def disk_id(self) -> str:
        """Of this folder, for ever; hex."""
        return self._store.disk_id.hex()

    def last(self, slot: int) -> tuple[int, int]:
        """(epoch, lsn) of the last item; (0, 0) = holds nothing that could be gone on from: copy it anew."""
        return self._logs.last(slot)

    def written(self, slot: int) -> int:
        """lsn of its last item on the disk; 0 = none."""
        return self.history.end(slot) - 1

    def epoch(self, slot: int) -> int:
        """The highest epoch that began here; 0 = none."""
        return self._logs.epochs[slot]

    def lineage(self, slot: int) -> Lineage:
        """(epoch, its first lsn) …, the present epoch last, also while it has no item. Bounded: old ones fall out."""
        return self._logs.whole(slot)

    def begin_epoch(self, slot: int, epoch: int) -> None:
        """Logged. What is appended here from now on carries it. Raises StaleEpoch if it is not higher."""
        self._replica.begin_epoch(slot, epoch)

    def append_item(self, slot: int, data: bytes, algorithm: int = f.PREFERRED) -> list[Member]:
        """The leader's next item; `algorithm` is its format.PREFERRED. Large bodies must be here before.

        Returns its records; runs have their position and no bodies. Raises BadItem: nothing was changed."""
        return self._replica.append_item(slot, data, algorithm)

    def tail(self, slot: int, after_lsn: int, most: int = sys.maxsize) -> list[Item] | None:
        """The first `most` items behind `after_lsn`; None: not all behind it are kept in memory."""
        return self._appender.tail.since(slot, after_lsn, max(self._logs.next[slot] - 1, 0), most)

    def reset_slot(self, slot: int) -> None:
        """Forgets all of the slot but its highest epoch; logged. What follows is a copy: append_seed, end_seed.
        A crash before its end leaves an empty slot."""
        self._replica.reset_slot(slot)

    def append_seed(self, slot: int, data: bytes, algorithm: int = f.PREFERRED) -> list[Member]:
        """The next part of a copy; otherwise like append_item."""
        return self._replica.append_seed(slot, data, algorithm)

    def end_seed(self, slot: int, lineage: Lineage, lsn: int) -> None:
        """The slot is whole as of `lsn` (those of SeedReader); logged. Raises BadItem."""
        self._replica.end_seed(slot, lineage, lsn)

    def seed(self, slot: int, metas: Sequence[MetaRecord]) -> SeedReader:
        """All that lives in the slot now, for a new replica, `metas` first. close() it."""
        return SeedReader(slot, self._store, self._live_index, self._appender, metas)

    def digest(self, slot: int) -> DigestReader:
        """Sums over all that lives in the slot now. close() it."""
        return DigestReader(slot, self._store, self._live_index, self._appender)

    def survey(self, slot: int) -> Survey:
        """All that lives in the slot now, without bodies, for a standby. close() it."""
        survey = Survey(slot, self._store, self._live_index, self._appender)
        with self._store.lock:
            # Under the lock and in the loop's thread, in one step with the view: a run that is moved from now on is
            # found under the place where the survey has seen it.
            self._reader.moved.survey(survey.segments)
        return survey

    def settled(self, record: RunRecord) -> Settled | None:
        """What has left its queues of this run (queue → spans of its ids), wherever compaction has put the rest;
        None: nothing of it lives."""
        return settled_of(self._live_index, record)

    # ── reading ────────────────────────────────────────────────────────────────────────────────────

    def read(self, positions: Sequence[int], budget: int) -> list[Run]:
        """Runs of the first positions that fit `budget` bytes; any thread (see reader.Reader.read)."""
        return self._reader.read(positions, budget)

    def _allocate_blob(self) -> int:
        return self._appender.number_blob()

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
                # A gap in the numbers would read as rot. Then the journal is just not clean, which costs
                # `redelivered` on some messages.
                if self._store.follows(batch):  # else an earlier write was refused and never repeated
                    self.write(batch)
                    self.committed(batch)
        finally:
            self._store.close()
