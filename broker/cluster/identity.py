"""Who a process is: names that can be told apart, and owners that come back with another disk.

Rule: an owner whose journal is not the one its name is known by has none of the records the slot table says it has.
Before anybody can count on it again, it strikes itself out of every record (docs/adr/0004).
Must not know how slots are placed: that is the controller's, afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from dataclasses import replace

from broker.core.errors import ConfigError
from broker.core.slots import Member, SlotRecord
from broker.metadata.port import Metadata, MetadataUnavailable, Put

from .keys import Keys, slot_of_key
from .watched import RETRY_S

log = logging.getLogger("stampede.cluster")

GHOST = "@"
"""`owner-0@<disk>` in a record: the only complete copy was on a disk that is gone. Never a live owner's name, so the
slot stays without a leader until the disk is back or `stampede cluster force` gives up what was on it."""

BATCH = 100
"""Records in one transaction; etcd takes 128 operations by default."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def check_name(name: str) -> None:
    """Raises ConfigError for a name that could be mistaken in a record, a key or a log."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"cluster.id is {name!r}; it must be 1 to 128 letters, digits, dots, dashes and underscores, "
            "and begin with a letter or digit."
        )


def ghost(owner: str, disk: str) -> str:
    """What stands in a record for the copy on a disk that is gone."""
    return f"{owner}{GHOST}{disk or 'unknown'}"


def is_ghost(name: str) -> bool:
    return GHOST in name


def without(record: SlotRecord, owner: str, disk: str) -> SlotRecord | None:
    """`record` after `owner` came back without the disk `disk`; None: it is not concerned.

    It leaves the replicas as well as the isr: a leader that has not noticed yet might put a mere replica back into
    the isr on the word of the old process. The isr is never emptied: the last copy stays in it as a ghost.
    """
    if owner not in record.replicas and owner not in record.isr and owner != record.leader:
        return None
    isr = tuple(one for one in record.isr if one != owner)
    replicas = tuple(one for one in record.replicas if one != owner)
    if not isr and owner in record.isr:
        isr = (ghost(owner, disk),)
        replicas += isr
    led = record.leader == owner
    # A leader that knows nothing must not lead, not even for the moment until the controller sees it.
    return replace(
        record,
        epoch=record.epoch + led,
        leader="" if led else record.leader,
        replicas=replicas,
        isr=isr,
        target="" if record.target == owner else record.target,
    )


def revived(record: SlotRecord, owner: str, disk: str) -> SlotRecord | None:
    """`record` after the disk of a ghost came back; None: it is not concerned."""
    name = ghost(owner, disk)
    if name not in record.isr:
        return None
    replicas = tuple(owner if one == name else one for one in record.replicas if one != owner)
    return replace(record, replicas=replicas, isr=tuple(owner if one == name else one for one in record.isr))


async def is_known_disk(metadata: Metadata, keys: Keys, me: Member) -> bool:
    """Does the slot table speak of the disk this owner has. Waits while the store gives no answer."""
    while True:
        try:
            return await _known_disk(metadata, keys, me) == me.disk
        except MetadataUnavailable as error:
            log.warning("waiting for the metadata store: %s", error)
            await asyncio.sleep(RETRY_S)


async def _known_disk(metadata: Metadata, keys: Keys, me: Member) -> str:
    known = await metadata.get(keys.disk(me.id))
    return known.value.decode(errors="replace") if known else ""


async def settle_disk(metadata: Metadata, keys: Keys, me: Member) -> int:
    """To be called before an owner registers. Makes the slot table true for its disk; returns how many records
    changed. Waits while the store gives no answer; may be repeated after a crash at any point.

    The order matters: the records first, `disks/<id>` last, so that a crash between the two repeats the work."""
    while True:
        try:
            return await _settle(metadata, keys, me)
        except MetadataUnavailable as error:
            log.warning("waiting for the metadata store: %s", error)
            await asyncio.sleep(RETRY_S)


async def _settle(metadata: Metadata, keys: Keys, me: Member) -> int:
    before = await _known_disk(metadata, keys, me)
    struck = 0
    if before != me.disk:
        struck = await _change_all(metadata, keys, lambda record: without(record, me.id, before))
        await metadata.put(keys.disk(me.id), me.disk.encode())
        if struck:
            log.warning("%s has another disk than before: struck out of %d slots, to be seeded anew", me.id, struck)
    back = await _change_all(metadata, keys, lambda record: revived(record, me.id, me.disk))
    if back:
        log.warning("%s is back with the disk that has the last copy of %d slots", me.id, back)
    return struck + back


async def _change_all(metadata: Metadata, keys: Keys, change: Callable[[SlotRecord], SlotRecord | None]) -> int:
    """Repeats until `change` finds nothing more to change, whatever else is written meanwhile. How many it were."""
    changed = 0
    while True:
        pairs = [(record, change(record)) for record in await _records(metadata, keys)]
        todo = [(record, new) for record, new in pairs if new is not None]
        if not todo:
            return changed
        for start in range(0, len(todo), BATCH):
            some = todo[start : start + BATCH]
            done = await metadata.commit(
                [(keys.slot(old.slot), old.revision) for old, _ in some],
                [Put(keys.slot(new.slot), new.encode()) for _, new in some],
            )
            changed += len(some) if done else 0


async def _records(metadata: Metadata, keys: Keys) -> list[SlotRecord]:
    items, _ = await metadata.range(keys.slots)
    records = []
    for item in items:
        try:
            records.append(SlotRecord.decode(slot_of_key(item.key), item.value, item.revision))
        except ValueError as error:
            log.error("%s: %s", item.key, error)
    return records
