"""Spans as OpenTelemetry's messaging conventions have them, at a collector that speaks OTLP."""

from __future__ import annotations

import logging
import sys

import pytest

from broker.core.errors import ConfigError
from broker.core.traceparent import Context
from broker.tracing.otlp import Export, Spans, attributes, exporter_to
from broker.tracing.span_notes import Notes, SpanNote
from tests.harness.collector import Collector, collecting

A, A2, B = Context("a" * 32, "1" * 16), Context("a" * 32, "3" * 16), Context("b" * 32, "2" * 16)


def notes() -> Notes:
    return Notes(1000, lambda: 5.0, lambda: 5.0)


def exported(collector: Collector, *made: SpanNote) -> Notes:
    found = notes()
    export = Export(found, Spans("broker", "one"), exporter_to(collector.endpoint), collector.endpoint)
    for note in made:
        found.add(note)
    export.stop()
    return found


def test_a_span_for_each_trace_with_links_to_its_other_messages():
    with collecting() as collector:
        told = exported(collector, SpanNote("send", "orders", 7, 5.0, 5.5, [A, B, A2]))
        first, other = sorted(collector.spans)
        assert {metric.name: metric.samples[0][1] for metric in told.metrics()}["stomp_trace_spans_total"] == 2
    assert (first.name, first.trace, first.parent, first.links) == ("send orders", A.trace, A.span, [A2.span])
    assert (other.trace, other.parent, other.links) == (B.trace, B.span, [])
    assert (first.began, first.ended) == (5_000_000_000, 5_500_000_000)
    assert first.service == "stampede-broker" and first.kind == 2 and not first.error
    assert first.said == {
        "messaging.system": "stampede", "messaging.operation.name": "send", "messaging.operation.type": "send",
        "messaging.destination.name": "orders", "messaging.destination.partition.id": "7",
        "messaging.batch.message_count": 2,
    }  # fmt: skip


def test_what_is_refused_is_an_error():
    with collecting() as collector:
        exported(collector, SpanNote("send", "orders", 7, 5.0, 4.0, [A], error="DISK_FULL"))
        (span,) = collector.spans
    assert span.error and span.said["error.type"] == "DISK_FULL" and span.began == span.ended


def test_names():
    note = SpanNote("deliver", "orders", -1, 5.0, 5.0, [A], 12, 300, 40, True)
    assert attributes(note, 1) == {
        "messaging.system": "stampede", "messaging.operation.name": "deliver", "messaging.operation.type": "receive",
        "messaging.destination.name": "orders", "messaging.message.id": "12",
        "messaging.message.envelope.size": 300, "stampede.waited_ms": 40, "stampede.redelivered": True,
    }  # fmt: skip


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop-broker")
    with collecting() as collector:
        exported(collector, SpanNote("store", "orders", 7, 5.0, 5.0, [A]))
        assert [span.service for span in collector.spans] == ["shop-broker"]


def test_a_collector_that_is_away_is_told_once(caplog: pytest.LogCaptureFixture):
    pytest.importorskip("opentelemetry.sdk")
    caplog.set_level(logging.INFO, "stampede.tracing")

    class Exporter:
        def __init__(self) -> None:
            self.answers = [None, False, True, True]

        def export(self, spans: list[object]) -> object:
            answer = self.answers.pop(0)
            if answer is None:
                raise RuntimeError("gone")
            return type("Result", (), {"name": "SUCCESS" if answer else "FAILURE"})

        def shutdown(self) -> None:
            """Nothing is open."""

    found = notes()
    export = Export(found, Spans("broker", "one"), Exporter(), "http://there:4317")
    for _ in range(4):
        found.add(SpanNote("send", "orders", 7, 5.0, 5.0, [A, B]))
        export.send()
    export.stop()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    counts = {metric.name: metric.samples[0][1] for metric in found.metrics()}
    assert (counts["stomp_trace_spans_total"], counts["stomp_trace_spans_dropped_total"]) == (4, 4)


def test_without_the_libraries_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", None)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for made in (lambda: Spans("broker", "one"), lambda: exporter_to("http://there:4317")):
        with pytest.raises(ConfigError, match=r"stampede-broker\[otel\]"):
            made()


def test_an_endpoint_is_a_url():
    with pytest.raises(ConfigError, match=r"tracing\.endpoint.*http://HOST:4317"):
        exporter_to("there:4317")
