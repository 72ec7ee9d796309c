"""Changes of the live configuration, by a member of the cluster that is asked for them.

    edit(keys.queue("orders"), lambda before: {**(before or {}), "selector": "n > 1"})
    behind()  →  ["owner-2"]: it has not said yet that it uses this

Rule: an entry of a Kubernetes resource is refused, as its operator would write over what is changed. Compare-and-swap,
also against such a claim; then this process uses it itself before edit() returns. Who else does not yet is asked for
and told, never assumed. Must not know what the values mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from broker.core.errors import BrokerError
from broker.metadata.port import Delete, Metadata, MetadataRefused, MetadataUnavailable, Put

from .applied import EVERY_S, Applied
from .config import ConfigWatch
from .keys import Keys, last_part
from .membership import Membership
from .operate import ATTEMPTS, NotPossible, table_of

ANSWER_S = 5.0
"""Then the store counts as away, and who has not taken a change into use as behind. A member looks at once and tells of
it four times a second."""
LOOK_S = EVERY_S / 2

Table = dict[str, Any]


class NotKnown(BrokerError):
    """The store gave no answer: the change may have been made, and may yet come into use."""


class ConfigWriter:
    """See the head of this file."""

    def __init__(self, metadata: Metadata, keys: Keys, config: ConfigWatch, membership: Membership) -> None:
        self.keys = keys
        self._metadata = metadata
        self._config = config
        self._membership = membership
        self._revision = 0
        """Of our last change."""

    async def edit(
        self, key: str, change: Callable[[Table | None], Table | None], part: str = "",
        check: Callable[[dict[str, Table]], None] | None = None,
    ) -> None:  # fmt: skip
        """Makes the entry at `key` what `change` says of what it is now (None: there is none). `check` is told all
        entries of that part of the configuration by name, as etcd has them: two who each take away the last but one
        cannot both go through. Both may be asked several times; what they raise has changed nothing. Raises
        NotPossible, NotKnown, MetadataRefused."""
        try:
            async with asyncio.timeout(ANSWER_S):
                revision = await self._swap(key, change, part, check)
        except (MetadataUnavailable, TimeoutError) as error:
            raise NotKnown(
                f"etcd gave no answer ({str(error) or f'{ANSWER_S:g} s'}): the change may have been made. Look, and "
                "try again when it answers."
            ) from None
        self._revision = max(self._revision, revision)
        await self._here()

    async def _swap(
        self, key: str, change: Callable[[Table | None], Table | None], part: str,
        check: Callable[[dict[str, Table]], None] | None,
    ) -> int:  # fmt: skip
        mark, turn = self.keys.marker(key), self.keys.turn(part)
        for _ in range(ATTEMPTS):
            last = await self._metadata.get(turn) if check is not None else None
            if check is not None:
                items, _ = await self._metadata.range(f"{self.keys.config}{part}/")
                check({last_part(item.key): table_of(item) for item in items})
            claim = await self._metadata.get(mark)
            if claim is not None:
                raise NotPossible(_whose(key, table_of(claim)))
            item = await self._metadata.get(key)
            after = change(table_of(item) if item is not None else None)
            if after is None and item is None:
                return 0
            action = Delete(key) if after is None else Put(key, msgspec.json.encode(after))
            compare = [(key, item.revision if item is not None else 0), (mark, 0)]
            actions: list[Put | Delete] = [action]
            if check is not None:
                compare.append((turn, last.revision if last is not None else 0))
                actions.append(Put(turn, b""))
            if revision := await self._metadata.commit(compare, actions):
                return revision
        raise NotPossible(f"{last_part(key)} changes all the time; try again.")

    async def _here(self) -> None:
        """Until this process uses it. The watch brings it, also when it takes longer."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await self._config.reached(self._revision)
        except TimeoutError:
            raise NotKnown("The change was made, and is not in use here yet: etcd is slow to tell of it.") from None

    async def behind(self) -> list[str]:
        """Members that do not say after a moment that they use our last change."""
        missing: list[str] = []
        try:
            async with asyncio.timeout(ANSWER_S):
                while True:
                    missing = await self._missing()
                    if not missing:
                        return []
                    await asyncio.sleep(LOOK_S)
        except (MetadataUnavailable, MetadataRefused, TimeoutError):
            return missing or sorted(self._members() - {self._membership.me.id})

    def _members(self) -> set[str]:
        both = (*self._membership.owners.values(), *self._membership.edges.values())
        return {member.id for member in both if not member.leaving}

    async def _missing(self) -> list[str]:
        items, _ = await self._metadata.range(self.keys.applied)
        said = {last_part(item.key): msgspec.json.decode(item.value, type=Applied).revision for item in items}
        return sorted(name for name in self._members() if said.get(name, 0) < self._revision)


def _whose(key: str, claim: Table) -> str:
    what = f"{claim.get('kind', 'a resource')} {claim.get('namespace', '')}/{claim.get('name', '')}"
    return f"{last_part(key)} belongs to {what} of Kubernetes: change it there, it would be written over here."
