"""Numbers of the owner. Rule: plain ints, turned into metrics only when asked."""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.metrics import Metric
from broker.engine.engine import Engine
from broker.journal.journal import Journal


class ShardStats:
    """Counted once per turn or commit, never per message."""

    __slots__ = ("commits", "full_waits", "pauses", "turns")

    def __init__(self) -> None:
        self.turns = 0
        self.commits = 0
        self.pauses = 0
        self.full_waits = 0

    def metrics(self, engines: Iterable[Engine], journal: Journal) -> list[Metric]:
        """The owner's families, queue states summed over the queues of each address."""
        totals: dict[str, int] = {}
        queues: dict[tuple[str, str, str], int] = {}
        for engine in engines:
            for name, value in engine.counters().items():
                totals[name] = totals.get(name, 0) + value
            for queue in engine.stats():
                # Queues of plain topic subscribers come and go by the thousand: one series for all of an address.
                name = "(subscribers)" if queue["name"].startswith(f"{queue['address']}::") else queue["name"]
                for state in ("ready", "delivering", "paged", "delayed"):
                    key = (queue["address"], name, state)
                    queues[key] = queues.get(key, 0) + queue[state]
        samples: list[tuple[dict[str, str], float | tuple[list[float], list[int], float]]] = [
            ({"address": address, "queue": name, "state": state}, float(count))
            for (address, name, state), count in queues.items()
        ]
        families = [
            Metric(f"stomp_messages_{name}_total", "counter", text, [({}, float(totals.get(name, 0)))])
            for name, text in COUNTERS.items()
        ]
        families += [
            Metric("stomp_queue_messages", "gauge", "Messages in a queue by state.", samples),
            Metric("stomp_turns_total", "counter", "Turns of the owner's loop.", [({}, float(self.turns))]),
            Metric(
                "stomp_journal_commits_total",
                "counter",
                "Group commits (one fdatasync each).",
                [({}, float(self.commits))],
            ),
            Metric(
                "stomp_backpressure_pauses_total",
                "counter",
                "Times producers were paused for the disk.",
                [({}, float(self.pauses))],
            ),
            Metric(
                "stomp_journal_inflight_bytes",
                "gauge",
                "Bytes accepted and not yet synced.",
                [({}, float(journal.inflight_bytes))],
            ),
        ]
        return families


COUNTERS = {
    "accepted": "Messages taken from producers.",
    "delivered": "Messages handed to consumers.",
    "acked": "Messages acknowledged (or sent, in ack mode auto).",
    "nacked": "Negative acknowledgements.",
    "redelivered": "Deliveries of messages that had been delivered before.",
    "expired": "Messages whose time ran out.",
    "dead_lettered": "Messages moved to a dead letter address.",
    "dropped_unrouted": "Messages sent to an address with no queue.",
}
