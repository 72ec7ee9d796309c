"""An OpenTelemetry collector: takes spans by OTLP (gRPC), as real ones do, and keeps them.

Rule: the protocol's own messages and service (opentelemetry-proto); imports nothing of the product.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from .waiting import PATIENCE_S


class Span(NamedTuple):
    name: str
    trace: str
    parent: str
    links: list[str]
    service: str
    kind: int
    error: bool
    said: dict[str, Any]
    began: int
    ended: int


class Collector:
    """spans   that have come.    requests   how many brought them."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.requests = 0
        self.port = 0

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def Export(self, request: Any, context: Any) -> Any:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

        self.requests += 1
        for resource in request.resource_spans:
            service = _said(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        Span(
                            span.name, span.trace_id.hex(), span.parent_span_id.hex(),
                            [link.span_id.hex() for link in span.links], service, span.kind, span.status.code == 2,
                            _said(span.attributes), span.start_time_unix_nano, span.end_time_unix_nano,
                        )
                    )  # fmt: skip
        return ExportTraceServiceResponse()

    def of(self, trace: str) -> list[Span]:
        return sorted((span for span in self.spans if span.trace == trace), key=lambda span: span.began)

    def until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}: {[span.name for span in self.spans]}"
            time.sleep(0.05)


@contextmanager
def collecting() -> Iterator[Collector]:
    """One that listens. Skips where the protocol's package is not installed."""
    pytest.importorskip("opentelemetry.proto.collector.trace.v1", reason="the extra otel is not installed")
    import grpc
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import add_TraceServiceServicer_to_server

    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(collector, server)
    collector.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield collector
    finally:
        server.stop(None)


def _said(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
