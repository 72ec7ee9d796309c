"""Metrics and health over HTTP.

One rule: reads, never steers. Sees the rest of the process only as MetricSource and as one readiness function.
"""
