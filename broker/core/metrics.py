"""How a room shows its numbers. Rule: values only; rooms count in plain ints and build these when asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, Protocol

Kind = Literal["counter", "gauge", "histogram"]


class Histogram(NamedTuple):
    """Counts of each bucket (the last one: above all bounds) and the sum of all that was counted.

    examples   bucket → (trace, value, seconds since the epoch) of one of those that were counted there."""

    bounds: list[float]
    counts: list[int]
    total: float
    examples: Mapping[int, tuple[str, float, float]] = {}


class Metric:
    """One family. `samples`: (labels, value).

    Names carry the prefix `stomp_`, base units, and `_total` for counters. `help` is never empty."""

    __slots__ = ("help", "kind", "name", "samples")

    def __init__(
        self,
        name: str,
        kind: Kind,
        help: str,
        samples: list[tuple[dict[str, str], float | Histogram]],
    ) -> None:
        self.name = name
        self.kind = kind
        self.help = help
        self.samples = samples


class MetricSource(Protocol):
    """What has numbers to show."""

    def metrics(self) -> Iterable[Metric]: ...
