"""Bytes in and out: TCP, TLS, WebSocket; time and memory shared among connections."""
