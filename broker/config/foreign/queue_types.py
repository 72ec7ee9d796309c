"""What the types of RabbitMQ's queues have not: keys of policies, and of arguments without their `x-`.

A policy with one of them is not about such a queue at all (rabbit_queue_type:is_policy_applicable), and the next one
counts: `ha-mode` keeps the message-ttl beside it from every quorum queue.

Rule: tables, of `unsupported_policies` as rabbit_classic_queue, rabbit_quorum_queue and rabbit_stream_queue have them.
Carried out here, such a policy would have messages go that stay there.
"""

from __future__ import annotations

from typing import Final

_MIRRORS: Final = (
    "ha-mode", "ha-params", "ha-sync-mode", "ha-promote-on-shutdown", "ha-promote-on-failure", "queue-master-locator",
)  # fmt: skip
"""Of classic queues, until 3.13."""
_STREAMS: Final = ("max-age", "stream-max-segment-size-bytes", "initial-cluster-size")
_QUORUMS: Final = ("delivery-limit", "dead-letter-strategy")
_MEMORY: Final = ("max-in-memory-length", "max-in-memory-bytes")
_LACKS: Final = {
    "classic": (*_STREAMS, *_QUORUMS),
    "quorum": (*_MIRRORS, "max-priority", "queue-mode", *_STREAMS),
    "stream": (
        *_MIRRORS, *_QUORUMS, *_MEMORY, "expires", "message-ttl", "dead-letter-exchange", "dead-letter-routing-key",
        "max-length", "max-priority", "overflow", "queue-mode", "single-active-consumer", "target-group-size",
    ),
}  # fmt: skip
_CLASSIC_BEFORE_4: Final = ("queue-leader-locator",)
_CLASSIC_SINCE_4: Final = (*_MEMORY, "target-group-size", "filter-field-names")


def lacks(kind: str, version: str) -> frozenset[str]:
    """Of queues of this `x-queue-type`. version: of the RabbitMQ that wrote the file; "": a new one."""
    found = _LACKS.get(kind, ())
    if kind == "classic":
        found += _CLASSIC_BEFORE_4 if version.startswith(("2.", "3.")) else _CLASSIC_SINCE_4
    return frozenset(found)
