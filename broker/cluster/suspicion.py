"""Early revocation: an owner that its peers cannot reach is declared dead before its lease runs out.

An owner that cannot talk to another writes a suspicion of exactly that registration (boot and lease). Any owner that
sees fresh ones of a majority of the owners that could know revokes the lease; the controller may be the dead one, so it
is not left to it. Being wrong is safe: epochs fence, promises forbid overlap (docs/adr/0004).

Those that could know are the live owners that share a slot with it, one of them leading: no other owner has a stream to
it. Of fifty owners these are two, as placement has it (cluster/planning), and the other 47 would never say a word. A
single one is no jury, because each of two that cannot talk would have the other declared dead: then, and where it
shares nothing, a majority of all other owners must say so, or its lease has to run out.

A suspicion rests on an attempt to reach that owner that failed. One that began before either of us was registered as we
are now (the store was away, say, and all leases ran out) says nothing about whom we reach now.

Rule: edges may not suspect, because a broken way between edges and owners says nothing about an owner. An owner that
was itself declared dead a moment ago may not either. Must not know how silence is measured.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from broker.metadata.port import Change, Metadata, MetadataRefused, MetadataUnavailable
from broker.seams.clock import Clock

from .keys import Keys
from .membership import Membership
from .slots import SlotTable
from .tasks import Tasks
from .watched import RETRY_S, Watched

log = logging.getLogger("stampede.cluster")

FRESH_S = 3.0
"""A suspicion counts for so long, by the clock of the owner that reads it, from when it was seen."""
REPEAT_S = FRESH_S / 2
"""A suspicion that goes on is written no more often than this."""


class Suspicion(msgspec.Struct, frozen=True):
    """boot, lease: the registration it is about; a newer one of the same name is not concerned."""

    boot: str
    lease: int
    why: str


class Suspicions:
    """report() and clear() may be called as often as one likes, from the hot path: they write nothing themselves."""

    def __init__(self, metadata: Metadata, keys: Keys, membership: Membership, table: SlotTable, clock: Clock) -> None:
        self._table = table
        self._metadata = metadata
        self._keys = keys
        self._membership = membership
        self._clock = clock
        self._watched = Watched(metadata, keys.suspects, self._apply)
        self._theirs: dict[tuple[str, str], tuple[Suspicion, float]] = {}  # (suspect, reporter) → (what, seen at)
        self._mine: dict[str, tuple[Suspicion, float]] = {}  # suspect → (what, last reported at)
        self._written: dict[str, tuple[Suspicion, float]] = {}  # the same as it stands in the store
        self._revoking: set[int] = set()
        self._seen: dict[int, float] = {}  # lease of a live owner → since when we know of it
        self._dirty = asyncio.Event()
        self._tasks = Tasks()
        membership.listen(self._on_members)

    async def start(self) -> None:
        """After the membership has started. Raises MetadataRefused."""
        self._on_members()
        await self._watched.start()
        self._tasks.spawn(self._run(), "suspicions")

    async def stop(self) -> None:
        await self._tasks.close()
        await self._watched.stop()

    def report(self, owner: str, boot: str, lease: int, why: str, since: float | None = None) -> None:
        """We cannot reach this registration of `owner`. Ignored when it is not the present one any more.

        since   monotonic time when the attempt began that shows it, None: now. To be reported again as long as it is
                so: a suspicion is forgotten after FRESH_S."""
        member, now = self._membership.owners.get(owner), self._clock.monotonic()
        if member is None or (member.boot, member.lease) != (boot, lease):
            return
        if owner == self._membership.me.id or not self._membership.up or self._membership.on_probation:
            return
        if since is not None and since < max(self._membership.up_since, self._seen.get(lease, now)):
            return
        if owner not in self._mine:
            log.warning("%s cannot be reached: %s", owner, why)
        self._mine[owner] = (Suspicion(boot, lease, why), now)
        written = self._written.get(owner)
        if written is None or self._mine[owner][1] - written[1] >= REPEAT_S or written[0].lease != lease:
            self._dirty.set()

    def clear(self, owner: str) -> None:
        """It talks to us again."""
        if self._mine.pop(owner, None) is not None:
            log.info("%s can be reached again", owner)
            self._dirty.set()

    # -- ours --------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(FRESH_S / 4 if self._mine or self._written else None):
                    await self._dirty.wait()
            except TimeoutError:
                pass
            self._dirty.clear()
            self._forget_old()
            try:
                await self._write()
            except MetadataUnavailable as error:
                log.debug("suspicions wait for the metadata store: %s", error)
                self._dirty.set()
                await asyncio.sleep(RETRY_S)
            except MetadataRefused as error:  # our own lease is gone: who is dead are we
                log.warning("suspicions are not written: %s", error)
                self._mine.clear()

    def _forget_old(self) -> None:
        now = self._clock.monotonic()
        for owner, (suspicion, at) in list(self._mine.items()):
            member = self._membership.owners.get(owner)
            if now - at >= FRESH_S or member is None or member.lease != suspicion.lease:
                del self._mine[owner]

    async def _write(self) -> None:
        lease = self._membership.lease
        for owner in sorted({*self._mine, *self._written}):
            key = self._keys.suspicion(owner, self._membership.me.id)
            if owner not in self._mine:
                await self._metadata.delete(key)
                self._written.pop(owner, None)  # not written: cleared while we wrote of others
                continue
            suspicion, at = self._mine[owner]
            written = self._written.get(owner)
            if lease and (written is None or at - written[1] >= REPEAT_S or written[0].lease != suspicion.lease):
                await self._metadata.put(key, msgspec.json.encode(suspicion), lease)
                self._written[owner] = (suspicion, at)

    # -- everybody's -------------------------------------------------------------------------------------------------

    def _apply(self, changes: list[Change]) -> None:
        now = self._clock.monotonic()
        for change in changes:
            try:
                who = self._keys.suspicion_of(change.key)
                if change.value is None:
                    self._theirs.pop(who, None)
                else:
                    self._theirs[who] = (msgspec.json.decode(change.value, type=Suspicion), now)
            except (ValueError, msgspec.DecodeError) as error:
                log.error("%s: %s", change.key, error)
        self._judge()

    def _on_members(self) -> None:
        now = self._clock.monotonic()
        self._seen = {one.lease: self._seen.get(one.lease, now) for one in self._membership.owners.values()}
        self._judge()

    def _judge(self) -> None:
        for suspect in sorted({suspect for suspect, _ in self._theirs}):
            self._judge_one(suspect)

    def _judge_one(self, suspect: str) -> None:
        owners, now = self._membership.owners, self._clock.monotonic()
        member = owners.get(suspect)
        if member is None or not member.lease or not self._membership.up or member.lease in self._revoking:
            return
        others = owners.keys() - {suspect}
        jury = self._table.peers_of(suspect) & others
        if len(jury) < 2:
            jury = others
        votes = sorted(
            reporter
            for (about, reporter), (suspicion, at) in self._theirs.items()
            if about == suspect and reporter in jury and now - at < FRESH_S
            and (suspicion.boot, suspicion.lease) == (member.boot, member.lease)
        )  # fmt: skip
        if len(votes) > len(jury) // 2:
            log.warning("%s is declared dead: %s cannot reach it", suspect, ", ".join(votes))
            self._revoking.add(member.lease)
            self._tasks.spawn(self._revoke(suspect, member.lease), f"revocation of {suspect}")

    async def _revoke(self, suspect: str, lease: int) -> None:
        try:
            await self._metadata.revoke(lease)
        except (MetadataUnavailable, MetadataRefused) as error:
            log.warning("%s could not be declared dead: %s", suspect, error)
        finally:
            self._revoking.discard(lease)
