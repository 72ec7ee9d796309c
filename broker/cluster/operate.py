"""What an operator may look at and change, straight in the metadata store: no component needs to be asked.

Rule: every change is a compare-and-swap or concerns a key of its own, so it can be made while the controller works.
What would lose data needs to be said in so many words. Must not know terminals: values in, values out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from broker.config.changes import shrunk
from broker.config.settings import EngineSettings
from broker.core.errors import BrokerError
from broker.core.ids import SLOTS
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import Delete, KeyValue, Metadata, Put

from .applied import Applied
from .config import all_bad
from .controller_election import holder_of
from .keys import Keys, last_part, slot_of_key
from .planning.view import Policy, Rebalance, View

ATTEMPTS = 20
"""Compare-and-swaps that other writers may win before we give up."""


class NotPossible(BrokerError):
    """The cluster is not in a state in which this can be done; the text says why and what would help."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster at one moment. controller: id of the owner that plans, "" = nobody. bad: key of the live
    configuration → why it cannot be read, and what mends it."""

    view: View
    edges: Mapping[str, Member]
    controller: str
    applied: Mapping[str, int]
    bad: Mapping[str, str]


async def look(metadata: Metadata, keys: Keys, default: Policy, engine: EngineSettings) -> Picture:
    """default: the policy to show plans by while there is no controller. engine: what words and delimiters mean.
    Raises MetadataUnavailable, Refused."""
    owners = {last_part(item.key): Member.decode(item.value) for item in (await metadata.range(keys.owners))[0]}
    edges = {last_part(item.key): Member.decode(item.value) for item in (await metadata.range(keys.edges))[0]}
    records = {}
    for item in (await metadata.range(keys.slots))[0]:
        record = _record(item)
        records[record.slot] = record
    cordoned = frozenset(last_part(item.key) for item in (await metadata.range(keys.cordons))[0])
    applied = {
        last_part(item.key): msgspec.json.decode(item.value, type=Applied).revision
        for item in (await metadata.range(keys.applied))[0]
    }
    holder = holder_of(await metadata.get(keys.controller))
    wanted = await metadata.get(keys.rebalance)
    rebalance = Rebalance.decode(wanted.value if wanted is not None else None)
    view = View(owners, records, holder.policy if holder else default, cordoned, edges=edges, rebalance=rebalance)
    bad = all_bad(keys, (await metadata.range(keys.config))[0], engine)
    return Picture(view, edges, holder.id if holder else "", applied, bad)


async def set_cordon(metadata: Metadata, keys: Keys, owner: str, on: bool) -> bool:
    """Leaders and replicas leave a cordoned owner, for good. Returns False if it already was so. Raises Refusal for a
    name that nobody has: it would pass for an owner that is empty, and the one that was meant would be stopped full."""
    if not on:
        return await metadata.delete(keys.cordon(owner))
    if await metadata.get(keys.member("owner", owner)) is None:
        records = [_record(item) for item in (await metadata.range(keys.slots))[0]]
        if not any(owner in record.replicas for record in records):
            raise NotPossible(f"There is no owner {owner!r}, dead or alive; `stampede cluster status` lists them.")
    return bool(await metadata.commit([(keys.cordon(owner), 0)], [Put(keys.cordon(owner), b"")]))


async def ask_to_lead(metadata: Metadata, keys: Keys, slot: int, owner: str) -> str:
    """One step towards `owner` leading `slot`: "done", "handing over", or "seeding" (it becomes a replica first).
    To be repeated until it is "done". Raises Refusal."""
    for _ in range(ATTEMPTS):
        record = await _read(metadata, keys, slot)
        if record.leader == owner:
            return "done"
        if record.shelved:
            raise NotPossible(f"Slot {slot} is shelved; `stampede cluster unshelve {slot}` has it tried again.")
        if await metadata.get(keys.member("owner", owner)) is None:
            raise NotPossible(f"There is no live owner {owner!r}; `stampede cluster status` lists them.")
        if await metadata.get(keys.cordon(owner)) is not None:
            raise NotPossible(f"{owner} is being drained; `stampede cluster undrain {owner}` ends that.")
        if record.target == owner:
            return "handing over"
        if owner in record.isr:
            new, state = replace(record, target=owner), "handing over"
        elif owner in record.replicas:
            return "seeding"
        else:
            new, state = replace(record, replicas=(*record.replicas, owner)), "seeding"
        if await _swap(metadata, keys, record, new):
            return state
    raise NotPossible(f"Slot {slot} changes all the time; try again when the cluster is calm.")


async def force(metadata: Metadata, keys: Keys, slot: int, owner: str) -> SlotRecord:
    """Makes `owner` lead with whatever it has: messages that only others had are lost. Raises Refusal when a member of
    the isr lives, because then nothing needs to be lost."""
    for _ in range(ATTEMPTS):
        record = await _read(metadata, keys, slot)
        if await metadata.get(keys.member("owner", owner)) is None:
            raise NotPossible(f"There is no live owner {owner!r}; `stampede cluster status` lists them.")
        for one in record.isr:
            if await metadata.get(keys.member("owner", one)) is not None:
                raise NotPossible(
                    f"Slot {slot} has a live in-sync replica on {one}, nothing needs to be lost; "
                    f"`stampede cluster move {slot} {owner}` makes another owner its leader."
                )
        new = SlotRecord(slot, record.epoch + 1, owner, (owner,), (owner,))
        if await _swap(metadata, keys, record, new):
            return new
    raise NotPossible(f"Slot {slot} changes all the time; try again when the cluster is calm.")


async def unshelve(metadata: Metadata, keys: Keys, slot: int) -> SlotRecord:
    """Has a slot tried again that was taken out of service. Raises Refusal when it was not."""
    for _ in range(ATTEMPTS):
        record = await _read(metadata, keys, slot)
        if not record.shelved:
            raise NotPossible(f"Slot {slot} is not shelved; `stampede cluster status` lists those that are.")
        new = replace(record, shelved="")
        actions = (Put(keys.slot(slot), new.encode()), Delete(keys.throw(slot)))
        if await metadata.commit([(keys.slot(slot), record.revision)], actions):
            return new
    raise NotPossible(f"Slot {slot} changes all the time; try again when the cluster is calm.")


def only_grow(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Settings of addresses may not take partitions away. Raises Refusal. `before` may be another tool's work."""
    if why := shrunk(name, before, after):
        raise NotPossible(why)


def table_of(item: KeyValue | None) -> dict[str, Any]:
    """The JSON object there; {} where there is none that could be read: the next write mends it."""
    try:
        return msgspec.json.decode(item.value, type=dict[str, Any]) if item is not None else {}
    except msgspec.DecodeError:
        return {}


async def edit_table(metadata: Metadata, key: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Lays `changes` over the JSON object at `key` (a value None takes an entry out; an empty object goes).
    Returns the object as it is now. The values must have been checked."""
    for _ in range(ATTEMPTS):
        item = await metadata.get(key)
        table = table_of(item)
        table = {name: value for name, value in {**table, **changes}.items() if value is not None}
        action = Put(key, msgspec.json.encode(table)) if table else Delete(key)
        if await metadata.commit([(key, item.revision if item else 0)], [action]):
            return table
    raise NotPossible(f"{key} changes all the time; try again.")


async def _read(metadata: Metadata, keys: Keys, slot: int) -> SlotRecord:
    if not 0 <= slot < SLOTS:
        raise NotPossible(f"There is no slot {slot}; slots are 0 to {SLOTS - 1}.")
    item = await metadata.get(keys.slot(slot))
    if item is None:
        raise NotPossible(f"Slot {slot} has no record yet: no owner has ever been started in this cluster.")
    return _record(item)


def _record(item: KeyValue) -> SlotRecord:
    try:
        return SlotRecord.decode(slot_of_key(item.key), item.value, item.revision)
    except ValueError as error:
        raise NotPossible(f"{item.key}: {error}") from None


async def _swap(metadata: Metadata, keys: Keys, record: SlotRecord, new: SlotRecord) -> bool:
    key = keys.slot(record.slot)
    return bool(await metadata.commit([(key, record.revision)], [Put(key, new.encode())]))
