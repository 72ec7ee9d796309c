"""What was imported, as a config file: first what could not be carried over, then the settings.

Rule: the text loads; where the settings contradict each other as a whole, the file says so in its first lines.
"""

from __future__ import annotations

import json
import textwrap
from typing import Any

from broker.core.errors import ConfigError

from ..catalogue import entry_leaves, leaves
from ..describe import shown
from ..load import from_tree
from .importing import Imported

WIDTH = 118


def as_toml(found: Imported, source: str) -> str:
    """The config file. `source`: name of the file that was read, for its first line."""
    lines = [f"# Imported from {source}. See docs/importing.md."]
    contradiction = _contradiction(found)
    if contradiction:
        lines += _comment(f"to be mended before use: {contradiction}")
    for note in found.notes:
        where = f" (line {note.line})" if note.line else ""
        lines += _comment(f"not carried over: {note.what}{where}: {note.why}")
    lines += _values(found.values)
    for table, entries in found.tables.items():
        known = entry_leaves(table)
        for name, settings in entries.items():
            lines += ["", f"[{table}.{json.dumps(name, ensure_ascii=False)}]"]
            lines += [f"{key} = {shown(known[key], value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, initial_indent="# ", subsequent_indent="#   ")


def _values(values: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    table = ""
    for name in sorted(values):
        prefix, _, key = name.rpartition(".")
        if prefix != table:
            table = prefix
            lines += ["", f"[{table}]"]
        lines.append(f"{key} = {shown(leaves()[name], values[name])}")
    return lines


def _contradiction(found: Imported) -> str:
    """What the loader would say of it."""
    try:
        from_tree({**found.values, **found.tables}, "imported")
    except ConfigError as error:
        return str(error)
    return ""
