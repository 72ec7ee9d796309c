"""gRPC's core takes some settings from the environment only, when it is first imported.

Rule: rooms that use gRPC call `prepare` in their `__init__`, so that it runs before any `import grpc` of ours. What
the environment says already stays. Imports no gRPC.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

QUIET = "NONE"
"""The core writes to stderr, past our logs: every peer that goes is a line. What matters it tells us as errors."""
EXPERIMENTS = "-event_engine_client,-event_engine_listener"
"""Sockets are read by the thread that waits for completions, as before 1.7x, instead of by a pool that hands over to
it. Measured with 1.85: 165-190 µs of CPU per round trip of two processes against 280-310, 640-730 against 960 with
256 KiB each way."""
TESTED = ((1, 76), (1, 86))
"""Releases that know these names (from, before). Others would print a line about unknown ones."""


def prepare() -> None:
    """Must run before gRPC is imported; later it has no effect."""
    os.environ.setdefault("GRPC_VERBOSITY", QUIET)
    if TESTED[0] <= _release() < TESTED[1]:
        os.environ.setdefault("GRPC_EXPERIMENTS", EXPERIMENTS)


def _release() -> tuple[int, int]:
    try:
        major, minor, *_ = version("grpcio").split(".")
        return int(major), int(minor)
    except (PackageNotFoundError, ValueError):
        return 0, 0
