"""What RabbitMQ's types of queues have not, as its own modules say (`capabilities()` of 3.10.8, asked of a node)."""

from __future__ import annotations

import pytest

from broker.config.foreign.queue_types import lacks

STREAMS = {"max-age", "stream-max-segment-size-bytes", "initial-cluster-size"}
MIRRORS = {"ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure"}
SAID = {
    "classic": {*STREAMS, "queue-leader-locator", "delivery-limit", "dead-letter-strategy"},
    "quorum": {*STREAMS, *MIRRORS, "max-priority", "queue-mode", "queue-master-locator"},
    "stream": {
        *MIRRORS, "expires", "message-ttl", "dead-letter-exchange", "dead-letter-routing-key", "max-length",
        "max-in-memory-length", "max-in-memory-bytes", "max-priority", "overflow", "queue-mode",
        "single-active-consumer", "delivery-limit", "queue-master-locator",
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", SAID)
def test_what_3_10_says(kind: str):
    """Newer ones say more of streams; of a quorum queue's single-active-consumer 3.10 says so, and has the argument."""
    found = lacks(kind, "3.10.8")
    assert SAID[kind] <= found and found - SAID[kind] <= {"dead-letter-strategy", "target-group-size"}


def test_classic_queues_of_4_have_a_leader_locator_and_no_bounds_in_memory():
    assert "queue-leader-locator" not in lacks("classic", "4.0.2") and "max-in-memory-length" in lacks("classic", "")
    assert "max-in-memory-length" not in lacks("classic", "3.13.7") and lacks("new-kind", "5.0") == frozenset()
