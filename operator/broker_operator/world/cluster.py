"""One broker's cluster as etcd has it: who lives, who keeps which slots, what is configured and who has applied it.

Rule: a copy that follows watches; what is unknown is said to be unknown, never taken for empty. Writes are
compare-and-swap. Must not know custom resources.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress

from broker.cluster.keys import Keys, last_part, slot_of_key
from broker.cluster.planning.view import Policy, Rebalance, View, health
from broker.cluster.watched import Watched
from broker.config.settings import EtcdSettings
from broker.core.errors import BrokerError
from broker.core.ids import SLOTS
from broker.core.slots import Member, SlotRecord
from broker.metadata.etcd import EtcdMetadata
from broker.metadata.port import Change, Delete, Metadata, Put

from ..spec.model import json_table
from . import audit_lines
from .possession import Holder, Possession

log = logging.getLogger("stampede.operator")

PING_S = 3.0
NOT_ASKED = "not asked yet"


class Cluster:
    """changed(part, names): keys of that part have changed; names: the ends of the keys, below the part's prefix.
    Parts are those of `_watched`, and "reachable" (etcd answers, or does not).

    `why`: "" = etcd answers and everything has been read; else why not."""

    def __init__(
        self, settings: EtcdSettings, changed: Callable[[str, list[str]], None], metadata: Metadata | None = None,
        holder: Holder | None = None,
    ) -> None:  # fmt: skip
        """metadata: instead of etcd (tests). holder: the StompBroker that the prefix is to belong to. Raises
        ConfigError."""
        self.keys = Keys(settings.prefix)
        self.metadata: Metadata = metadata or EtcdMetadata(settings)
        self.possession = Possession(self.metadata, self.keys, holder)
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self.why = NOT_ASKED
        self._told = (True, False)
        keys = self.keys
        prefixes = {
            "owners": keys.owners, "edges": keys.edges, "slots": keys.slots, "cordons": keys.cordons,
            "applied": keys.applied, "config": keys.config, "managed": keys.managed, "loads": keys.loads,
            "rebalance": keys.rebalance,
        }  # fmt: skip
        self._watched = {
            part: Watched(self.metadata, prefix, self._teller(part, prefix)) for part, prefix in prefixes.items()
        }
        self.config = self._watched["config"].items
        self.managed = self._watched["managed"].items
        self._members: dict[str, Member] | None = None
        self._records: dict[int, SlotRecord] | None = None
        self.applied: dict[str, int] = {}
        self.connections: dict[str, int] = {}
        """By the edge's id."""
        self.weights: dict[int, int] = {}
        """Bytes of messages by slot, as leaders said last; {} = nobody has been asked."""
        self.moved = 0
        """Grows with each change of owners, slots and cordons."""
        self.lost: list[str] = []
        """Owners that are gone without having said that they end, for the event that says so."""
        self._staying: set[str] = set()
        self.marks: dict[str, set[str]] = {}
        """uid of a resource → keys of `config` whose marker names it."""
        self._mark_of: dict[str, str] = {}

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"etcd of {self.keys.root}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for watched in self._watched.values():
            await watched.stop()
        await self.metadata.close()

    @property
    def asked(self) -> bool:
        """It has answered, or failed to, since we follow it."""
        return self.why != NOT_ASKED

    @property
    def known(self) -> bool:
        return not self.why

    @property
    def members(self) -> dict[str, Member]:
        """Live owners and edges by id."""
        if self._members is None:
            self._members = {}
            for part in ("owners", "edges"):
                for key, item in self._watched[part].items.items():
                    with suppress(ValueError):
                        self._members[last_part(key)] = Member.decode(item.value)
        return self._members

    @property
    def records(self) -> dict[int, SlotRecord]:
        if self._records is None:
            self._records = {}
            for key, item in self._watched["slots"].items.items():
                with suppress(ValueError):
                    slot = slot_of_key(key)
                    self._records[slot] = SlotRecord.decode(slot, item.value, item.revision)
        return self._records

    @property
    def cordoned(self) -> frozenset[str]:
        return frozenset(map(last_part, self._watched["cordons"].items))

    @property
    def whole(self) -> bool:
        """Every slot has a record: the table is not new and not lost."""
        return self.known and len(self.records) == SLOTS

    def holding(self) -> Counter[str]:
        """Owner's id → copies of slots on it, those being seeded among them."""
        return Counter(owner for record in self.records.values() for owner in {*record.replicas, *record.isr})

    def slots(self, policy: Policy) -> dict[str, int]:
        """Slots in numbers, for the status."""
        found = health(self.view(policy))
        return {
            "total": found.slots,
            "online": found.online,
            "offline": found.offline,
            "stalled": found.stalled,
            "underReplicated": found.under_replicated,
        }

    def view(self, policy: Policy) -> View:
        """What planners look at."""
        owners = {id: member for id, member in self.members.items() if member.kind == "owner"}
        return View(owners, dict(self.records), policy, self.cordoned)

    @property
    def rebalance(self) -> tuple[Rebalance | None, int]:
        """What is wanted of moves for even loads, None: nothing is said; and the revision of that."""
        item = self._watched["rebalance"].items.get(self.keys.rebalance)
        return (Rebalance.decode(item.value), item.revision) if item is not None else (None, 0)

    def behind(self, revision: int) -> list[str]:
        """Live members that have not applied this revision of the configuration."""
        return sorted(id for id in self.members if self.applied.get(id, 0) < revision)

    async def commit(
        self, compare: Sequence[tuple[str, int]], then: Sequence[Put | Delete], who: str = "operator"
    ) -> int:
        """As Metadata.commit, as long as the prefix is ours; what was written is known here at once. who: the resource
        that wants it, for the audit log."""
        revision = await self.metadata.commit([*compare, *self.possession.guard], then)
        if revision:
            audit_lines.note(self.keys, who, then)
            for action in then:
                part = "managed" if action.key.startswith(self.keys.managed) else "config"
                if action.key.startswith((self.keys.managed, self.keys.config)):
                    value = action.value if isinstance(action, Put) else None
                    self._watched[part].adopt(Change(action.key, value, revision))
        return revision

    # ── inside ───────────────────────────────────────────────────────────────────────────────────

    async def _run(self) -> None:
        reading = asyncio.create_task(self._read(), name=f"reading etcd of {self.keys.root}")
        try:
            while True:
                try:
                    await self.metadata.get(self.keys.controller)
                    await asyncio.wait([reading], timeout=PING_S)
                    if reading.done():
                        self._say(await self.possession.claim())
                except BrokerError as error:
                    self._say(str(error))
                await asyncio.sleep(PING_S)
        finally:
            reading.cancel()

    async def _read(self) -> None:
        """Everything once; from then on it is followed. Waits in silence while etcd gives no answer."""
        for watched in self._watched.values():
            while True:
                try:
                    await watched.start()
                    break
                except BrokerError as error:  # etcd says no
                    self._say(str(error))
                    await asyncio.sleep(PING_S)

    def _say(self, why: str) -> None:
        first, state = self.why == NOT_ASKED, (bool(why), bool(self.possession.why))
        turned, self.why, self._told = first or state != self._told, why, state
        if turned:
            log.info("etcd of %s: %s", self.keys.root, why or "known")
            self._changed("reachable", [])

    def _teller(self, part: str, prefix: str) -> Callable[[list[Change]], None]:
        def tell(changes: list[Change]) -> None:
            if part in ("owners", "slots", "cordons"):
                self.moved += 1
            if part in ("owners", "edges"):
                self._members = None
                if part == "owners":
                    self._follow(changes)
            elif part == "slots":
                self._records = None
            elif part == "applied":
                _numbers(changes, "revision", self.applied)
            elif part == "managed":
                self._mark(changes)
            elif part == "loads":
                _numbers(changes, "connections", self.connections)
            self._changed(part, [change.key.removeprefix(prefix) for change in changes])

        return tell

    def _follow(self, changes: list[Change]) -> None:
        """Which owners have said that they go, and which of them are gone without."""
        for change in changes:
            id = last_part(change.key)
            if change.value is None:
                if id in self._staying:
                    self.lost.append(id)
                self._staying.discard(id)
            elif (member := self.members.get(id)) is not None and not member.leaving:
                self._staying.add(id)
            else:
                self._staying.discard(id)

    def take_lost(self) -> list[str]:
        """Takes out the owners that have gone without a word."""
        lost, self.lost = self.lost, []
        return lost

    def _mark(self, changes: list[Change]) -> None:
        for change in changes:
            key = self.keys.config + change.key.removeprefix(self.keys.managed)
            uid = str(json_table(change.value).get("uid", "")) if change.value is not None else None
            before = self._mark_of.pop(key, None)
            if before is not None:
                self.marks[before].discard(key)
                if not self.marks[before]:
                    del self.marks[before]
            if uid is not None:
                self._mark_of[key] = uid
                self.marks.setdefault(uid, set()).add(key)


def _numbers(changes: list[Change], name: str, into: dict[str, int]) -> None:
    """Takes the number `name` of each changed key, by the key's last part."""
    for change in changes:
        id = last_part(change.key)
        if change.value is None:
            into.pop(id, None)
        else:
            with suppress(ValueError, TypeError, KeyError):
                into[id] = int(json.loads(change.value)[name])
