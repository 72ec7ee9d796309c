"""Which address a durable subscription belongs to, cluster-wide: its name may be used for one address only.

Rule: asked when a client subscribes, never per message. A name that is known is answered from the local copy; only a
new one is written. Must not know queues: the owner of the address keeps the messages.
"""

from __future__ import annotations

from broker.metadata.port import Change, Delete, Metadata, Put

from .keys import Keys
from .watched import Watched


class SubscriptionDirectory:
    """Names are those of the broker's durable queues (`client-id.name`)."""

    __slots__ = ("_keys", "_metadata", "_watched")

    def __init__(self, metadata: Metadata, keys: Keys) -> None:
        self._metadata = metadata
        self._keys = keys
        self._watched = Watched(metadata, keys.subscriptions, lambda changes: None)

    async def start(self) -> None:
        """Reads all names. Raises MetadataRefused; waits while the store gives no answer."""
        await self._watched.start()

    async def stop(self) -> None:
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
        key = self._keys.subscription(name)
        while True:
            known = self.address_of(name)
            if known is not None:
                return None if known == address else known
            revision = await self._metadata.commit([(key, 0)], [Put(key, address.encode())])
            if revision:
                self._watched.adopt(Change(key, address.encode(), revision))
                return None
            item = await self._metadata.get(key)
            if item is not None:
                self._watched.adopt(Change(key, item.value, item.revision))

    async def release(self, name: str, address: str) -> None:
        """The subscription to `address` was deleted. No effect when the name is free, belongs to another address, or
        was given to somebody else meanwhile.

        Raises MetadataUnavailable, MetadataRefused."""
        key = self._keys.subscription(name)
        item = await self._metadata.get(key)
        if item is not None and item.value == address.encode():
            revision = await self._metadata.commit([(key, item.revision)], [Delete(key)])
            if revision:
                self._watched.adopt(Change(key, None, revision))
