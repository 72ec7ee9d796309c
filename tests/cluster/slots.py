"""Where addresses live: the slot of an address, its leader, and addresses that a certain owner leads now."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator

from tests.harness.cluster import Cluster, Process

SLOTS = 256


def slot_of(address: str) -> int:
    return zlib.crc32(address.encode()) % SLOTS


def leader_of(cluster: Cluster, address: str) -> Process:
    name = cluster.records()[slot_of(address)]["leader"]
    return next(owner for owner in cluster.owners if owner.id == name)


def led_by(cluster: Cluster, owner: Process, prefix: str) -> Iterator[str]:
    """Addresses `prefix`.0, .1 … that this owner leads now, each in a slot of its own."""
    records, seen = cluster.records(), set()
    for number in itertools.count():
        address = f"{prefix}.{number}"
        slot = slot_of(address)
        if records[slot]["leader"] == owner.id and slot not in seen:
            seen.add(slot)
            yield address
