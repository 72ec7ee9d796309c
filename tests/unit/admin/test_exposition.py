"""What a scraper reads is what the rooms counted."""

from __future__ import annotations

import math

import pytest
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from broker.admin.exposition import MAX_SERIES, PIECE, Exposition, family
from broker.core.metrics import Histogram, Metric


class Source:
    def __init__(self, *metrics):
        self.list = list(metrics)

    def metrics(self):
        return self.list


def scrape(*sources, accept=""):
    body, content_type = Exposition(sources).render(accept)
    parse = parse_openmetrics if "openmetrics" in content_type else parse_text
    return {(s.name, *sorted(s.labels.items())): s.value for family in parse(body.decode()) for s in family.samples}


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_counters_and_gauges(accept):
    source = Source(
        Metric("stomp_frames_total", "counter", "Frames.", [({}, 5.0)]),
        Metric("stomp_connections", "gauge", "Open.", [({"transport": "tcp"}, 2.0), ({"transport": 'w"s\n'}, 3.0)]),
    )
    found = scrape(source, accept=accept)
    assert found[("stomp_frames_total",)] == 5
    assert found[("stomp_connections", ("transport", "tcp"))] == 2
    assert found[("stomp_connections", ("transport", 'w"s\n'))] == 3
    assert any(name[0] == "process_resident_memory_bytes" for name in found)


def test_histogram_buckets_are_cumulative():
    syncs = Histogram([0.001, 0.01], [4, 2, 1], 0.5)
    found = scrape(Source(Metric("stomp_sync_seconds", "histogram", "Syncs.", [({}, syncs)])))
    assert found[("stomp_sync_seconds_bucket", ("le", "0.001"))] == 4
    assert found[("stomp_sync_seconds_bucket", ("le", "0.01"))] == 6
    assert found[("stomp_sync_seconds_bucket", ("le", "+Inf"))] == 7
    assert found[("stomp_sync_seconds_count",)] == 7
    assert math.isclose(found[("stomp_sync_seconds_sum",)], 0.5)


def test_an_example_of_a_bucket_names_its_trace_where_the_scraper_knows_examples():
    waits = Histogram([0.001, 0.01], [4, 2, 1], 0.5, {1: ("a" * 32, 0.004, 1_700_000_000.5)})
    exposition = Exposition([Source(Metric("stomp_wait_seconds", "histogram", "Waits.", [({}, waits)]))])
    body, _ = exposition.render("application/openmetrics-text; version=1.0.0")
    found = {
        sample.labels["le"]: sample.exemplar
        for family in parse_openmetrics(body.decode())
        for sample in family.samples
        if sample.name == "stomp_wait_seconds_bucket" and sample.exemplar
    }
    (example,) = found.values()
    assert list(found) == ["0.01"] and example.labels == {"trace_id": "a" * 32}
    assert (example.value, float(example.timestamp)) == (0.004, 1_700_000_000.5)
    assert b"trace_id" not in exposition.render("")[0]


def test_one_family_from_two_sources_is_told_once():
    one, two = (Source(Metric("stomp_x", "gauge", "X.", [({"part": part}, 1.0)])) for part in "ab")
    body, _ = Exposition([one, two]).render("")
    assert body.count(b"# TYPE stomp_x gauge") == 1
    assert scrape(one, two)[("stomp_x", ("part", "b"))] == 1


def test_numbers_are_read_at_each_scrape():
    source = Source(Metric("stomp_x", "gauge", "X.", [({}, 1.0)]))
    exposition = Exposition([source])
    exposition.render("")
    source.list = [Metric("stomp_x", "gauge", "X.", [({}, 2.0)])]
    assert b"\nstomp_x 2.0\n" in exposition.render("")[0]


def test_too_many_series_are_cut_and_the_cut_is_told():
    samples = [({"queue": str(number)}, 1.0) for number in range(MAX_SERIES + 3)]
    found = scrape(Source(Metric("stomp_queue_messages", "gauge", "Q.", samples)))
    assert sum(1 for name in found if name[0] == "stomp_queue_messages") == MAX_SERIES
    assert found[("stomp_series_dropped", ("family", "stomp_queue_messages"))] == 3


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_a_page_in_pieces_is_what_the_library_writes_at_once(accept):
    """Of families that are longer than a piece, empty, and of each kind."""
    waits = Histogram([0.001 * n for n in range(40)], [n for n in range(41)], 0.5, {1: ("a" * 32, 0.004, 1.7e9)})
    many = [({"n": str(n)}, float(n)) for n in range(5 * PIECE + 1)]
    metrics = [
        Metric("stomp_long_total", "counter", "Lines\nand \\.", many),
        Metric("stomp_none", "gauge", "None.", []),
        Metric("stomp_wait_seconds", "histogram", "Waits.", [({"of": str(n)}, waits) for n in range(2 * PIECE)]),
        Metric("stomp_more", "gauge", "More.", [({"n": "# x\n"}, 1.0)] * (MAX_SERIES + 3)),
    ]
    exposition = Exposition([Source(*metrics)])
    steps = list(exposition.rendering(accept, exposition.process()))
    assert len(steps) > (MAX_SERIES + 3) // PIECE and not any(steps[:-1])

    class Whole:
        def collect(self):
            for metric in metrics:
                yield family(Metric(metric.name, metric.kind, metric.help, metric.samples[:MAX_SERIES]))

    encode, content_type = choose_encoder(accept)
    whole = encode(Whole()).removesuffix(b"# EOF\n")
    body, told = steps[-1]
    assert told == content_type and body.startswith(whole) and len(whole) > 60_000
    assert body.endswith(b"# EOF\n") == bool(accept) and body.count(b"# EOF\n") == bool(accept)
    assert b'stomp_series_dropped{family="stomp_more"} 3.0' in body


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text; version=abc", "text/plain; version=x; escaping=zzz", "*/*", ", ;,"]
)
def test_an_accept_header_that_nobody_understands_gets_the_plain_page(accept):
    assert ("stomp_x",) in scrape(Source(Metric("stomp_x", "gauge", "X.", [({}, 1.0)])), accept=accept)
