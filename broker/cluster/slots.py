"""The slot table: who leads what, as the metadata store has it.

Rule: nothing here decides. A record changes by compare-and-swap on its revision only, and per slot revisions only
grow: what listeners are told never goes back. Must not know what a change is for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from broker.core.slots import SlotRecord
from broker.metadata.port import Change, Metadata, MetadataRefused, MetadataUnavailable, Put

from .identity import BATCH
from .keys import Keys, slot_of_key
from .tasks import Tasks, shielded
from .watched import Watched

log = logging.getLogger("stampede.cluster")

Listener = Callable[[int, "SlotRecord | None"], None]
Done = Callable[["SlotRecord | None"], None]
Swap = tuple["SlotRecord | None", SlotRecord]
"""(what we decided upon, None = no record yet; what it shall become)."""


class SlotTable:
    """All slot records. `records` is a plain dict: reading it costs nothing and never waits."""

    __slots__ = ("_asked", "_keys", "_listeners", "_metadata", "_tasks", "_watched", "records")

    def __init__(self, metadata: Metadata, keys: Keys) -> None:
        self._metadata = metadata
        self._keys = keys
        self._watched = Watched(metadata, keys.slots, self._apply)
        self._listeners: list[Listener] = []
        self._asked: list[tuple[SlotRecord, SlotRecord, Done]] = []
        self._tasks = Tasks()
        self.records: dict[int, SlotRecord] = {}

    def listen(self, listener: Listener) -> None:
        """listener(slot, record): after every change, also of those found at start(); None = the record is gone."""
        self._listeners.append(listener)

    def peers_of(self, owner: str) -> set[str]:
        """Owners that a replication stream joins with it: they follow what it leads, or lead what it follows."""
        peers: set[str] = set()
        for record in self.records.values():
            if record.leader == owner:
                peers.update(record.replicas)
            elif owner in record.replicas and record.leader:
                peers.add(record.leader)
        peers.discard(owner)
        return peers

    async def start(self) -> None:
        """Raises MetadataRefused; waits while the store gives no answer."""
        await self._watched.start()

    async def stop(self) -> None:
        await self._tasks.close()
        await self._watched.stop()

    async def refresh(self) -> None:
        """Reads all records now. Raises MetadataUnavailable."""
        await self._watched.refresh()

    async def cas(self, record: SlotRecord, new: SlotRecord) -> SlotRecord | None:
        """Makes `new` of `record` if it still is the current one. Returns the new record with its revision; None:
        another writer was faster, and `records` has what it wrote if the store could be asked.

        Raises MetadataUnavailable: nobody knows whether it happened, and it may still happen. The watch will tell;
        a later cas() from the record of then cannot be confused by it, because only one of the two can succeed.
        """
        if await self.swap([(record, new)]):
            return self.records[new.slot]
        try:
            await self.reread(new.slot)
        except MetadataUnavailable:
            pass  # the watch brings it
        return None

    def change(self, record: SlotRecord, new: SlotRecord, done: Done) -> None:
        """cas() for callers that do not wait: done(the new record, or None when it was not changed or nobody knows).

        What is asked for while another change is under way goes out together: a leader that loses a follower shrinks
        the isr of all its slots at once."""
        self._asked.append((record, new, done))
        if len(self._asked) == 1:
            self._tasks.spawn(self._change_asked(), "changes of slot records")

    async def _change_asked(self) -> None:
        while self._asked:
            slots: dict[int, tuple[SlotRecord, SlotRecord, Done]] = {}
            for one in self._asked:
                if len(slots) < BATCH:
                    slots.setdefault(one[1].slot, one)
            batch = list(slots.values())
            results = await self._change_all([(record, new) for record, new, _ in batch])
            for (_, _, done), result in zip(batch, results, strict=True):
                shielded(done, result)
            # Only now, so that change(), which an answer may call, sees that this is under way.
            self._asked = [one for one in self._asked if slots.get(one[1].slot) is not one]

    async def _change_all(self, swaps: list[tuple[SlotRecord, SlotRecord]]) -> list[SlotRecord | None]:
        """In one transaction; if one of them comes too late, each on its own."""
        try:
            if len(swaps) > 1 and await self.swap(swaps):
                return [self.records[new.slot] for _, new in swaps]
        except (MetadataUnavailable, MetadataRefused) as error:
            log.debug("%d slot records not changed: %s", len(swaps), error)
            return [None] * len(swaps)
        results = await asyncio.gather(*(self.cas(old, new) for old, new in swaps), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, (MetadataUnavailable, MetadataRefused)):
                raise result
        return [None if isinstance(result, BaseException) else result for result in results]

    async def swap(self, swaps: Sequence[Swap], guard: Sequence[tuple[str, int]] = ()) -> bool:
        """All of `swaps` in one transaction, or none. guard: further (key, revision) that must hold.

        Raises MetadataUnavailable as cas() does."""
        compare = [(self._keys.slot(new.slot), old.revision if old else 0) for old, new in swaps]
        puts = [Put(self._keys.slot(new.slot), new.encode()) for _, new in swaps]
        revision = await self._metadata.commit([*guard, *compare], puts)
        for put in puts if revision else ():
            self._watched.adopt(Change(put.key, put.value, revision))
        return bool(revision)

    async def reread(self, slot: int) -> SlotRecord | None:
        """The record as the store has it now. Raises MetadataUnavailable."""
        item = await self._metadata.get(self._keys.slot(slot))
        if item is not None:
            self._watched.adopt(Change(item.key, item.value, item.revision, item.lease))
        return self.records.get(slot)

    def _apply(self, changes: list[Change]) -> None:
        for change in changes:
            try:
                slot = slot_of_key(change.key)
            except ValueError as error:
                log.error("%s", error)
                continue
            try:
                record = SlotRecord.decode(slot, change.value, change.revision) if change.value is not None else None
            except ValueError as error:
                log.error("%s; the record before it stays in use", error)
                # The revision is known all the same, so that the next compare-and-swap can put it right.
                if (old := self.records.get(slot)) is not None:
                    self.records[slot] = replace(old, revision=change.revision)
                continue
            if record is None:
                self.records.pop(slot, None)
            else:
                self.records[slot] = record
            for listener in self._listeners:
                shielded(listener, slot, record)
