"""What etcd knows of a cluster, as a file, and from there into the etcd of a new one.

Rule: what hangs on living processes stays out, and nothing that is there already is written over. Owners have other
names in the new cluster; what their disks are called stays, which is how they find their slots.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from broker.cluster.keys import Keys, escape, last_part
from broker.core.errors import JournalError
from broker.core.slots import Member, SlotRecord
from broker.core.strict_numbers import natural
from broker.metadata.port import Metadata, Put

_FORMAT: Final = 1
_BATCH: Final = 100
"""Keys of one transaction; etcd takes 128."""


def _lasting(keys: Keys) -> tuple[str, ...]:
    """What a cluster is made of when nobody runs. Who manages an entry is not among it: the resources of a new cluster
    adopt theirs."""
    return keys.slots, keys.disks, keys.config, keys.subscriptions, keys.turns


async def snapshot(metadata: Metadata, keys: Keys, taken_ms: int) -> bytes:
    """All of it as of one moment. Raises JournalError when there is no cluster."""
    items, revision = await metadata.range(keys.root)
    lasting = _lasting(keys)
    found = {item.key.removeprefix(keys.root): _text(item.value) for item in items if item.key.startswith(lasting)}
    owners = {last_part(item.key) for item in items if item.key.startswith(keys.owners)}
    for item in items:
        if item.key.startswith(keys.slots):
            owners |= set(SlotRecord.decode(int(last_part(item.key)), item.value, 0).replicas)
    if not owners:
        raise JournalError(f"there is no cluster below {keys.root}")
    made = {
        "format": _FORMAT, "prefix": keys.root, "revision": revision, "takenMs": taken_ms, "owners": _ordered(owners),
        "keys": found,
    }  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(made), indent=1)


def _text(value: bytes) -> str:
    try:
        return "=" + value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return text[1:].encode() if text.startswith("=") else b64decode(text)


def _ordered(owners: Iterable[str]) -> list[str]:
    """owner-2 before owner-10. Disks that were missed are no owners."""

    def key(name: str) -> tuple[str, int, str]:
        head, _, tail = name.rpartition("-")
        number = natural(tail)
        return (name, -1, "") if number is None else (head, number, "")

    return sorted((name for name in owners if "@" not in name), key=key)


def renaming(old: list[str], new: list[str]) -> dict[str, str]:
    """Owners by their order. Raises JournalError when there are more or fewer."""
    if len(old) != len(new):
        raise JournalError(
            f"the backup is of {len(old)} owners and this cluster has {len(new)}: begin with {len(old)}, and change "
            "their number when all slots are in sync"
        )
    return dict(zip(old, new, strict=True))


async def restore(metadata: Metadata, keys: Keys, copy: Mapping[str, Any], names: Mapping[str, str], run: str) -> int:
    """Writes what a snapshot has below the prefix. May be repeated with the same backup (`run`) after a crash. How many
    keys there are now. Raises JournalError when there is a cluster already."""
    items, _ = await metadata.range(keys.root)
    there = {item.key for item in items}
    note = next((item.value.decode() for item in items if item.key == keys.restored), "")
    living = [Member.decode(item.value).id for item in items if item.key.startswith((keys.owners, keys.edges))]
    if living:
        raise JournalError(f"{living[0]} is at work below {keys.root}: a backup is restored into a new cluster only")
    if note != run and any(key.startswith(keys.slots) for key in there):
        raise JournalError(f"there is a cluster below {keys.root} already: a backup is restored into a new one only")
    wanted = [Put(keys.restored, run.encode())]
    wanted += [Put(keys.root + _renamed_key(name, names), _renamed(name, _bytes(text), names))
               for name, text in copy["keys"].items()]  # fmt: skip
    missing = [put for put in wanted if put.key not in there]
    for start in range(0, len(missing), _BATCH):
        some = missing[start : start + _BATCH]
        if not await metadata.commit([(put.key, 0) for put in some], some):
            raise JournalError(f"somebody else writes below {keys.root}: a backup is restored into a new cluster only")
    return len(wanted)


def _renamed_key(name: str, names: Mapping[str, str]) -> str:
    if not name.startswith("disks/"):
        return name
    owner = last_part(name)
    return f"disks/{escape(names.get(owner, owner))}"


def _renamed(name: str, value: bytes, names: Mapping[str, str]) -> bytes:
    """A slot's record with the new names. Copies that were being made, or are on disks that were missed, are none."""
    if not name.startswith("slots/"):
        return value
    record = SlotRecord.decode(int(name.removeprefix("slots/")), value, 0)

    def of(owners: Iterable[str]) -> tuple[str, ...]:
        return tuple(_named(one, names) for one in owners)

    return SlotRecord(
        record.slot, record.epoch, _named(record.leader, names), of(record.replicas), of(record.isr),
        _named(record.target, names), 0, record.shelved,
    ).encode()  # fmt: skip


def _named(owner: str, names: Mapping[str, str]) -> str:
    name, at, disk = owner.partition("@")
    return f"{names.get(name, name)}{at}{disk}"
