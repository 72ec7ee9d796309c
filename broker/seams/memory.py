"""Memory the process no longer uses. Rule: the only module that talks to the allocator."""

from __future__ import annotations

import ctypes
import ctypes.util
import gc


def hand_back() -> None:
    """Returns free memory of the C heap to the system. Takes a few milliseconds; does nothing where the C library
    has no such call (musl, macOS)."""
    gc.collect(1)
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except OSError:
        return None
