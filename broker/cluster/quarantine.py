"""A slot whose leaders stop one after the other is taken out of service, before it has taken all owners with it.

An exception in an engine stops its owner: what the engine knows is worth nothing any more, and a restart reads the log
anew. Where a message or a subscription sets it off, the slot's next leader throws as well. So an owner that stops
leaves a note about the slot, which the store forgets after a minute; an owner that stops and finds one leaves the slot
without a leader (shelved): no owner tries again before an operator says so, and all other slots go on.

Rule: no clock counts but the store's; an owner that stops never waits long for it. Must not know engines.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from typing import Final

import msgspec

from broker.core.slots import SlotRecord
from broker.metadata.port import Metadata, MetadataRefused, MetadataUnavailable

from .keys import Keys
from .slots import SlotTable

log = logging.getLogger("stampede.cluster")

WITHIN_S: Final = 60.0
"""A note lasts so long: two bugs that have nothing to do with each other are hardly that close."""
NOTE_S: Final = 0.5
"""Who stops waits for the store no longer: the owners that follow it wait meanwhile."""
RETRY_S: Final = 0.05


class Throw(msgspec.Struct, frozen=True):
    """A leader or a follower of the slot stopped because of it. boot: of its process."""

    owner: str
    boot: str
    what: str


def shelved(record: SlotRecord, before: Throw, now: Throw) -> SlotRecord:
    """The slot, out of service."""
    who = ", ".join(dict.fromkeys((before.owner, now.owner)))
    why = f"{who} stopped because of it within a minute ({now.what}); their logs say more"
    return replace(record, epoch=record.epoch + 1, leader="", target="", shelved=why)


async def note(metadata: Metadata, keys: Keys, table: SlotTable, slot: int, throw: Throw, led: bool = False) -> None:
    """Leaves a note, or shelves the slot; within NOTE_S or not at all. For who stops, and leads nothing any more. led:
    it has led the slot until now, by what it knows: an owner that was made its leader meanwhile is the third."""
    with suppress(TimeoutError, MetadataRefused, msgspec.DecodeError):
        async with asyncio.timeout(NOTE_S):
            await _note(metadata, keys, table, slot, throw, led)
            return
    log.error("slot %d: that it has stopped this owner could not be noted", slot)


async def _note(metadata: Metadata, keys: Keys, table: SlotTable, slot: int, throw: Throw, led: bool) -> None:
    while True:
        try:
            found = await metadata.get(keys.throw(slot))
            before = msgspec.json.decode(found.value, type=Throw) if found is not None else throw
            if before.boot != throw.boot:
                await _shelve(table, slot, before, throw, led)
            elif found is None:
                lease = await metadata.grant(WITHIN_S)
                await metadata.put(keys.throw(slot), msgspec.json.encode(throw), lease.id)
            return
        except MetadataUnavailable:
            # It may have been written all the same: then it is ours that is found.
            await asyncio.sleep(RETRY_S)


async def _shelve(table: SlotTable, slot: int, before: Throw, now: Throw, led: bool) -> None:
    record = await table.reread(slot)
    while record is not None and not record.shelved and (led or record.leader == now.owner):
        new = await table.cas(record, shelved(record, before, now))
        if new is not None:
            log.critical("slot %d is shelved: %s", slot, new.shelved)
            return
        record = table.records.get(slot)
