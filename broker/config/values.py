"""From what a person wrote to a typed value: numbers, sizes, yes/no, one of several words.

Rule: either the value means exactly what was written, or ConfigError says where it stood and what is legal.
Knows nothing of files or of how settings hang together.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from broker.core.errors import ConfigError

from .catalogue import Leaf

_WORDS = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
# 64MiB, 64Mi, 64 MiB: powers of 1024. 64MB, 64M, 10k: powers of 1000. Case does not matter.
_SIZE = re.compile(r"\s*([+-]?\d[\d_]*(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)\s*", re.IGNORECASE)
_PAIR = re.compile(r"\s*\d{1,9}\s*,\s*\d{1,9}\s*")


def coerce(leaf: Leaf, raw: Any, where: str) -> Any:
    """`raw` as the type and within the bounds of `leaf`. `where` names its origin for the error text.

    Raises ConfigError."""
    if leaf.kind is bool:
        return _truth(leaf, raw, where)
    if leaf.kind is str:
        return _text(leaf, raw, where)
    value = _whole(leaf, raw, where) if leaf.kind is int else _real(leaf, raw, where)
    if (leaf.least is not None and value < leaf.least) or (leaf.most is not None and value > leaf.most):
        refuse(leaf, raw, where)
    return value


def expected(leaf: Leaf) -> str:
    """What is legal, in words: `a whole number of bytes, at least 1 (64KiB, 10MB and the like are understood)`."""
    if leaf.kind is bool:
        return "yes or no"
    if leaf.kind is str:
        if "|" in leaf.unit:
            return "one of " + ", ".join(leaf.unit.split("|"))
        return "two whole numbers of milliseconds, like 10000,10000" if leaf.unit == "ms,ms" else "a text"
    number = "a whole number" if leaf.kind is int else "a number"
    of = "" if leaf.unit in ("factor", "fraction") else f" of {leaf.unit}"
    if leaf.unit == "TCP port":
        of = ""
    bounds = f", at least {leaf.least:g}" if leaf.least is not None else ""
    bounds += f", at most {leaf.most:g}" if leaf.most is not None else ""
    sizes = " (64KiB, 10MB and the like are understood)" if leaf.unit == "bytes" else ""
    return f"{number}{of}{bounds}{sizes}"


def refuse(leaf: Leaf, raw: Any, where: str) -> NoReturn:
    """Raises ConfigError naming the setting, where it stood, what stood there and what is legal."""
    raise ConfigError(f"{leaf.name} ({where}) is {raw!r}; it must be {expected(leaf)}.")


def _truth(leaf: Leaf, raw: Any, where: str) -> bool:
    if isinstance(raw, bool):
        return raw
    if isinstance(raw, str) and raw.strip().lower() in _WORDS:
        return _WORDS[raw.strip().lower()]
    refuse(leaf, raw, where)


def _text(leaf: Leaf, raw: Any, where: str) -> str:
    if not isinstance(raw, str) or "\0" in raw:
        refuse(leaf, raw, where)
    if "|" in leaf.unit:
        for word in leaf.unit.split("|"):
            if word.lower() == raw.strip().lower():
                return word
        refuse(leaf, raw, where)
    if leaf.unit == "ms,ms" and not _PAIR.fullmatch(raw):
        refuse(leaf, raw, where)
    return raw


def _whole(leaf: Leaf, raw: Any, where: str) -> int:
    if isinstance(raw, int) and not isinstance(raw, bool):
        return raw
    match = _SIZE.fullmatch(raw) if isinstance(raw, str) else None
    if match is None:
        refuse(leaf, raw, where)
    digits, prefix, binary, byte = match.groups()
    # `b` alone is a byte count; Ki, Mi … only make sense for bytes; 10k connections is fine.
    if (binary and not prefix) or ((binary or byte) and leaf.unit != "bytes"):
        refuse(leaf, raw, where)
    factor = (1024 if binary else 1000) ** _POWERS[prefix.lower()]
    value = float(digits.replace("_", "")) * factor if "." in digits else int(digits) * factor
    if value != int(value):
        refuse(leaf, raw, where)
    return int(value)


def _real(leaf: Leaf, raw: Any, where: str) -> float:
    if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        refuse(leaf, raw, where)
    try:
        value = float(raw)
    except ValueError:
        refuse(leaf, raw, where)
    if value != value or value in (float("inf"), float("-inf")):
        refuse(leaf, raw, where)
    return value
