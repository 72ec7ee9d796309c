"""Numbers of the link. Rule: plain ints, turned into metrics only when asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from broker.core.metrics import Metric


class UnansweredSlot(Protocol):
    """One slot as an edge sees it (slot_channel.py)."""

    @property
    def opened(self) -> bool: ...

    @property
    def nbytes(self) -> int: ...


class LinkStats:
    """Counted per batch or per event, never per message."""

    __slots__ = (
        "batches_in", "batches_out", "bodies", "bytes_in", "bytes_out", "far_in", "far_out", "lost", "moved", "pauses",
        "refused", "replayed", "stale",
    )  # fmt: skip

    def __init__(self) -> None:
        self.batches_in = self.batches_out = self.bytes_in = self.bytes_out = self.bodies = 0
        self.far_in = self.far_out = 0
        self.lost = self.moved = self.pauses = self.refused = self.replayed = self.stale = 0

    def sent(self, nbytes: int, far: bool = False) -> None:
        """A batch has left. far: for another zone."""
        self.batches_out += 1
        self.bytes_out += nbytes
        if far:
            self.far_out += nbytes

    def received(self, nbytes: int, far: bool = False) -> None:
        """A batch has come. far: from another zone."""
        self.batches_in += 1
        self.bytes_in += nbytes
        if far:
            self.far_in += nbytes

    def sent_body(self) -> None:
        """A large body is sent again."""
        self.bodies += 1

    def lost_stream(self) -> None:
        """A stream has ended."""
        self.lost += 1

    def found_moved(self) -> None:
        """A slot is not led where the edge took it to be."""
        self.moved += 1

    def paused(self) -> None:
        """A producer waits for an owner."""
        self.pauses += 1

    def refused_peer(self) -> None:
        """A peer was refused by name, or did not decode."""
        self.refused += 1

    def replay(self, commands: int) -> None:
        """So many commands were sent again."""
        self.replayed += commands

    def dropped_stale(self) -> None:
        """An effect came from a stream or epoch that is over."""
        self.stale += 1

    def metrics(self, side: str) -> list[Metric]:
        """`side`: "edge" or "owner": one process may have both."""
        label = {"side": side}
        return [
            Metric(f"stomp_link_{name}_total", "counter", text, [(label, float(getattr(self, name)))])
            for name, text in COUNTERS.items()
        ]

    def across_zones(self) -> Metric:
        """Of an edge; owners count nothing twice."""
        ways = ("in", self.far_in), ("out", self.far_out)
        text = "Bytes between this edge and owners of other zones, before TLS; 0 where no zones are known."
        return Metric(
            "stampede_link_cross_zone_bytes_total", "counter", text,
            [({"direction": way}, float(nbytes)) for way, nbytes in ways],
        )  # fmt: skip


def of_channels(channels: Iterable[UnansweredSlot]) -> list[Metric]:
    """What waits at an edge for the owners of its slots."""
    channels = list(channels)
    down, waiting = sum([not channel.opened for channel in channels]), sum([channel.nbytes for channel in channels])
    return [
        Metric("stomp_link_slots_down", "gauge", "Slots in use whose owner cannot be reached.", [({}, float(down))]),
        Metric(
            "stomp_link_pending_bytes",
            "gauge",
            "Bytes of requests that no owner has answered yet.",
            [({}, float(waiting))],
        ),
    ]


COUNTERS = {
    "batches_in": "Messages taken from other components.",
    "batches_out": "Messages sent to other components.",
    "bodies": "Large bodies sent again to a new owner or on a new stream.",
    "bytes_in": "Bytes taken from other components.",
    "bytes_out": "Bytes sent to other components.",
    "lost": "Streams between edge and owner that ended.",
    "moved": "Times a slot was not led where the edge took it to be.",
    "pauses": "Times producers were paused for an owner.",
    "refused": "Peers refused by name, or messages that did not decode.",
    "replayed": "Commands sent again to a new owner or on a new stream.",
    "stale": "Effects dropped because they came from a stream or epoch that is over.",
}
