"""Notes become spans of OpenTelemetry, and go to a collector (OTLP over gRPC).

Rule: all of it in a thread of its own, once a second or when the process ends; a collector that is away costs spans and
nothing else. Libraries are imported when it is made. Names are those of OpenTelemetry's messaging conventions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from threading import Event, Thread
from typing import Any, Final

from broker import __version__
from broker.core.errors import ConfigError
from broker.core.traceparent import Context

from .span_notes import Notes, SpanNote

log = logging.getLogger("stampede.tracing")

EVERY_S: Final = 1.0
END_S: Final = 3.0
"""How long the end of the process waits for the last ones."""
BATCH: Final = 512
"""Spans of one request."""
TYPES: Final = {"send": "send", "deliver": "receive", "ack": "settle", "nack": "settle", "reject": "settle",
                "release": "settle"}  # fmt: skip
"""messaging.operation.type of an operation."""


class Spans:
    """Makes them. Raises ConfigError where the libraries are not installed."""

    def __init__(self, kind: str, id: str) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import ReadableSpan
            from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
            from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        except ImportError as error:
            raise missing(error) from None
        self._trace = trace
        self._span = ReadableSpan
        self._ids = RandomIdGenerator()
        self._scope = InstrumentationScope("stampede", __version__)
        own = {"service.name": f"stampede-{kind}", "service.instance.id": id, "service.version": __version__}
        # What OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME say comes with create(), and wins.
        given = Resource.create()
        named = {key: value for key, value in given.attributes.items() if not str(value).startswith("unknown_service")}
        self._resource = Resource({**given.attributes, **own, **named}, given.schema_url)
        kinds = trace.SpanKind
        self._kinds = {"store": kinds.INTERNAL, "deliver": kinds.PRODUCER}

    def of(self, note: SpanNote) -> Iterator[Any]:
        """One for each trace; messages of the same trace are its links."""
        traces: dict[str, list[Context]] = {}
        for context in note.contexts:
            traces.setdefault(context.trace, []).append(context)
        for contexts in traces.values():
            yield self._made(note, contexts)

    def _made(self, note: SpanNote, contexts: Sequence[Context]) -> Any:
        trace = self._trace
        parents = [self._context(context) for context in contexts]
        own = trace.SpanContext(parents[0].trace_id, self._ids.generate_span_id(), False, trace.TraceFlags(1))
        status = trace.Status(trace.StatusCode.ERROR, note.error) if note.error else trace.Status()
        return self._span(
            f"{note.operation} {note.address}".strip(),
            own,
            parents[0],
            self._resource,
            attributes(note, len(contexts)),
            (),
            [trace.Link(parent) for parent in parents[1:]],
            self._kinds.get(note.operation, trace.SpanKind.SERVER),
            status=status,
            start_time=int(note.began * 1e9),
            end_time=int(max(note.ended, note.began) * 1e9),
            instrumentation_scope=self._scope,
        )

    def _context(self, context: Context) -> Any:
        trace = self._trace
        return trace.SpanContext(int(context.trace, 16), int(context.span, 16), True, trace.TraceFlags(1))


def attributes(note: SpanNote, messages: int) -> dict[str, str | int | bool]:
    """As the messaging conventions name them; what they have no name for begins with `stampede.`."""
    found: dict[str, str | int | bool] = {
        "messaging.system": "stampede",
        "messaging.operation.name": note.operation,
        "messaging.destination.name": note.address,
    }
    if note.operation in TYPES:
        found["messaging.operation.type"] = TYPES[note.operation]
    if note.slot >= 0:
        found["messaging.destination.partition.id"] = str(note.slot)
    if messages > 1:
        found["messaging.batch.message_count"] = messages
    elif note.id:
        found["messaging.message.id"] = str(note.id)
    if note.nbytes:
        found["messaging.message.envelope.size"] = note.nbytes
    if note.waited >= 0:
        found["stampede.waited_ms"] = note.waited
    if note.redelivered:
        found["stampede.redelivered"] = True
    if note.error:
        found["error.type"] = note.error
    return found


class Export:
    """The thread. exporter: what takes lists of spans and says whether they have arrived (an OTLPSpanExporter)."""

    def __init__(self, notes: Notes, spans: Spans, exporter: Any, endpoint: str) -> None:
        self._notes = notes
        self._spans = spans
        self._exporter = exporter
        self._endpoint = endpoint
        self._away = False
        self._ends = Event()
        self._thread = Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(EVERY_S):
            self.send()
        self.send()
        self._exporter.shutdown()

    def send(self) -> None:
        """All that is noted."""
        spans = [span for note in self._notes.drain() for span in self._made(note)]
        for start in range(0, len(spans), BATCH):
            self._send(spans[start : start + BATCH])

    def _made(self, note: SpanNote) -> list[Any]:
        """Of a note that cannot be made into spans other notes do not suffer."""
        try:
            return list(self._spans.of(note))
        except Exception:
            log.exception("a span cannot be made: internal error")
            self._notes.lost(1)
            return []

    def _send(self, spans: list[Any]) -> None:
        try:
            arrived = self._exporter.export(spans).name == "SUCCESS"
        except Exception:
            log.debug("spans", exc_info=True)
            arrived = False
        if arrived:
            self._notes.told(len(spans))
        else:
            self._notes.lost(len(spans))
        if self._away == arrived:
            self._away = not arrived
            if arrived:
                log.info("the collector at %s takes spans again", self._endpoint)
            else:
                log.warning(
                    "the collector at %s (tracing.endpoint) does not take spans: they are dropped", self._endpoint
                )

    def stop(self) -> None:
        """Sends the last ones, unless that takes too long."""
        self._ends.set()
        self._thread.join(END_S)


def exporter_to(endpoint: str) -> Any:
    """OTLP over gRPC. Headers, certificates and time limits come from OTEL_EXPORTER_OTLP_…. Raises ConfigError."""
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"tracing.endpoint = {endpoint!r}: http://HOST:4317, or https://… with TLS")
    try:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise missing(error) from None
    # They log each try with a stack trace.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)
    return OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http://"))


def missing(error: ImportError) -> ConfigError:
    """How to install what tracing needs."""
    return ConfigError(f"tracing.endpoint needs the extra otel: pip install 'stampede-broker[otel]' ({error})")
