"""Settings of traces. Rule: values only."""

from __future__ import annotations

from dataclasses import dataclass

from .fields import setting


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Traces of messages, for OpenTelemetry (extra `otel`, docs/tracing.md)."""

    endpoint: str = setting("", "URL", "where spans go (OTLP, gRPC): http://… or https://…; empty: nothing is traced")
    ratio: float = setting(
        0.0, "fraction", "of the messages without a traceparent header: they begin a trace, and get one",
        "messages that have one are traced where it says so (sampled)",
    )  # fmt: skip
    most_per_s: int = setting(
        100, "messages", "traced in a second by one process; further ones are not",
        "a span is several objects and an entry of an export", most=10_000,
    )  # fmt: skip
