"""Tells how far this process has applied the live configuration, so that an operator can wait until all have.

Rule: one small write when something has changed, at most four a second; the key goes with the registration.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from broker.metadata.port import Metadata, MetadataRefused, MetadataUnavailable

from .keys import Keys
from .membership import Membership
from .tasks import Tasks

log = logging.getLogger("stampede.cluster")

EVERY_S = 0.25
"""A request that waits for a change to be in use everywhere should wait no longer for this note than for the change."""


class Applied(msgspec.Struct, frozen=True):
    """The value of `applied/<id>`."""

    revision: int


class AppliedNote:
    """note(revision) says it; the writing is done in the background."""

    __slots__ = ("_dirty", "_key", "_membership", "_metadata", "_revision", "_tasks", "_written")

    def __init__(self, metadata: Metadata, keys: Keys, membership: Membership) -> None:
        self._metadata = metadata
        self._key = keys.applied_by(membership.me.id)
        self._membership = membership
        self._revision = 0
        self._written = (0, 0)  # (revision, lease)
        self._dirty = asyncio.Event()
        self._tasks = Tasks()
        membership.listen(self._dirty.set)  # also tells of a new lease of our own

    def note(self, revision: int) -> None:
        self._revision = max(self._revision, revision)
        self._dirty.set()

    def start(self) -> None:
        self._tasks.spawn(self._run(), "note of the applied configuration")

    async def stop(self) -> None:
        await self._tasks.close()

    async def _run(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            now = (self._revision, self._membership.lease)
            if now == self._written or not all(now):
                continue
            try:
                await self._metadata.put(self._key, msgspec.json.encode(Applied(now[0])), now[1])
                self._written = now
            except (MetadataUnavailable, MetadataRefused) as error:
                log.debug("%s: %s", self._key, error)
                self._dirty.set()
            await asyncio.sleep(EVERY_S)
