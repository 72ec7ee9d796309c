"""Owners that are declared dead again and again, though they live: afterwards every slot is served."""

from __future__ import annotations

import time

import pytest

from tests.harness import Client
from tests.harness.cluster import Cluster

from .slots import SLOTS, slot_of

pytestmark = pytest.mark.alone  # all 256 slots change hands a dozen times


def addresses() -> list[str]:
    """One in each slot."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < SLOTS:
        found.setdefault(slot_of(f"flap.{number}"), f"flap.{number}")
        number += 1
    return list(found.values())


def test_every_slot_is_served_when_leases_were_lost_over_and_over(shared):
    queues = addresses()
    with Client(shared.edges[0].port, timeout=60) as client:
        client.connect()
        for round in range(4):
            for owner in shared.owners:
                Cluster.wait(lambda owner=owner: _revoked(shared, owner.id), 60, lambda: "it does not register")
                time.sleep(0.1 * round)
            for queue in queues:
                headers = {"destination": f"/queue/{queue}", "persistent": "true", "receipt": f"{round}.{queue}"}
                client.send("SEND", headers, b"x")
            for queue in queues:
                client.expect("RECEIPT", {"receipt-id": f"{round}.{queue}"}, timeout=60)
    shared.wait_balanced()


def _revoked(cluster: Cluster, owner: str) -> bool:
    try:
        cluster.revoke(owner)
    except (AssertionError, ValueError):
        return False  # not registered just now
    return True
