"""What memory there is, what we have of it, and what we no longer use.

Rule: the only module that talks to the allocator, and asks the system about memory.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import gc
import os
from collections.abc import Callable
from typing import Final

_GROUPS: Final = "/sys/fs/cgroup"
_OWN_GROUP: Final = "/proc/self/cgroup"


_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_FREE_KEPT: Final = 8 * 1024 * 1024
"""Free bytes at the end of the heap that are kept; hand_back() gives those back, too."""
_OWN_MAPPING: Final = 4 * 1024 * 1024
"""A larger piece is mapped by itself, and unmapped when it is free."""
_SAID_BY: Final = ("GLIBC_TUNABLES", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
"""Variables by which an operator says what the C library shall do."""


def keep_free() -> None:
    """What a read and its answers need is kept for the next one. By itself the C library gives a heap's end back as
    soon as twice the largest piece so far is free: a read of 256 KB, its messages and what is written of them are
    mapped, cleared by the kernel and given back again each time, or not, as it happens to lie."""
    mallopt = getattr(_libc(), "mallopt", None)
    if mallopt is not None and not any([name in os.environ for name in _SAID_BY]):
        # Both: setting one ends the adjusting of the other, and what is mapped by itself is given back at once.
        mallopt(_M_MMAP_THRESHOLD, _OWN_MAPPING)
        mallopt(_M_TRIM_THRESHOLD, _FREE_KEPT)


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


def available(groups: str = _GROUPS, own: str = _OWN_GROUP) -> int:
    """Bytes that this process may have: the least limit of its control groups (a container's; v2 or v1), or what the
    machine has. 0: nobody knows."""
    found = [limit for path in _limits(groups, own) if (limit := _number(path))]
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        machine = 0
    return min([*found, machine] if machine > 0 else found, default=0)


def _limits(groups: str, own: str) -> list[str]:
    """Files that may hold a limit: of our group, and of those around it. In a container ours is mostly the root."""
    try:
        with open(own, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        lines = []
    paths = [f"{groups}/memory.max", f"{groups}/memory/memory.limit_in_bytes"]
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = (f"{groups}/memory", "memory.limit_in_bytes") if controllers else (groups, "memory.max")
        while len(group) > 1:
            paths.append(f"{base}{group}/{name}")
            group = os.path.dirname(group)
    return paths


def _number(path: str) -> int:
    """0: there is no such file, or it says `max`. What v1 says where there is no limit is more than any machine has."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def resident() -> int:
    """Bytes of this process in memory now; 0 where nobody can tell (no /proc)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def growth() -> Callable[[], int] | None:
    """Tells how much more this process has than now; None where nobody can tell."""
    base = resident()
    if not base:
        return None
    return lambda: max(resident() - base, 0)
