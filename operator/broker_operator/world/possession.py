"""Whose a prefix in etcd is: one StompBroker's, whatever operators, namespaces and Kubernetes clusters share that etcd.

The key `possession` below the prefix names it: {broker: NAMESPACE/NAME, uid, home}. Names repeat in clusters that are
installed alike, so `home`, the uid of its namespace, counts too. Only a StompBroker that was made anew in the same
namespace follows the one before it by itself; for all other brokers an administrator must say that the holder is gone
for good.

Rule: what is written below the prefix compares this key's revision (guard), so that nothing is written by an operator
that has lost it, however late it hears of that.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import NamedTuple

from broker.cluster.keys import Keys
from broker.metadata.port import Delete, KeyValue, Metadata, MetadataRefused, Put

from ..spec.model import Table, json_table

_NAME = "possession"


class Holder(NamedTuple):
    """broker: NAMESPACE/NAME. home: uid of the namespace; "" where names are enough (an etcd in the namespace, which
    may be restored into another cluster) or nobody may read it."""

    broker: str
    uid: str = ""
    home: str = ""

    def follows(self, there: Table) -> bool:
        """We are the one that is named there, or it was made anew as us."""
        home = there.get("home") or ""
        return there.get("broker") == self.broker and not (home and self.home and home != self.home)

    def encode(self, there: Table) -> bytes:
        """there: what is named now. What cannot be read any more stays as it was."""
        value = {"broker": self.broker, "uid": self.uid, "home": self.home or there.get("home") or ""}
        return json.dumps(value, sort_keys=True).encode()


class Possession:
    """`why`: "" = the prefix is ours, or was not asked for yet; else why not. `held`: it has been ours."""

    def __init__(self, metadata: Metadata, keys: Keys, holder: Holder | None) -> None:
        """holder: None = nobody asks (tests)."""
        self._metadata = metadata
        self._keys = keys
        self.holder = holder
        self._revision = 0
        self.why = ""

    @property
    def held(self) -> bool:
        return bool(self._revision)

    @property
    def guard(self) -> list[tuple[str, int]]:
        """To be compared with whatever is written."""
        return [(self._keys.possession, self._revision)] if self.holder is not None else []

    async def claim(self) -> str:
        """Takes a prefix that is nobody's; "" when it is ours, else why nothing may be written there. Raises
        BrokerError."""
        if self.holder is None:
            return ""
        key = self._keys.possession
        for _ in range(2):  # another one may be first
            found = await self._metadata.get(key)
            there = json_table(found.value if found is not None else None)
            if found is not None and not self.holder.follows(there):
                break
            value = self.holder.encode(there)
            if found is not None and json_table(value) == there:
                self._revision, self.why = found.revision, ""
                return ""
            if found is None and (key_of := await self._overlapping()) is not None:
                found, there = key_of, json_table(key_of.value)
                break
            await self._metadata.commit([(key, found.revision if found is not None else 0)], [Put(key, value)])
        self.why = self._explained(found, there)
        return self.why

    async def release(self) -> None:
        """The StompBroker is gone: another one may have the prefix. Raises BrokerError."""
        found = await self._metadata.get(self._keys.possession)
        if found is not None and self.holder is not None and self.holder.follows(json_table(found.value)):
            await self._metadata.commit([(found.key, found.revision)], [Delete(found.key)])

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    async def _overlapping(self) -> KeyValue | None:
        """The broker that has a prefix around this one, or inside it: the keys of one would be entries of the other.
        Asked once, when a prefix is taken."""
        parts = self._keys.root.rstrip("/").split("/")
        for length in range(len(parts) - 1, 0, -1):
            found = None
            with suppress(MetadataRefused):  # our user of etcd may know nothing but our own prefix
                found = await self._metadata.get("/".join(parts[:length]) + f"/{_NAME}")
            if found is not None and json_table(found.value).get("broker"):
                return found
        items, _ = await self._metadata.range(self._keys.root)
        inside = (one for one in items if one.key.endswith(f"/{_NAME}") and one.key != self._keys.possession)
        return next((one for one in inside if json_table(one.value).get("broker")), None)

    def _explained(self, found: KeyValue | None, there: Table) -> str:
        key = found.key if found is not None else self._keys.possession
        holder = str(there.get("broker") or "(unreadable)")
        if self.holder is not None and holder == self.holder.broker:
            holder += " of another cluster, or of a namespace that was deleted"
        overlap = "" if key == self._keys.possession else f", which {self._keys.root} would overlap with,"
        return (
            f"the prefix {key.removesuffix(_NAME)}{overlap} belongs to StompBroker {holder}: give this one a "
            f"spec.etcd.prefix of its own, or delete the key {key} if that one is gone for good"
        )
