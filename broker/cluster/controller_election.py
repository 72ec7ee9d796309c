"""Which owner plans: it holds the key `controller` on the lease of its own registration.

Rule: an owner without it writes no plan; every planned write compares the key's revision, so that an owner that has
lost it without knowing changes nothing. Must not know what is planned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from broker.metadata.port import Change, KeyValue, Metadata, Put

from .keys import Keys
from .membership import Membership
from .planning.view import Policy
from .watched import Watched

log = logging.getLogger("stampede.cluster")


class ElectedController(msgspec.Struct, frozen=True):
    """The value of the key: who plans, and by which policy (so that `stampede cluster` shows the same plan)."""

    id: str
    boot: str
    replicas: int
    min_in_sync: int
    max_moves: int

    @property
    def policy(self) -> Policy:
        return Policy(self.replicas, self.min_in_sync, self.max_moves)


def holder_of(item: KeyValue | None) -> ElectedController | None:
    """None: nobody, or not readable."""
    try:
        return msgspec.json.decode(item.value, type=ElectedController) if item is not None else None
    except msgspec.DecodeError as error:
        log.error("%s: %s", item.key if item else "", error)
        return None


class ControllerElection:
    """changed(): called when the key has another value or has gone."""

    __slots__ = ("_key", "_membership", "_metadata", "_policy", "_watched")

    def __init__(
        self, metadata: Metadata, keys: Keys, membership: Membership, policy: Policy, changed: Callable[[], None]
    ) -> None:
        self._metadata = metadata
        self._key = keys.controller
        self._membership = membership
        self._policy = policy
        self._watched = Watched(metadata, self._key, lambda _: changed())

    async def start(self) -> None:
        await self._watched.start()

    async def stop(self) -> None:
        await self._watched.stop()

    @property
    def held(self) -> bool:
        """By this process, on its present lease, as far as it knows."""
        item = self._watched.items.get(self._key)
        return item is not None and item.lease == self._membership.lease != 0 and self._mine(item)

    @property
    def guard(self) -> tuple[str, int]:
        """What every planned write compares. Only while `held`."""
        return self._key, self._watched.items[self._key].revision

    async def acquire(self) -> bool:
        """Takes it when it is free. True: it is ours now. Raises MetadataUnavailable."""
        item, lease = self._watched.items.get(self._key), self._membership.lease
        if not lease or (item is not None and not self._mine(item)):
            return False
        me = self._membership.me
        value = msgspec.json.encode(ElectedController(me.id, me.boot, *self._policy))
        revision = await self._metadata.commit(
            [(self._key, item.revision if item else 0)], [Put(self._key, value, lease)]
        )
        if not revision:
            await self._watched.refresh()
            return False
        self._watched.adopt(Change(self._key, value, revision, lease))
        log.info("%s is the controller", me.id)
        return True

    def _mine(self, item: KeyValue) -> bool:
        holder, me = holder_of(item), self._membership.me
        return holder is not None and (holder.id, holder.boot) == (me.id, me.boot)
