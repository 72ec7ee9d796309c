"""Which address a durable subscription belongs to, cluster-wide: its name may be used for one address only.

Rule: asked when a client subscribes, never per message. A name that is known is answered from the local copy; only a
new one is written, and those that many clients claim at once are written together: one round trip and one sync of the
store for a hundred, so that a crowd that comes for the first time does not wait longer than the store may take. Must
not know queues: the owner of the address keeps the messages.
"""

from __future__ import annotations

import asyncio

from broker.metadata.port import Change, Delete, Metadata, MetadataRefused, MetadataUnavailable, Put

from .identity import BATCH
from .keys import Keys
from .tasks import Tasks
from .watched import Watched


class NameClaim:
    """A new name that a session wants for an address. `answer`: see SubscriptionDirectory.claim."""

    __slots__ = ("address", "answer", "name")

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    def tell(self, answer: str | None) -> None:
        if not self.answer.done():  # who asked may have gone
            self.answer.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class SubscriptionDirectory:
    """Names are those of the broker's durable queues (`client-id.name`)."""

    __slots__ = ("_claims", "_keys", "_metadata", "_tasks", "_watched", "_writing")

    def __init__(self, metadata: Metadata, keys: Keys) -> None:
        self._metadata = metadata
        self._keys = keys
        self._watched = Watched(metadata, keys.subscriptions, lambda changes: None)
        self._claims: list[NameClaim] = []
        """Not written yet, in the order in which they were made."""
        self._writing = False
        self._tasks = Tasks()

    async def start(self) -> None:
        """Reads all names. Raises MetadataRefused; waits while the store gives no answer."""
        await self._watched.start()

    async def stop(self) -> None:
        await self._tasks.close()
        await self._watched.stop()

    def address_of(self, name: str) -> str | None:
        """As far as this process knows."""
        item = self._watched.items.get(self._keys.subscription(name))
        return item.value.decode() if item is not None else None

    async def find(self, name: str) -> str | None:
        """The address that has the name: what this process knows, else what the store says; it may be new.

        Raises MetadataUnavailable, MetadataRefused."""
        known = self.address_of(name)
        if known is not None:
            return known
        item = await self._metadata.get(self._keys.subscription(name))
        return None if item is None else item.value.decode()

    async def claim(self, name: str, address: str) -> str | None:
        """None: the name belongs to `address` (now, or already did). Else the address that has it.

        Raises MetadataUnavailable, MetadataRefused; claiming again is safe."""
        known = self.address_of(name)
        if known is not None:
            return None if known == address else known
        claim = NameClaim(name, address)
        self._claims.append(claim)
        if not self._writing:
            self._writing = True
            self._tasks.spawn(self._write_claims(), "claims of subscription names")
        return await claim.answer

    async def release(self, name: str, address: str) -> None:
        """The subscription to `address` was deleted. No effect when the name is free, belongs to another address, or
        was given to another address meanwhile.

        Raises MetadataUnavailable, MetadataRefused."""
        key = self._keys.subscription(name)
        item = await self._metadata.get(key)
        if item is not None and item.value == address.encode():
            revision = await self._metadata.commit([(key, item.revision)], [Delete(key)])
            if revision:
                self._watched.adopt(Change(key, None, revision))

    # ── names that are new ─────────────────────────────────────────────────────────────────────────

    async def _write_claims(self) -> None:
        claims: list[NameClaim] = []
        try:
            while self._claims:
                claims, self._claims = self._claims[:BATCH], self._claims[BATCH:]
                try:
                    await self._write(claims)
                except MetadataUnavailable as error:  # nobody waits behind others for a store that gives no answer
                    claims, self._claims = [*claims, *self._claims], []
                    for claim in claims:
                        claim.fail(error)
        except Exception as error:  # nobody expected that, and a session waits for each of them
            claims, self._claims = [*claims, *self._claims], []
            for claim in claims:
                claim.fail(error)
            raise
        finally:
            self._writing = False
            for claim in (*claims, *self._claims):  # those without an answer: this edge stops
                claim.answer.cancel()

    async def _write(self, claims: list[NameClaim]) -> None:
        """All in one transaction; when one of the names is in use, each on its own. Raises MetadataUnavailable."""
        first = {claim.name: claim for claim in reversed(claims)}
        try:
            if len(first) > 1:
                await self._put(list(first.values()))
        except MetadataRefused:
            pass  # each is told its own reason
        for claim in claims:
            if not claim.answer.done():
                try:
                    claim.tell(await self._claim_alone(claim))
                except MetadataRefused as error:
                    claim.fail(error)

    async def _put(self, claims: list[NameClaim]) -> None:
        """Answers all of them, or (one of the names is in use by now) none: nothing was written then."""
        pairs = [(self._keys.subscription(claim.name), claim.address.encode()) for claim in claims]
        revision = await self._metadata.commit([(key, 0) for key, _ in pairs], [Put(*pair) for pair in pairs])
        if revision:
            for (key, value), claim in zip(pairs, claims, strict=True):
                self._watched.adopt(Change(key, value, revision))
                claim.tell(None)

    async def _claim_alone(self, claim: NameClaim) -> str | None:
        key = self._keys.subscription(claim.name)
        while True:
            known = self.address_of(claim.name)
            if known is not None:
                return None if known == claim.address else known
            revision = await self._metadata.commit([(key, 0)], [Put(key, claim.address.encode())])
            if revision:
                self._watched.adopt(Change(key, claim.address.encode(), revision))
                return None
            item = await self._metadata.get(key)
            if item is not None:
                self._watched.adopt(Change(key, item.value, item.revision))
