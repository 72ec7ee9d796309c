"""Numbers of the owner. Rule: plain ints, turned into metrics only when asked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heappush, heapreplace

from broker.core.metrics import Histogram, Metric
from broker.core.pages import PIECE
from broker.engine.engine import Engine
from broker.journal.journal import Journal

PARTS = 64
"""Tables that totals are spread over: one of 100,000 entries would be copied whole, in one step, when it grows."""

SHOWN = 399
"""Queues with numbers of their own: those that hold most. The rest is one sum, or a scrape of 100,000 queues would be a
step of seconds. Five states each: below what a family may have (admin/exposition.py)."""
REST = ("(others)", "(others)")

STATES = ("ready", "delivering", "paged", "delayed", "scheduled")

Key = tuple[str, str]
"""(address, queue)"""
Totals = dict[Key, list[int]]
"""Messages by state."""


class ShardStats:
    """Counted once per turn or commit, never per message."""

    __slots__ = ("_queues", "commits", "full_waits", "pauses", "turns")

    def __init__(self) -> None:
        self.turns = 0
        self.commits = 0
        self.pauses = 0
        self.full_waits = 0
        self._queues: Totals | None = None
        """What the last survey found."""

    def pauses_producers(self) -> None:
        """Too much is on its way."""
        self.pauses += 1

    def waits_for_room(self) -> None:
        """The disk was full for a batch."""
        self.full_waits += 1

    def survey(self, engines: Iterable[Engine]) -> Iterator[None]:
        """Looks at all queues, PIECE of them a step; metrics() tells what the last complete one found."""
        parts: list[Totals] = [{} for _ in range(PARTS)]
        for engine in list(engines):
            queues = engine.shown.queues
            # Their numbers: queues come and go between the steps, and to copy references would be a look at each.
            ids = list(queues)
            for start in range(0, len(ids), PIECE):
                for id in ids[start : start + PIECE]:
                    queue = queues.get(id)
                    if queue is None or queue.deleted or queue.hidden:
                        continue
                    # Queues of plain topic subscribers come and go by the thousand: one series for all of an address.
                    key = (queue.address, "(subscribers)" if queue.tied else queue.name)
                    totals = parts[hash(key) % PARTS]
                    known, found = totals.get(key), queue.tally()
                    if known is None:
                        totals[key] = found
                    elif any(found):
                        totals[key] = [a + b for a, b in zip(known, found, strict=True)]
                yield
        # Not in the loop above: a queue with several partitions is in several slots, and is shown by the sum of them.
        shown: Totals = {}
        if sum(map(len, parts)) <= SHOWN:
            for totals in parts:
                shown |= totals
        else:
            yield from _largest(parts, shown)
        self._queues = shown

    def metrics(self, engines: Iterable[Engine], journal: Journal) -> list[Metric]:
        """The owner's families, queue states summed over the queues of each address."""
        engines = list(engines)
        totals: dict[str, int] = {}
        for engine in engines:
            for name, value in engine.counters().items():
                totals[name] = totals.get(name, 0) + value
        if self._queues is None:
            deque(self.survey(engines), maxlen=0)
        queues, self._queues = self._queues or {}, None
        samples: list[tuple[dict[str, str], float | Histogram]] = [
            ({"address": address, "queue": name, "state": state}, float(count))
            for (address, name), counts in queues.items()
            for state, count in zip(STATES, counts, strict=True)
        ]
        families = [
            Metric(f"stomp_messages_{name}_total", "counter", text, [({}, float(totals.get(name, 0)))])
            for name, text in COUNTERS.items()
        ]
        families += [
            Metric(
                "stomp_slow_consumers_total",
                "counter",
                "Consumers found to be slow, once per period (slow_consumer_threshold).",
                [({}, float(totals.get("slow_consumers", 0)))],
            ),
            Metric(
                "stomp_selector_overruns_total",
                "counter",
                "Messages that a selector did not match because that would have cost too much.",
                [({}, float(totals.get("selector_overruns", 0)))],
            ),
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
        ]
        return families + _of_journal(journal)


def _of_journal(journal: Journal) -> list[Metric]:
    gauges = {
        "stomp_journal_inflight_bytes": ("Bytes accepted and not yet synced.", journal.inflight_bytes),
        "stomp_journal_free_bytes": (
            "Bytes free on the journal's volume, as of the last write or look (every few seconds).",
            journal.free_bytes,
        ),
        "stomp_journal_space": (
            "0: enough; 1: nearly full; 2: full, durable messages are refused.",
            journal.space.value,
        ),
        "stomp_journal_disk_bytes": (
            "Bytes of the journal's segments; large bodies are files beside them.",
            journal.disk_bytes(),
        ),
        "stomp_journal_live_bytes": (
            "Estimate of the bytes of live messages in the journal's segments; the rest is freed in time.",
            journal.live_bytes(),
        ),
    }
    return [Metric(name, "gauge", text, [({}, float(n))]) for name, (text, n) in gauges.items()]


def _largest(parts: list[Totals], shown: Totals) -> Iterator[None]:
    """Puts the SHOWN queues with most messages into `shown`, and the sum of all others; PIECE of them a step. Each part
    is given back when it was looked at: all of them at once, at the end, took 24 ms with 100,000 queues.

    Of those with as many the last by name: the same ones in each scrape and after each start, in whatever order they
    come out of the parts, which is another one in each process."""
    most: list[tuple[int, Key, list[int]]] = []
    rest, seen = [0] * len(STATES), 0
    while parts:
        totals = parts.pop()
        while totals:
            seen += 1
            key, counts = totals.popitem()
            entry = (sum(counts), key, counts)
            if len(most) < SHOWN:
                heappush(most, entry)
            else:
                # A heap of 399: one comparison for most queues.
                less = heapreplace(most, entry) if entry > most[0] else entry
                rest = [a + b for a, b in zip(rest, less[2], strict=True)]
            if not seen % PIECE:
                yield
    for _, key, counts in sorted(most, reverse=True):
        shown[key] = counts
    shown[REST] = rest


COUNTERS = {
    "accepted": "Messages taken from producers.",
    "delivered": "Messages handed to consumers.",
    "acked": "Messages acknowledged (or sent, in ack mode auto).",
    "nacked": "Negative acknowledgements.",
    "redelivered": "Deliveries of messages that had been delivered before.",
    "expired": "Messages whose time ran out.",
    "dead_lettered": "Messages moved to a dead letter address.",
    "duplicates": "Messages dropped because their _AMQ_DUPL_ID was known.",
    "dropped_unrouted": "Messages sent to an address with no queue.",
    "replaced": "Messages dropped because newer ones took their place (last_value, ring_size, ring_bytes).",
    "refused_quota": "Messages refused (1513) because the queues a user has made hold as much as edge.quotas says.",
    "dropped_full": "Messages dropped because their address had reached its limit (policy DROP).",
}
