"""From the rooms' own numbers (core.metrics) to Prometheus' text.

Rule: read at scrape time only; rooms count in plain ints and know nothing of Prometheus. Must not know what any
family means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.samples import Exemplar

from broker import __version__
from broker.core.metrics import Histogram, Metric, MetricSource

MAX_SERIES = 2000
"""Per family. A broker with 100,000 temporary queues must not make every scrape 10 MB; what was left out is
counted in `stomp_series_dropped`."""


PIECE = 16
"""Samples made and written at a time: about a tenth of a millisecond."""
_EOF = b"# EOF\n"
"""The end of a page of OpenMetrics."""


class Collector:
    """Asks every source anew at each scrape. Families of one name from several sources become one."""

    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._sources = sources
        self._gathered: dict[str, Metric] | None = None

    def gather(self) -> Iterator[None]:
        """Asks them, one per step; the next pieces() tell what they said."""
        families: dict[str, Metric] = {}
        for source in self._sources:
            for metric in source.metrics():
                seen = families.get(metric.name)
                if seen is None:
                    families[metric.name] = metric
                else:
                    samples = [*seen.samples, *metric.samples]
                    families[metric.name] = Metric(metric.name, metric.kind, metric.help, samples)
            yield
        self._gathered = families

    def pieces(self) -> Iterator[tuple[Family, bool]]:
        """What gather() has found, PIECE samples at a time. True: of the family of the piece before."""
        families, self._gathered = self._gathered, None
        if families is None:
            deque(self.gather(), maxlen=0)
            families, self._gathered = self._gathered or {}, None
        dropped = GaugeMetricFamily(
            "stomp_series_dropped", f"Series left out of a family with more than {MAX_SERIES}.", labels=["family"]
        )
        for name, metric in families.items():
            if len(metric.samples) > MAX_SERIES:
                dropped.add_metric([name], len(metric.samples) - MAX_SERIES)
            piece = 1 if metric.kind == "histogram" else PIECE  # each of those is twenty lines or so
            for at in range(0, min(len(metric.samples), MAX_SERIES) or 1, piece):
                samples = metric.samples[at : min(at + piece, MAX_SERIES)]
                yield family(Metric(metric.name, metric.kind, metric.help, samples)), at > 0
        yield dropped, False
        yield InfoMetricFamily("stomp_build", "Version of the broker.", value={"version": __version__}), False


def family(metric: Metric) -> Family:
    """As the library wants it. Histogram counts are per bucket (the last one: above all bounds)."""
    made = _KINDS[metric.kind](metric.name, metric.help)
    for labels, value in metric.samples:
        if isinstance(value, Histogram):
            bounds, counts, total, examples = value
            names = [*map(str, bounds), "+Inf"]
            running = list(accumulate(counts))
            for at, (bound, count) in enumerate(zip(names, running, strict=True)):
                example = examples.get(at)
                # Only OpenMetrics has them: who asks for the text of before gets the same without.
                shown = None if example is None else Exemplar({"trace_id": example[0]}, *example[1:])
                made.add_sample(f"{metric.name}_bucket", {**labels, "le": bound}, count, exemplar=shown)
            made.add_sample(f"{metric.name}_count", labels, running[-1])
            made.add_sample(f"{metric.name}_sum", labels, total)
        else:
            made.add_sample(metric.name, labels, value)
    return made


_KINDS: dict[str, type[CounterMetricFamily] | type[GaugeMetricFamily] | type[HistogramMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


class _Piece:
    """A registry of one family, or of a part of one."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterable[Family]:
        return (self._family,)


class Exposition:
    """What our sources tell, and what every process does: CPU, memory, files, GC."""

    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._collector = Collector(sources)
        # Of ours alone, not the global one.
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        GCCollector(registry=self._process)

    def gather(self) -> Iterator[None]:
        """Asks the sources, one per step."""
        return self._collector.gather()

    def process(self) -> list[Family]:
        """What the process tells. In a thread: its open files are listed, 20,000 connections in 15 ms."""
        return list(self._process.collect())

    def rendering(self, accept: str, process: Sequence[Family]) -> Iterator[tuple[bytes, str] | None]:
        """(body, content type) in the format the scraper's Accept header asks for, of what gather() has found: the last
        of many steps. A thread would take the interpreter from the loop, and from who commits, for as long."""
        encode, content_type = _encoder(accept)
        body: list[bytes] = []
        for piece, goes_on in chain(self._collector.pieces(), ((each, False) for each in process)):
            text = encode(_Piece(piece)).removesuffix(_EOF)
            # The library begins each with HELP and TYPE.
            while goes_on and text[:2] == b"# ":
                text = text[text.index(b"\n") + 1 :]
            body.append(text)
            yield None
        if "openmetrics" in content_type:
            body.append(_EOF)
        yield b"".join(body), content_type

    def render(self, accept: str) -> tuple[bytes, str]:
        """The same at once."""
        *_, page = self.rendering(accept, self.process())
        assert page is not None
        return page


def _encoder(accept: str) -> tuple[Callable[[_Piece], bytes], str]:
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is none
        return choose_encoder("")
