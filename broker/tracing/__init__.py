"""Traces: what became of single messages, as spans for OpenTelemetry (extra `otel`, docs/tracing.md)."""
