"""Who is alive: this process's registration, and everybody else's.

A registration is a key on a lease. While the store cannot be asked nothing changes for anybody: the lease may have
run out by our clock, but as long as nobody has *seen* our key go, we are who we were. So a lost lease is first
repaired in place; only a key that is gone means that we were declared dead, and then `on_lost` runs to its end
before we are heard of again.

Rule: one name, one process. A name that is taken by another live process is waited for, then refused.
Must not know slots (but for the disk rule of identity.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from broker.config.settings import ClusterSettings
from broker.core.errors import BrokerError, Code, RefusedError
from broker.core.slots import Member
from broker.metadata.port import RAN_OUT, Change, Lease, Metadata, MetadataRefused, MetadataUnavailable, Put
from broker.seams.clock import Clock

from .identity import check_name, settle_disk
from .keys import Keys, last_part
from .tasks import Tasks, shielded
from .watched import RETRY_S, Watched

log = logging.getLogger("stampede.cluster")

POLL_S = 0.25
"""How often a taken name is looked at again."""
MAX_REFUSED = 5
"""Registrations that the store may refuse in a row before it is taken for a lack of permission."""
STOP_S = 0.8
"""Who is told to stop asks the store twice, and waits so long for each answer: with a store that is away a process that
has nothing else to do ends within two seconds, as its supervisor may expect. An answer takes milliseconds."""
BARRED_S = 1.0
"""How often it is asked whether we may be a member."""
CALM_S = 30.0
"""A registration that lasted so long makes earlier losses forgotten."""


class Membership:
    """`me`: this process as registered now (its lease changes). `owners`, `edges`: all live ones by id, `me` among
    them. `up`: registered, and nobody has seen our key go.

    on_lost(why)       awaited when we were declared dead, before we register anew: stop leading.
    on_registered()    registered, for the first time or again.
    on_refused(error)  our name has become another process': this process must end.
    barred()           why we may not be a member now; "": we may. Asked before we register, and every BARRED_S then.
    """

    def __init__(
        self,
        metadata: Metadata,
        keys: Keys,
        settings: ClusterSettings,
        me: Member,
        clock: Clock,
        *,
        on_lost: Callable[[str], Awaitable[None]],
        on_registered: Callable[[], None],
        on_refused: Callable[[BrokerError], None],
        barred: Callable[[], str] = lambda: "",
    ) -> None:
        """Raises ConfigError when the name is not a legal one."""
        check_name(me.id)
        self.me = me
        self.owners: dict[str, Member] = {}
        self.edges: dict[str, Member] = {}
        self.up = False
        self.up_since = 0.0
        """Seconds of the monotonic clock."""
        self._metadata = metadata
        self._settings = settings
        self._clock = clock
        self._on_lost = on_lost
        self._on_registered = on_registered
        self._on_refused = on_refused
        self._barred = barred
        self._key = keys.member(me.kind, me.id)
        self._keys = keys
        self._watches = (
            Watched(metadata, keys.owners, lambda changes: self._apply(self.owners, changes)),
            Watched(metadata, keys.edges, lambda changes: self._apply(self.edges, changes)),
        )
        self._listeners: list[Callable[[], None]] = []
        self._lease: Lease | None = None
        self._revision = 0  # of our key as we wrote it
        self._key_gone = asyncio.Event()
        self._why = ""
        """We may not be a member; "": we may, and `_allowed` is set."""
        self._allowed = asyncio.Event()
        self._losses = 0
        self._tasks = Tasks()

    def listen(self, listener: Callable[[], None]) -> None:
        """listener(): `owners` or `edges` have changed."""
        self._listeners.append(listener)

    @property
    def lease(self) -> int:
        """Id of the lease that our registration hangs on, 0 = none now."""
        return self._lease.id if self._lease is not None and self.up else 0

    @property
    def on_probation(self) -> bool:
        """Declared dead by our peers a moment ago: perhaps it is we who cannot be reached, so we accuse nobody for a
        while. A lease that ran out because the store could not be asked says nothing of the kind."""
        return self._losses > 0 and self._clock.monotonic() - self.up_since < self._settings.lease_s

    async def start(self) -> None:
        """Watches, applies the disk rule, registers. Waits while the store gives no answer.

        Raises RefusedError(DUPLICATE_IDENTITY) when another live process has our name, MetadataRefused."""
        for watch in self._watches:
            await watch.start()
        # In this order: a second process with our name and an empty disk must not strike the first one out.
        await self._name_is_free()
        if self.me.kind == "owner":
            await settle_disk(self._metadata, self._keys, self.me)
        self._ask()
        self._tasks.spawn(self._look(), f"right of {self.me.id} to be registered")
        try:
            await self._register("")
        except BaseException:
            await self._tasks.close()
            raise
        self._tasks.spawn(self._keep(), f"registration of {self.me.id}")

    async def refresh(self) -> None:
        """Reads all members now. Raises MetadataUnavailable."""
        for watch in self._watches:
            await watch.refresh()

    async def set_leaving(self) -> bool:
        """Tells everybody that this process will end: it gets nothing new. False: the store gave no answer in STOP_S,
        and may be told all the same."""
        self.me = replace(self.me, leaving=True)
        try:
            async with asyncio.timeout(STOP_S):
                await self._tell_leaving()
        except TimeoutError:
            return False
        return True

    async def _tell_leaving(self) -> None:
        while self.up and self._lease is not None:
            try:
                item = await self._own_key()
                if item is None or item[0].boot != self.me.boot:
                    return  # declared dead: registered anew as leaving, if at all
                if item[0].leaving or await self._put(item[1], self._lease):
                    return
            except MetadataUnavailable:
                await asyncio.sleep(RETRY_S)
            except MetadataRefused as error:  # the lease is gone: registered anew as leaving
                log.debug("%s as leaving: %s", self.me.id, error)
                return

    async def tell_unreached(self, owners: tuple[str, ...]) -> None:
        """Tells everybody which owners this edge cannot reach. One attempt, if it is not what stands there already: to
        be called again as long as it holds."""
        here = self.edges.get(self.me.id)
        if here is not None and here.unreached == owners == self.me.unreached:
            return
        self.me = replace(self.me, unreached=owners)
        try:
            item = await self._own_key() if self.up else None
            if item is not None and item[0].boot == self.me.boot and self._lease is not None:
                await self._put(item[1], self._lease)
        except (MetadataUnavailable, MetadataRefused) as error:
            log.debug("%s cannot tell which owners it does not reach: %s", self.me.id, error)

    async def withdraw(self) -> None:
        """Gives the registration back, so that nobody waits for the lease to run out, and stops watching; within
        STOP_S: where the store gives no answer it does run out."""
        await self._tasks.close()
        self.up = False
        if self._lease is not None:
            try:
                async with asyncio.timeout(STOP_S):
                    await self._give_back(self._lease)
            except TimeoutError:
                log.warning("%s could not give its lease back in %g s, it will run out", self.me.id, STOP_S)
        for watch in self._watches:
            await watch.stop()

    # -- our key -----------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        try:
            while True:
                why = await self._lost()
                await self._register(why)
        except (RefusedError, MetadataRefused) as error:
            log.error("%s ends: %s", self.me.id, error)
            self._on_refused(error)

    async def _look(self) -> None:
        """Takes our key away ourselves where we must not be a member: what happens then is what happens to the dead."""
        while True:
            await asyncio.sleep(BARRED_S)
            self._ask()
            if self._why and self.lease:
                try:
                    await self._metadata.revoke(self.lease)
                except (MetadataUnavailable, MetadataRefused) as error:
                    log.debug("%s could not give its registration back: %s", self.me.id, error)

    def _ask(self) -> None:
        why = self._barred()
        if why and why != self._why:
            log.error("%s may not be registered: %s", self.me.id, why)
        elif self._why and not why:
            log.warning("%s may be registered again", self.me.id)
        self._why = why
        if why:
            self._allowed.clear()
        else:
            self._allowed.set()

    async def _lost(self) -> str:
        """Returns when the registration needs to be renewed, and why."""
        assert self._lease is not None
        lease = asyncio.ensure_future(self._lease.lost())
        gone = asyncio.ensure_future(self._key_gone.wait())
        try:
            await asyncio.wait((lease, gone), return_when=asyncio.FIRST_COMPLETED)
            return lease.result() if lease.done() else "its key was removed: declared dead"
        finally:
            lease.cancel()
            gone.cancel()

    async def _register(self, why: str) -> None:
        """Makes our key stand on a fresh lease. Raises RefusedError, MetadataRefused."""
        old, lease, refused = self._lease, await self._grant(), 0
        while True:
            try:
                if not self.up:
                    await self._allowed.wait()
                if lease.remaining <= 0:
                    lease = await self._grant()
                item = await self._own_key()
                taken = item is not None and item[0].boot != self.me.boot
                if self.up and (item is None or taken):
                    await self._declared_dead(why)
                elif taken:
                    await self._name_is_free()
                elif await self._put(item[1] if item else 0, lease):
                    break
            except MetadataUnavailable as error:
                log.debug("registering %s: %s", self.me.id, error)
                await asyncio.sleep(RETRY_S)
            except MetadataRefused:
                # Perhaps its peers revoked the fresh lease as well.
                refused += 1
                if refused > MAX_REFUSED:
                    raise
                lease = await self._grant()
            except RefusedError:
                await self._give_back(lease)
                raise
        self._lease = lease
        if old is not None:  # where only our key was removed it is still kept alive
            self._tasks.spawn(self._give_back(old), f"old lease of {self.me.id}")
        if self.up:
            log.warning("%s stays registered on a new lease: %s", self.me.id, why)
        else:
            self.up, self.up_since = True, self._clock.monotonic()
            log.info("%s %s is registered (boot %s)", self.me.kind, self.me.id, self.me.boot)
            self._on_registered()
        # Whoever needs our lease (the office of the controller hangs on it) has been waiting for this.
        for listener in self._listeners:
            shielded(listener)

    async def _name_is_free(self) -> None:
        """Waits for another process of our name, perhaps our predecessor whose lease has yet to run out.

        Raises RefusedError when it is still there after a lease's time (counted in answers of the store, so that
        an outage does not pass for patience)."""
        waited = 0.0
        while True:
            try:
                item = await self._own_key()
                if item is None or item[0].boot == self.me.boot:
                    return
                other = item[0]
                if waited > self._settings.lease_s + 1:
                    at = f" at {other.address}" if other.address else ""
                    raise RefusedError(
                        Code.DUPLICATE_IDENTITY,
                        f"{self.me.kind} {self.me.id!r} is already running{at} (boot {other.boot}); "
                        "give each process a cluster.id of its own",
                    )
                if not waited:
                    log.info("waiting for another %s at %s to go, or its lease to run out", other.id, other.address)
                waited += POLL_S
                await asyncio.sleep(POLL_S)
            except MetadataUnavailable as error:
                log.debug("looking for %s: %s", self.me.id, error)
                await asyncio.sleep(RETRY_S)

    async def _give_back(self, lease: Lease) -> None:
        try:
            await lease.revoke()
        except (MetadataUnavailable, MetadataRefused) as error:
            log.warning("%s could not give a lease back, it will run out: %s", self.me.id, error)

    async def _declared_dead(self, why: str) -> None:
        self.up = False
        log.warning("%s was declared dead: %s", self.me.id, why)
        if self._clock.monotonic() - self.up_since > CALM_S:
            self._losses = 0
        await self._on_lost(why)
        if why == RAN_OUT:
            return
        # Two owners that cannot talk to each other would declare each other dead for ever: ever more slowly.
        await asyncio.sleep(min(0.1 * 2.0**self._losses, self._settings.lease_s) if self._losses else 0)
        self._losses += 1

    async def _grant(self) -> Lease:
        while True:
            try:
                return await self._metadata.grant(self._settings.lease_s)
            except MetadataUnavailable as error:
                log.debug("no lease for %s: %s", self.me.id, error)
                await asyncio.sleep(RETRY_S)

    async def _own_key(self) -> tuple[Member, int] | None:
        """(who is registered under our name, revision). Raises MetadataUnavailable."""
        item = await self._metadata.get(self._key)
        if item is None:
            return None
        try:
            return Member.decode(item.value), item.revision
        except ValueError as error:
            log.error("%s: %s; overwritten", item.key, error)
            return replace(self.me, lease=item.lease), item.revision

    async def _put(self, revision: int, lease: Lease) -> bool:
        me = replace(self.me, lease=lease.id)
        done = await self._metadata.commit([(self._key, revision)], [Put(self._key, me.encode(), lease.id)])
        if done:
            self.me, self._revision = me, done
            self._key_gone.clear()
            self._watches[me.kind == "edge"].adopt(Change(self._key, me.encode(), done, lease.id))
        return bool(done)

    # -- everybody ---------------------------------------------------------------------------------------------------

    def _apply(self, members: dict[str, Member], changes: list[Change]) -> None:
        for change in changes:
            name = last_part(change.key)
            if change.key == self._key and change.value is None and change.revision > self._revision:
                self._key_gone.set()
            try:
                member = Member.decode(change.value) if change.value is not None else None
            except ValueError as error:
                log.error("%s: %s", change.key, error)
                continue
            if member is None:
                members.pop(name, None)
            else:
                members[name] = member
        for listener in self._listeners:
            shielded(listener)
