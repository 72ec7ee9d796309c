"""From the rooms' own numbers (core.metrics) to Prometheus' text.

Rule: read at scrape time only; rooms count in plain ints and know nothing of Prometheus. Must not know what any
family means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

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


class Collector:
    """Asks every source anew at each scrape. Families of one name from several sources become one."""

    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._sources = sources
        self._gathered: dict[str, Metric] | None = None

    def gather(self) -> Iterator[None]:
        """Asks them, one per step; the next collect() tells what they said, in whatever thread."""
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

    def collect(self) -> Iterator[Family]:
        if self._gathered is None:
            for _ in self.gather():
                pass
        families, self._gathered = self._gathered or {}, None
        dropped = GaugeMetricFamily(
            "stomp_series_dropped", f"Series left out of a family with more than {MAX_SERIES}.", labels=["family"]
        )
        for name, metric in families.items():
            if len(metric.samples) > MAX_SERIES:
                dropped.add_metric([name], len(metric.samples) - MAX_SERIES)
            yield family(metric)
        yield dropped
        yield InfoMetricFamily("stomp_build", "Version of the broker.", value={"version": __version__})


def family(metric: Metric) -> Family:
    """One family with at most MAX_SERIES samples. Histogram counts are per bucket (the last one: above all bounds)."""
    made = _KINDS[metric.kind](metric.name, metric.help)
    for labels, value in metric.samples[:MAX_SERIES]:
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


class Exposition:
    """A registry of ours alone (not the global one), plus what every process tells: CPU, memory, files, GC."""

    def __init__(self, sources: Sequence[MetricSource]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._collector = Collector(sources)
        self._registry.register(self._collector)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def gather(self) -> Iterator[None]:
        """Call it before render() where that runs in a thread of its own: sources are asked in this one."""
        return self._collector.gather()

    def render(self, accept: str) -> tuple[bytes, str]:
        """(body, content type) in the format the scraper's Accept header asks for."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type
