"""How a setting is written down: a dataclass field that can explain itself.

Rule: nothing of what the settings are for. `stampede serve --help` and docs/settings.md are printed from these fields.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def setting(
    default: Any, unit: str, help: str, why: str = "", *, least: float | None = None, most: float | None = None
) -> Any:
    """A dataclass field that can explain itself. `least`, `most`: bounds where those of the unit do not fit
    (see config/values.py: ports -1 … 65535, fractions 0 … 1, other numbers at least 1, or the default if lower)."""
    return field(default=default, metadata={"unit": unit, "help": help, "why": why, "least": least, "most": most})


def group(cls: type) -> Any:
    """A nested group of settings with its own defaults."""
    return field(default_factory=cls, metadata={"group": True})


def table(help: str, why: str = "") -> Any:
    """A table of named entries, each with settings of its own (catalogue.TABLES says which)."""
    return field(default_factory=dict, metadata={"unit": "table", "help": help, "why": why})
