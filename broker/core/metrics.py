"""How a room shows its numbers. Rule: values only; rooms count in plain ints and build these when asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

Kind = Literal["counter", "gauge", "histogram"]


class Metric:
    """One family. `samples`: (labels, value); for histograms value = (bucket upper bounds, counts, sum).

    Names carry the prefix `stomp_`, base units, and `_total` for counters. `help` is never empty."""

    __slots__ = ("help", "kind", "name", "samples")

    def __init__(
        self,
        name: str,
        kind: Kind,
        help: str,
        samples: list[tuple[dict[str, str], float | tuple[list[float], list[int], float]]],
    ) -> None:
        self.name = name
        self.kind = kind
        self.help = help
        self.samples = samples


class MetricSource(Protocol):
    """Whoever has numbers to show."""

    def metrics(self) -> Iterable[Metric]: ...
