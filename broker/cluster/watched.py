"""A local copy of all keys under a prefix that follows the metadata store.

Rule: per key, revisions only grow: neither a late watch event, nor a re-read, nor our own write told to us twice
can bring an older value back. Survives an unavailable store (the copy stands still) and compacted history (the
prefix is read again and the difference told). Must not know what the values mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.metadata.port import Change, Compacted, KeyValue, Metadata, MetadataRefused, MetadataUnavailable

from .tasks import Tasks, shielded

log = logging.getLogger("stampede.cluster")

RETRY_S = 0.2
"""Wait before the store is asked again when it gave no answer."""
REFUSED_RETRY_S = 5.0
"""The same when it said no (an administrator has to change a permission first)."""


class Watched:
    """apply(changes): told every change once, in order per key, in the loop's thread. A value None = key gone.

    `items`: the keys as of now, already changed when apply is called."""

    __slots__ = ("_apply", "_gone", "_metadata", "_position", "_prefix", "_tasks", "items")

    def __init__(self, metadata: Metadata, prefix: str, apply: Callable[[list[Change]], None]) -> None:
        self._metadata = metadata
        self._prefix = prefix
        self._apply = apply
        self._position = 0
        # Keys that went away by a re-read or our own delete → up to which revision watch events about them are old.
        # Needed only until the watch has passed that revision.
        self._gone: dict[str, int] = {}
        self._tasks = Tasks()
        self.items: dict[str, KeyValue] = {}

    async def start(self) -> None:
        """Reads the prefix (waits while the store gives no answer), then follows it. Raises MetadataRefused."""
        while True:
            try:
                self._position = await self.refresh()
                break
            except MetadataUnavailable as error:
                log.warning("waiting for the metadata store: %s", error)
                await asyncio.sleep(RETRY_S)
        self._tasks.spawn(self._follow(), f"watch of {self._prefix}")

    async def stop(self) -> None:
        await self._tasks.close()

    async def refresh(self) -> int:
        """Reads the prefix now and tells the difference. Returns the store's revision it was read at."""
        items, revision = await self._metadata.range(self._prefix)
        there = {item.key for item in items}
        changes = [Change(item.key, item.value, item.revision, item.lease) for item in items]
        # A key we know from a revision after the read (our own write meanwhile) has not gone.
        changes += [
            Change(key, None, revision)
            for key, known in self.items.items()
            if key not in there and known.revision <= revision
        ]
        self._pass_on(changes)
        return revision

    def adopt(self, change: Change) -> None:
        """Our own write has succeeded: known at once, without waiting for the watch. One that the watch has passed
        already is old: it was told, and whatever became of the key since."""
        if change.revision > self._position:
            self._pass_on([change])

    async def _follow(self) -> None:
        compacted = False
        while True:
            wait = RETRY_S
            try:
                if compacted:
                    self._position = max(self._position, await self.refresh())
                    compacted = False
                async for changes in self._metadata.watch(self._prefix, self._position + 1):
                    self._pass_on(changes)
                    self._position = max(self._position, changes[-1].revision)
                    if self._gone:
                        self._gone = {key: last for key, last in self._gone.items() if last > self._position}
            except Compacted:
                compacted, wait = True, 0.0
            except MetadataUnavailable as error:
                log.debug("watch of %s: %s", self._prefix, error)
            except MetadataRefused as error:
                log.error("watch of %s refused: %s", self._prefix, error)
                wait = REFUSED_RETRY_S
            await asyncio.sleep(wait)

    def _pass_on(self, changes: list[Change]) -> None:
        fresh = [change for change in changes if self._place(change)]
        if fresh:
            shielded(self._apply, fresh)

    def _place(self, change: Change) -> bool:
        """Puts one change into `items`. False: it is old."""
        key, known = change.key, self.items.get(change.key)
        if known is None:
            if change.value is None or change.revision <= self._gone.get(key, 0):
                return False
        elif change.revision < known.revision or (change.revision == known.revision and change.value is not None):
            return False
        if change.value is None:
            del self.items[key]
            if change.revision > self._position:
                self._gone[key] = change.revision
        else:
            self.items[key] = KeyValue(key, change.value, change.revision, change.lease)
        return True
