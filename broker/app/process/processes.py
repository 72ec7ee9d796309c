"""How many processes serve the clients of one broker (`serve --edges`).

Rule: by settings and cores alone.
"""

from __future__ import annotations

import os
from typing import Final

from broker.config.settings import Settings
from broker.core.errors import ConfigError
from broker.core.strict_numbers import natural

AUTO: Final = "auto"
MOST: Final = 64
LEAST_CORES: Final = 4
"""With fewer the one process is the faster one (docs/benchmarks.md)."""


def processes_of(settings: Settings) -> int:
    """How many edge processes there shall be; 0: none, clients are served by the one process. Raises ConfigError."""
    wanted = settings.edge.processes
    if wanted == AUTO:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cores, MOST) if cores >= LEAST_CORES else 0
    found = natural(wanted, 3)
    if found is None or found > MOST:
        raise ConfigError(f"edge.processes is {wanted[:50]!r}; set it to auto, or a number from 0 (none) to {MOST}.")
    return found


def serving(settings: Settings) -> int:
    """How many processes have clients; each may have as many files open as one alone. Raises ConfigError."""
    return processes_of(settings) or 1
