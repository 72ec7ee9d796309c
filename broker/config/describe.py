"""Settings explained: the text of `stampede serve --help`, docs/settings.md, and the effective settings as TOML.

Rule: everything printed comes from the catalogue, so it cannot go stale. Writes nothing anywhere; returns texts.
"""

from __future__ import annotations

import json
import textwrap
from typing import Any

from .catalogue import TABLES, Leaf, entry_about, entry_leaves, groups
from .fields import GIB, KIB, MIB
from .settings import Settings


def shown(leaf: Leaf, value: Any) -> str:
    """A value as TOML, sizes in the unit they were thought in (`"64MiB"`)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and leaf.unit == "bytes":
        for name, factor in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
            if value >= factor and value % factor == 0:
                return f'"{value // factor}{name}"'
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # a TOML basic string: same quotes, same escapes
    return str(value)


def variable(leaf: Leaf) -> str:
    """The environment variable of a setting."""
    return "STAMPEDE_" + leaf.name.upper().replace(".", "__")


def _meaning(leaf: Leaf) -> str:
    text = leaf.help[0].upper() + leaf.help[1:] + "."
    return f"{text} Why: {leaf.why}." if leaf.why else text


def help_text(width: int = 100) -> str:
    """Every setting with its unit, default and reason, for a terminal."""
    lines: list[str] = []
    for group in groups():
        lines += ["", f"[{group.name}]  {group.about}" if group.name else "(top)", ""]
        for leaf in group.leaves:
            default = "" if leaf.kind is dict else f", default {shown(leaf, leaf.default)}"
            lines.append(f"  {leaf.name}  ({leaf.unit}{default})")
            lines += textwrap.wrap(_meaning(leaf), width, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines[1:])


def markdown() -> str:
    """The tables of docs/settings.md."""
    lines: list[str] = []
    for group in groups():
        lines += ["", f"## [{group.name}]" if group.name else "## Top", "", group.about, ""]
        lines += ["| setting | unit | default | what it does | why this default |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(leaf) for leaf in group.leaves]
    for name in TABLES:
        lines += ["", f"## [{name}.NAME]", "", entry_about(name), ""]
        lines += ["| setting | unit | default | what it does | why this default |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(leaf) for leaf in entry_leaves(name).values()]
    return "\n".join(lines[1:]) + "\n"


def _row(leaf: Leaf) -> str:
    default = "(none)" if leaf.kind is dict else f"`{shown(leaf, leaf.default)}`"
    cells = (f"`{leaf.name}`", leaf.unit, default, leaf.help, leaf.why)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def as_toml(settings: Settings) -> str:
    """All effective settings as a config file that would give the same again."""
    lines: list[str] = []
    for group in groups():
        table: Any = settings
        for part in group.name.split(".") if group.name else ():
            table = getattr(table, part)
        if group.name:
            lines += ["", f"[{group.name}]"]
        for leaf in group.leaves:
            if leaf.kind is not dict:
                key = leaf.name.rpartition(".")[2]
                lines.append(f"{key} = {shown(leaf, getattr(table, key))}")
    for name in TABLES:
        entries: Any = settings
        for part in name.split("."):
            entries = getattr(entries, part)
        known = entry_leaves(name)
        for entry, partial in entries.items():
            lines += ["", f"[{name}.{json.dumps(entry, ensure_ascii=False)}]"]
            lines += [f"{key} = {shown(known[key], value)}" for key, value in partial.items()]
    return "\n".join(lines) + "\n"
