"""Messages that say by `_AMQ_DUPL_ID` who they are: each is taken once.

Per address the last `id_cache_size` ids are remembered, also when their messages have been consumed and when the
address itself is gone. Ids of durable messages are in the log, in one atomic group with the message; those of others
live as long as the process, as the messages do: remembered over a crash, they would keep the second try of a lost
message out.

In a transaction one known id means that all of it has happened before: its messages are dropped, all of them, its
acknowledgements count, and the COMMIT succeeds. Each slot of a transaction over several looks for itself.

Rule: an id is kept as a digest of 16 bytes, whatever its length. Must not know queues.
"""

# Example. id_cache_size 3 at orders. Messages with ids a, b, a come in one read, then d and e, then b.
#     a, b    taken and remembered, in one group with the messages: a crash leaves both or neither
#     a       known within the same read (`new`): dropped, told Done
#     d, e    a is the eldest of four: forgotten
#     b       known still: dropped

from __future__ import annotations

from base64 import b64decode
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from broker.core.commands import Publish
from broker.core.effects import Turn
from broker.core.message import DURABLE, UNIQUE, Run
from broker.core.records import MetaRecord
from broker.selector.heads import head_of, key, raw

from ..messages.id_cache import Ids, as_text
from ..messages.runs import pick

if TYPE_CHECKING:
    from .slot import Slot

_KEY: Final = key("_AMQ_DUPL_ID")
_DIGEST: Final = 16
_ADDRESSES: Final = 4096
"""With ids, per slot; beyond it the one that was silent longest is forgotten."""


def fresh(slot: Slot, command: Publish) -> bool:
    """Takes known messages out of `command.run` (a new Run then); False: nothing is left. The rest are remembered
    when they are taken (remember)."""
    if not slot.match(command.address).id_cache_size:
        return True
    run = command.run
    known = _ids_of(slot, command.address)
    new: set[bytes] = set()
    kept: list[int] = []
    for at, digest in enumerate(_digests(run)):
        if digest is None:
            kept.append(at)
        elif digest not in known and digest not in new:
            # In two sets: those of this read are remembered only when a limit has let them in.
            new.add(digest)
            kept.append(at)
    slot.counters.add("duplicates", len(run.records) - len(kept))
    if len(kept) < len(run.records):
        if not kept:
            return False
        command.brings(pick(run, kept))
    return True


def remember(slot: Slot, command: Publish, turn: Turn) -> None:
    """What is left of the run is taken."""
    size = slot.match(command.address).id_cache_size
    new = [digest for digest in _digests(command.run) if digest is not None] if size else []
    if new:
        durable = bool(command.run.flags & DURABLE)
        _ids_of(slot, command.address).add(new, size, durable)
        if durable:
            data = {"address": command.address, "ids": as_text(new)}
            turn.appends.append(MetaRecord(slot.number, "known", data))


def repeated(slot: Slot, command: Publish) -> bool:
    """Has this part of a transaction, and so the transaction, happened before."""
    known = slot.known_ids.get(command.address)
    if known is None or not command.run.flags & UNIQUE or not slot.match(command.address).id_cache_size:
        return False
    return any(digest in known for digest in _digests(command.run) if digest is not None)


def replay(slot: Slot, data: dict[str, Any]) -> None:
    """A "known" MetaRecord."""
    packed = b64decode(data["ids"])
    # The eldest first, as they were written: so the same ones are forgotten on each replica.
    digests = [packed[at : at + _DIGEST] for at in range(0, len(packed), _DIGEST)]
    _ids_of(slot, data["address"]).add(digests, slot.match(data["address"]).id_cache_size)


def snapshot(slot: Slot, address: str) -> list[MetaRecord]:
    """Of one address: 22 bytes per id."""
    ids = slot.known_ids.get(address)
    packed = ids.packed() if ids is not None else ""
    return [MetaRecord(slot.number, "known", {"address": address, "ids": packed})] if packed else []


def _ids_of(slot: Slot, address: str) -> Ids:
    """The addresses stand in the order of their last use."""
    table = slot.known_ids
    # Taken out and put in again: to the end of the order. The bound is per slot, so that addresses with ids of their
    # own (reply topics) cannot fill the memory.
    ids = table.pop(address, None) or Ids()
    table[address] = ids
    while len(table) > _ADDRESSES:
        del table[next(iter(table))]
    return ids


def _digests(run: Run) -> list[bytes | None]:
    found = [raw(head_of(run, at), _KEY) for at in range(len(run.records))]
    return [blake2b(name, digest_size=_DIGEST).digest() if name else None for name in found]  # an empty one is none
