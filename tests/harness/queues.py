"""What is in the queues of an engine, as plain values: for tests that compare and print.

Rule: looks, changes nothing.
"""

from __future__ import annotations

from typing import Any

from broker.engine.engine import Engine
from broker.owner.commit.stats import STATES


def stats(engine: Engine) -> list[dict[str, Any]]:
    """One entry per queue that an address leads to: messages by state, and bytes."""
    return [
        {
            "name": queue.name,
            "address": queue.address,
            "routing": queue.routing.name,
            "bytes": queue.nbytes + queue.pages.nbytes,
            "consumers": len(queue.consumers),
            **dict(zip(STATES, queue.tally(), strict=True)),
        }
        for queue in engine.queues()
        if not queue.hidden
    ]
