"""How a follower gets what it lacks: the tail of the log, large bodies ahead of their items, or a whole copy.

Rule: the order within a slot is the log's; an item whose large body the follower does not have yet waits for it, and so
does everything behind it. Reads are made in a thread and throttled; what is under way is bounded. Must not know which
owner leads or which are in sync: it is told whom to serve.
"""

# Example. Slot 9 is led here at lsn 500; its follower was away and says that it has 420 on our lineage.
#     TAIL     pump: the tail in memory goes back to 300, so items 421 … are sent, 128 looked up at a time, as long as
#              there is room. What is committed meanwhile is found in the tail too, behind these
#     body     item 450 names a large body: it goes first, in chunks, and nothing of the slot passes it. `moving` is
#              set; when the follower says that all of it is on its disk, 450 and what is behind it go on
#     LIVE     nothing is left: from here on each commit goes there as it is sealed (leader.sealed)
# Had the tail begun at 430 only: UNFIT, out of the isr, then a copy (SEED): snapshot as of lsn 500 in pieces, at a
# bounded rate; then TAIL from 500 on. If the log behind 500 is gone by then, the next copy goes twice as fast
# (hurry_seeds), so some attempt ends before the tail does.

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from broker.core.errors import CorruptJournal, JournalError
from broker.core.records import Item, MetaRecord
from broker.journal.log import format as f
from broker.rpc.v1 import replica_pb2 as pb
from broker.seams.clock import Clock

from ..commit.io_thread import Io
from .isr import FollowerProgress, LeaderState, LedSlot, Progress
from .peer import Peer

log = logging.getLogger("stampede.owner")

PIECE_BYTES: Final = 256 * 1024
"""Of a seed, read and sent at a time."""
SEED_WINDOW: Final = 1024 * 1024
"""A seed goes on only while less is unacknowledged: live traffic shares the stream."""
SEEDS: Final = 4
"""Under way at a time; each keeps log segments from being freed."""
CHUNK_BYTES: Final = 64 * 1024
BODY_WINDOW: Final = 1024 * 1024
"""Bytes of one large body that are under way."""
RETRY_S: Final = 1.0
"""How soon a seed that could not be read is begun again, and what could not be read of a large body is read again."""
LAST_RETRY_S: Final = 60.0
"""Of a large body: ever more rarely, because its disk may well be what is in trouble."""
LATE_ITEMS: Final = 512
"""Of logs' tails under way to one follower: what is committed meanwhile shares the stream, waits behind them, and is
waited for by clients as soon as the follower is in sync."""
STEP_ITEMS: Final = 128
"""Looked up at a time."""
HURRY_S: Final = 5.0
"""After so long twice as much may be under way, and so on: it must end, whatever is written meanwhile."""
PAUSE_S: Final = 0.01
"""How soon it is looked again whether there is room."""


class SeedSource(Protocol):
    """A copy of a slot as of one moment. `lineage`, `lsn`: where its log stood."""

    lineage: list[tuple[int, int]]
    lsn: int

    def read(self, budget: int) -> list[bytes] | None: ...
    def close(self) -> None: ...


class ReplicaBodyReader(Protocol):
    def read(self, offset: int, n: int) -> bytes: ...
    def size(self) -> int: ...
    def close(self) -> None: ...


class Bodies(Protocol):
    """The leader's large bodies."""

    def open(self, id: int) -> ReplicaBodyReader:
        """Raises JournalError when there is no such body (any more)."""
        ...


class Log(Protocol):
    """What it asks of the journal."""

    @property
    def blobs(self) -> Bodies: ...
    def tail(self, slot: int, after_lsn: int, most: int) -> list[Item] | None: ...
    def seed(self, slot: int, metas: list[MetaRecord]) -> SeedSource: ...


def bodies_of(data: bytes) -> Sequence[tuple[int, int]]:
    """(id, length) of the large bodies that an item names. What is no item may raise struct.error."""
    # For each item of each follower: two bytes at fixed places say that nearly all of them name no body.
    if len(data) < f.RECORD.size:
        return ()
    kind, flags = data[8], data[9]
    if kind == f.RUN:
        if not flags & f.BLOB_REF:
            return ()
    elif kind != f.GROUP:
        return ()
    found: list[tuple[int, int]] = []
    for at, _, part, part_flags, _, _, _ in f.records_in(data, 0, len(data)):
        if part == f.RUN and part_flags & f.BLOB_REF:
            found.append(f.PAIR.unpack_from(data, at + f.RUN_FIXED.size + (16 if part_flags & f.DEDUP else 0)))
    return found


class CatchUp:
    """All followers that lack something.

    seeds, seed_bytes   begun and sent so far."""

    def __init__(
        self,
        journal: Log,
        io: Io,
        clock: Clock,
        later: Callable[[float, Callable[[], None]], Any],
        seed_bytes_per_s: int,
        snapshot: Callable[[int], list[MetaRecord]],
        durable: Callable[[Callable[[], None]], None],
        changed: Callable[[LedSlot], None],
    ) -> None:
        """`snapshot`: small state of a slot now. `changed`: a follower's state has."""
        self.seeds = 0
        self.seed_bytes = 0
        self.journal = journal
        self.io = io
        self.clock = clock
        self.later = later
        self.snapshot = snapshot
        self.durable = durable
        self.changed = changed
        self._rate = seed_bytes_per_s
        self._free_at = 0.0
        """When the rate allows the next piece."""
        self._waiting: deque[_Seed] = deque()
        self._running: dict[_Seed, None] = {}
        self._bodies: dict[tuple[Peer, int], _Body] = {}
        self._behind: dict[Peer, dict[FollowerProgress, LedSlot]] = {}
        self._behind_since: dict[Peer, float] = {}

    # ── the tail ───────────────────────────────────────────────────────────────────────────────────

    def pump(self, peer: Peer, lead: LedSlot, progress: FollowerProgress) -> None:
        """Sends what the follower lacks, as far as there is room; LIVE when nothing is left, UNFIT when the log does
        not go back so far."""
        # Called from everywhere where something may go on, so it asks for itself whether it may.
        if progress.state is not Progress.TAIL or progress.moving or _gone(lead, progress):
            return
        while not progress.moving:
            if not self._room(peer):
                self._behind.setdefault(peer, {})[progress] = lead
                break
            # From memory only. Reading the log for one slot would read 256 slots' records; a copy is cheaper, and
            # bounded.
            items = self.journal.tail(progress.slot, progress.sent, STEP_ITEMS)
            if items is None:
                progress.cannot_go_on()
                lead.hurry_seeds()
                self.changed(lead)
                break
            # The list is empty when the last item sealed has been sent: no item can fall between TAIL and LIVE, since
            # sealing and this run in one thread.
            if not items:
                progress.caught_up()
                lead.renew_live()
                break
            self._put(peer, lead, progress, items)
        peer.flush()

    def _put(self, peer: Peer, lead: LedSlot, progress: FollowerProgress, items: list[Item]) -> None:
        """As many of them as there is room for, up to the first whose large body has to go ahead of it."""
        for _, lsn, data in items:
            if not peer.room:
                return
            # One at a time; the next of the same item when this one is there.
            missing = [body for body in bodies_of(data) if body[0] not in progress.bodies]
            if missing:
                progress.carries(True)
                self.body(peer, lead, progress, *missing[0], partial(self._moved, peer, lead, progress))
                return
            progress.bodies.clear()
            peer.put(progress, lsn, data, late=True)

    def _room(self, peer: Peer) -> bool:
        """May more of what it lacks be sent to the follower now."""
        now = self.clock.monotonic()
        # 1 << 16 at most. A follower that is given less than is written would never come into sync.
        hurry = min(int((now - self._behind_since.setdefault(peer, now)) / HURRY_S), 16)
        return peer.room and peer.late < LATE_ITEMS << hurry

    def _moved(self, peer: Peer, lead: LedSlot, progress: FollowerProgress) -> None:
        progress.carries(False)
        self.pump(peer, lead, progress)

    def on_room(self, peer: Peer) -> None:
        """The follower has acknowledged something."""
        behind = self._behind.get(peer, {})
        # In the order in which they ran out of room, and each goes to the end when it does again: no slot starves
        # another.
        for progress, lead in list(behind.items()):
            if not self._room(peer):
                return
            del behind[progress]
            self.pump(peer, lead, progress)
        if not behind:
            self._behind.pop(peer, None)
            self._behind_since.pop(peer, None)

    def on_down(self, peer: Peer) -> None:
        """Nothing of what was under way to it counts."""
        self._behind.pop(peer, None)
        self._behind_since.pop(peer, None)
        for body in [b for b in self._bodies.values() if b.peer is peer]:
            body.cancel()
        for seed in [s for s in (*self._running, *self._waiting) if s.peer is peer]:
            self.cancel(seed)

    # ── large bodies ───────────────────────────────────────────────────────────────────────────────

    def body(
        self, peer: Peer, lead: LedSlot, progress: FollowerProgress, id: int, length: int, then: Callable[[], None]
    ) -> None:
        """Gives the follower a large body; `then` when all of it is on its disk. Never, if its stream breaks."""
        known = self._bodies.get((peer, id))
        # A copy and the log behind it may name the same body: it travels once.
        if known is None:
            known = self._bodies[peer, id] = _Body(self, peer, progress.slot, id, length)
        progress.bodies.add(id)
        known.wanted(lead, progress, then)

    def forget(self, body: _Body) -> None:
        self._bodies.pop((body.peer, body.id), None)

    def on_taken(self, peer: Peer, taken: pb.BlobTaken) -> None:
        body = self._bodies.get((peer, taken.id))
        if body is not None:
            body.acknowledged(taken.bytes, taken.whole)

    # ── seeds ──────────────────────────────────────────────────────────────────────────────────────

    def seed(self, peer: Peer, lead: LedSlot, progress: FollowerProgress) -> None:
        """Gives the follower a copy of the slot, in its turn. It must not be in sync."""
        progress.is_seeded()
        self._waiting.append(_Seed(self, peer, lead, progress))
        self._next()

    def _next(self) -> None:
        while self._waiting and len(self._running) < SEEDS:
            seed = self._waiting.popleft()
            if not seed.stale:
                self.seeds += 1
                self._running[seed] = None
                seed.begin()

    def cancel(self, seed: _Seed) -> None:
        seed.over = True
        if seed in self._running:
            self.done(seed)

    def done(self, seed: _Seed) -> None:
        seed.close()
        if seed in self._running:
            del self._running[seed]
            self._next()

    def pace(self, nbytes: int, faster: int) -> float:
        """Seconds until the next piece may be sent after one of `nbytes`."""
        now = self.clock.monotonic()
        # A leaky bucket over all seeds of this owner: rest that was not used is not saved up.
        self._free_at = max(now, self._free_at) + nbytes / (self._rate * faster)
        self.seed_bytes += nbytes
        return self._free_at - now


def _gone(lead: LedSlot, progress: FollowerProgress) -> bool:
    """Does what is known by this progress not count any more: the follower was asked anew, or nobody leads here."""
    return lead.state is LeaderState.DEPOSED or lead.followers.get(progress.member) is not progress


class _Seed:
    """A copy of one slot on its way to one follower. `over`: nobody wants it any more."""

    def __init__(self, user: CatchUp, peer: Peer, lead: LedSlot, progress: FollowerProgress) -> None:
        self.peer = peer
        self.over = False
        self._user = user
        self._lead = lead
        self._track = progress
        self._reader: SeedSource | None = None
        self._reading = False
        self._first = True
        self._items: list[bytes] = []
        self._missing: deque[tuple[int, int]] = deque()

    @property
    def stale(self) -> bool:
        return self.over or _gone(self._lead, self._track)

    def begin(self) -> None:
        user, slot = self._user, self._track.slot
        self._reader = user.journal.seed(slot, user.snapshot(slot))
        # It speaks of everything appended so far, and is read from the disk.
        user.durable(self._read)

    def close(self) -> None:
        if self._reader is not None and not self._reading:
            self._reader.close()
            self._reader = None

    def _read(self) -> None:
        if self.stale or self._reader is None:
            self._user.done(self)
            return
        self._reading = True
        self._user.io.submit(partial(self._reader.read, PIECE_BYTES), self._arrived)

    def _arrived(self, items: list[bytes] | None, error: BaseException | None) -> None:
        self._reading = False
        if self.stale:
            self._user.done(self)
        elif error is not None:
            log.error("slot %d: its copy for %s cannot be read: %s", self._track.slot, self._track.member, error)
            # Not an end: another attempt in a second, and the follower is out of the isr anyhow, so nobody waits for
            # it.
            self._track.cannot_go_on()
            self._lead.retry(self._user.clock.monotonic() + RETRY_S)
            self._user.done(self)
        elif items is None:
            self._finish()
        else:
            self._items = items
            self._missing.extend(body for item in items for body in bodies_of(item))
            self._go_on()

    def _go_on(self) -> None:
        """The large bodies one after another, then the piece that names them."""
        user = self._user
        if self.stale:
            user.done(self)
        elif self._missing:
            # Bodies before the piece that names them, as for items (I3).
            user.body(self.peer, self._lead, self._track, *self._missing.popleft(), self._go_on)
        elif self.peer.unacked > SEED_WINDOW:
            user.later(PAUSE_S, self._go_on)
        else:
            items, self._items = self._items, []
            nbytes = sum(map(len, items))
            self._send(pb.Seed(slot=self._track.slot, first=self._first, items=items), nbytes, [])
            # The next piece is read when it may be sent: one is in memory at a time.
            user.later(user.pace(nbytes, self._lead.seed_rate), self._read)

    def _send(self, seed: pb.Seed, nbytes: int, followers: list[tuple[FollowerProgress, int]]) -> None:
        self._first = False
        self.peer.seed(seed, nbytes, followers)

    def _finish(self) -> None:
        reader, progress = self._reader, self._track
        assert reader is not None
        seed = pb.Seed(slot=progress.slot, first=self._first, last=True, lsn=reader.lsn)
        seed.epochs.extend(epoch for epoch, _ in reader.lineage)
        seed.firsts.extend(first for _, first in reader.lineage)
        # The acknowledgement of the last piece is one of `reader.lsn`: everything up to there is on its disk.
        self._send(seed, 0, [(progress, reader.lsn)])
        # From its lsn on it is like any follower that has been away; it may join the isr when it is at its floor.
        progress.has_copy(reader.lsn)
        self._user.done(self)
        self._user.pump(self.peer, self._lead, progress)


class _Body:
    """One large body on its way to one follower. _present: we have it (still)."""

    def __init__(self, user: CatchUp, peer: Peer, slot: int, id: int, length: int) -> None:
        self.peer = peer
        self.id = id
        self._then: list[Callable[[], None]] = []
        self._user = user
        self._reader: ReplicaBodyReader | None = None
        self._reading = False
        self._over = False
        self._pause = RETRY_S
        self._tracks: list[tuple[LedSlot, FollowerProgress]] = []
        self._read_bytes = self._taken_bytes = 0
        self._slot = slot
        self._length = length
        self._present = True
        self._open()

    def wanted(self, lead: LedSlot, progress: FollowerProgress, then: Callable[[], None]) -> None:
        self._tracks.append((lead, progress))
        self._then.append(then)
        if not self._present:
            self._gone()

    def _gone(self) -> None:
        """Its message has been settled since: the item that says so is in the log already, and before the follower has
        that too, it must not be in sync."""
        for lead, progress in self._tracks:
            progress.not_before(lead.last)

    def _open(self) -> None:
        """What cannot be opened is there all the same: a follower that got an empty one instead would lead with it. An
        empty one is what we were given ourselves for a message that had been taken, and its record is not gone yet."""
        try:
            self._reader = self._user.journal.blobs.open(self.id)
            # A file of no bytes stands for a body that was not needed any more when this owner was itself a follower.
            self._present = not self._length or self._reader.size() > 0
        except CorruptJournal:
            self._present = False
        except JournalError as error:
            self._again(str(error), self._reopen)
            return
        if not self._present:
            self._length = 0
            self._gone()
        self.peer.body(self.id, self._length, self._slot)

    def _reopen(self) -> None:
        if not self._over:
            self._open()

    def acknowledged(self, nbytes: int, whole: bool) -> None:
        """The follower has so much of it."""
        self._taken_bytes = nbytes
        if whole:
            self._end()
            for then in self._then:
                then()
        else:
            self._read()

    def cancel(self) -> None:
        self._end()

    def _end(self) -> None:
        self._over = True
        self._user.forget(self)
        self._close()

    def _close(self) -> None:
        if self._reader is not None and not self._reading:
            self._reader.close()
            self._reader = None

    def _read(self) -> None:
        # Counted by what is on the follower's disk, not by what was sent: a slow disk there slows the reading here.
        under_way = self._read_bytes - self._taken_bytes
        if (
            self._over
            or self._reading
            or self._reader is None
            or self._read_bytes >= self._length
            or under_way >= BODY_WINDOW
        ):
            return
        self._reading = True
        read = partial(self._reader.read, self._read_bytes, min(CHUNK_BYTES, self._length - self._read_bytes))
        self._user.io.submit(read, self._arrived)

    def _arrived(self, data: bytes | None, error: BaseException | None) -> None:
        self._reading = False
        if self._over:
            self._close()
        elif data:
            self._pause = RETRY_S
            self._read_bytes += len(data)
            self.peer.chunk(self.id, data)
            self._read()
        else:
            self._again(str(error or "its file is too short"), self._read)

    def _again(self, why: str, step: Callable[[], None]) -> None:
        """Nothing of the slot gets past it, so the follower is not in sync before it has the body; other slots share
        its stream and need nothing of that."""
        log.error(
            "large body %016x cannot be read for follower %s, it is tried again in %g s: %s",
            self.id, self.peer.id, self._pause, why,
        )  # fmt: skip
        self._user.later(self._pause, step)
        self._pause = min(2 * self._pause, LAST_RETRY_S)
