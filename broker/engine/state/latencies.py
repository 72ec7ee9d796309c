"""Whose messages are timed: so many queues of the process for themselves, all others together.

Rule: a queue that has a place keeps it as long as it is there, so that no series goes back; bounded by a setting.
Queues of topic subscribers, which come and go, are one for their address.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from broker.core.address import TEMPORARY
from broker.core.metrics import Histogram, Metric

from ..queue.latency import BOUNDS_MS, Latency

OTHERS: Final = ("(others)", "(others)")
SUBSCRIBERS: Final = "(subscribers)"
_BOUNDS: Final = [bound / 1000 for bound in BOUNDS_MS]


class Latencies:
    """most   queues that are timed for themselves."""

    __slots__ = ("_by", "_most", "_others")

    def __init__(self, most: int) -> None:
        self._most = most
        self._others = Latency()
        self._by: dict[tuple[str, str], dict[int, Latency]] = {}
        """(address, queue) → by slot."""

    def of(self, slot: int, address: str, name: str, tied: bool) -> Latency:
        """Where the times of a queue are counted."""
        key = (address, SUBSCRIBERS if tied else name)
        places = self._by.get(key)
        if places is None:
            if len(self._by) >= self._most or address.startswith(TEMPORARY):
                return self._others
            places = self._by[key] = {}
        found = places.get(slot)
        if found is None:
            found = places[slot] = Latency()
        return found

    def gone(self, slot: int, address: str, name: str) -> None:
        """The queue is no more: its place is free."""
        places = self._by.get((address, name))
        if places is not None:
            places.pop(slot, None)
            if not places:
                del self._by[address, name]

    def drop(self, slot: int) -> None:
        """The slot is not led here any more."""
        for address, name in list(self._by):
            self.gone(slot, address, name)

    def told(self) -> dict[str, dict[str, int]]:
        """Of all queues together, since the process began: delivered and acked messages by the upper bound of their
        time in milliseconds; what took longer than the last one is `more`."""
        places = [self._others, *(place for places in self._by.values() for place in places.values())]
        return {
            "delivered": _by_bound([place.delivered for place in places]),
            "acked": _by_bound([place.acked for place in places]),
        }

    def metrics(self) -> Iterator[Metric]:
        entries = [(key, list(places.values())) for key, places in self._by.items()]
        entries.append((OTHERS, [self._others]))
        labels = [{"address": address, "queue": name} for (address, name), _ in entries]
        yield Metric(
            "stomp_queue_delivery_seconds", "histogram",
            "From when a message was taken (or due) to when it was handed to a consumer.",
            [(label, _delivered(places)) for label, (_, places) in zip(labels, entries, strict=True)],
        )  # fmt: skip
        yield Metric(
            "stomp_queue_ack_seconds", "histogram",
            "From when a message was taken (or due) to its acknowledgement; not of subscriptions with ack:auto.",
            [(label, _acked(places)) for label, (_, places) in zip(labels, entries, strict=True)],
        )  # fmt: skip


def _by_bound(counts: list[list[int]]) -> dict[str, int]:
    names = [*map(str, BOUNDS_MS), "more"]
    return {name: sum(each) for name, each in zip(names, zip(*counts, strict=True), strict=True)}


def _delivered(places: Iterable[Latency]) -> Histogram:
    places = list(places)
    counts = [sum(each) for each in zip(*(place.delivered for place in places), strict=True)]
    examples = {
        bucket: (example.trace, example.took_ms / 1000, example.at_ms / 1000)
        for place in places
        for bucket, example in place.examples.items()
    }
    return Histogram(_BOUNDS, counts, sum(place.sums[0] for place in places) / 1000, examples)


def _acked(places: Iterable[Latency]) -> Histogram:
    places = list(places)
    counts = [sum(each) for each in zip(*(place.acked for place in places), strict=True)]
    return Histogram(_BOUNDS, counts, sum(place.sums[1] for place in places) / 1000, {})
