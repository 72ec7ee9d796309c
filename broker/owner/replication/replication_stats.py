"""Numbers of the leader side of replication: which follower lags, which are in sync, what was copied.

Rule: made when asked, from what is there anyway.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Protocol

from broker.core.metrics import Metric

from .catchup import CatchUp
from .isr import LedSlot
from .peer import Peer


class Totals(Protocol):
    """Counted by leader.Leaders."""

    backlog: int
    shrinks: int
    grows: int


def lag_metrics(totals: Totals, leads: Collection[LedSlot], peers: Iterable[Peer], seeds: CatchUp) -> Iterable[Metric]:
    short = sum([len(lead.record.isr) < len(lead.record.replicas) for lead in leads])
    stuck = sum([len(lead.record.isr) < lead.min_in_sync for lead in leads])
    lags: list[tuple[dict[str, str], Any]] = [({"follower": peer.id}, peer.unacked) for peer in peers]
    gauges: dict[str, tuple[str, list[tuple[dict[str, str], Any]]]] = {
        "led_slots": ("Slots led by this owner.", [({}, len(leads))]),
        "under_replicated_slots": ("Led slots of which a replica is not in sync.", [({}, short)]),
        "below_min_in_sync_slots": ("Led slots that wait for replicas.", [({}, stuck)]),
        "replication_backlog_bytes": ("Committed here, not yet on all in-sync followers.", [({}, totals.backlog)]),
        "replication_unacked_bytes": ("Sent to a follower and not acknowledged.", lags),
    }
    counters = {
        "isr_shrinks_total": ("Followers that left the in-sync replicas.", totals.shrinks),
        "isr_grows_total": ("Followers that joined the in-sync replicas.", totals.grows),
        "seeds_total": ("Copies of slots begun for followers.", seeds.seeds),
        "seed_bytes_total": ("Bytes of copies sent to followers.", seeds.seed_bytes),
    }
    yield from (Metric(f"stomp_{name}", "gauge", text, samples) for name, (text, samples) in gauges.items())
    yield from (Metric(f"stomp_{name}", "counter", text, [({}, n)]) for name, (text, n) in counters.items())
